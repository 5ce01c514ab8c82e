"""Studies that earlier versions made: all that was there is there, under today's tables, and they go on.

`earlier/` has them as those versions made them: tables and rows in SQL, of either database system.
"""

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import Store, upgrade
from guard_eval.store.checksum import checksum
from guard_eval.store.connection import Database
from guard_eval.store.copying import copy
from guard_eval.store.schema import VERSION_TABLE, metadata

EARLIER = Path(__file__).parent / "earlier"
VERSIONS = sorted({path.name[:4] for path in EARLIER.glob("*.sql")})
COUNTED = {
    "0001": {"pair": 4, "rater": 5, "presentation": 10, "verdict": 15, "answer": 2, "failure": 1, "meta": 1},
    "0002": {"pair": 7, "gold": 1, "assignment": 2, "note": 2, "visit": 1, "rater": 7},
    "0003": {"pair": 7, "gold": 1, "assignment": 2, "note": 2, "run": 1, "request": 3, "answer": 2},
}
"""How many rows `earlier/make.py` made, counted in its text."""


@pytest.fixture(params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def earlier(version, database_kind, request, tmp_path, databases):
    """The URL of a study as that version left it."""
    script = (EARLIER / f"{version}.{database_kind}.sql").read_text(encoding="utf-8")
    if database_kind == "sqlite":
        with closing(sqlite3.connect(tmp_path / "study.db")) as database:
            database.executescript(script)
        yield f"sqlite:///{tmp_path / 'study.db'}"
        return
    import psycopg

    server = request.getfixturevalue("postgres_server")
    url = server.new_database()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(script)
    yield url
    server.drop_database(url)


def rows_of(url):
    """Return every row of every table, by the columns' names, as the driver gives it."""
    database = Database(url)
    with database.read() as connection:
        names = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
        found = {
            name: [dict(row) for row in connection.execute(text(f'SELECT * FROM "{name}"')).mappings()]
            for name in names
        }
    database.close()
    return found


def key_of(row):
    return tuple(sorted((name, repr(value)) for name, value in row.items()))


@pytest.mark.both_databases
def test_all_that_was_there_is_there(earlier, version):
    before = rows_of(earlier)
    for table, count in COUNTED[version].items():
        assert len(before[table]) == count, table
    newest = upgrade._known(upgrade.MIGRATIONS)[-1]
    with pytest.raises(StudyError, match=f"has schema version {version}, this package {newest}"):
        Store.open(earlier)
    Store.open(earlier, create=True).close()
    after = rows_of(earlier)
    for table, rows in before.items():
        columns = rows[0].keys() if rows else ()
        kept = [{name: row[name] for name in columns} for row in after[table]]
        assert not Counter(map(key_of, rows)) - Counter(map(key_of, kept)), table
        if table != "meta":  # where hand-out may count
            assert len(kept) == len(rows), table
    made = {table: rows for table, rows in after.items() if rows and table not in before}
    if version < "0003":
        assert {(row["key"], row["state"], row["reserved"]) for row in made.pop("request")} == {
            (row["key"], "answered", None) for row in before["answer"]
        }
    assert set(made) <= {"occupancy"}  # which is counted from the others


@pytest.mark.both_databases
def test_its_tables_are_those_of_a_new_study(earlier):
    Store.open(earlier, create=True).close()
    database = Database(earlier)
    with database.read() as connection:
        options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        for table, column in (("verdict", "at"), ("answer", "at"), ("pair", "prompt")):
            for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
                with (
                    pytest.raises(Exception, match=f"{table} is append-only"),
                    connection.begin_nested(),
                ):
                    connection.execute(text(statement + " WHERE 1 = 1"))
    database.close()


@pytest.mark.both_databases
def test_the_study_goes_on_where_it_was(earlier, version, plan):
    now = datetime(2025, 3, 4, 6, 40, tzinfo=UTC)
    with Store.open(earlier, create=True, clock=lambda: now) as store:
        assert store.study_hash() == "as it was"
        rows = [row for row in store.tidy() if row.rater_kind == "person"]
        assert {(row.rater, row.criterion) for row in rows} >= {("Ann", "fluency"), ("Ann", "coherence")}
        (fluency,) = (row for row in rows if (row.rater, row.criterion) == ("Ann", "fluency"))
        assert (fluency.position, fluency.seconds) == ("B", None)  # the second thought
        (coherence,) = (row for row in rows if (row.rater, row.criterion) == ("Ann", "coherence"))
        assert (coherence.seconds, coherence.active_seconds) == (1 / 3, 0.1)
        late = [row for row in store.tidy(include_surplus=True, include_excluded=True) if row.surplus]
        assert {(row.rater, row.criterion) for row in late} == {("Late", "fluency"), ("Late", "coherence")}
        ann = Rater(id=1, name="Ann", kind="person")
        (open_,) = store.hand_out(ann, plan)
        store.save(open_.presentation, {"fluency": "tie"}, rater=ann)
        eve, _ = store.invite("Eve")
        assert eve.id > max(row["id"] for row in rows_of(earlier)["rater"] if row["name"] != "Eve")
        given = store.hand_out(eve, plan)
        assert {blind.presentation for blind in given}.isdisjoint(row.presentation for row in rows)
        judge = store.rater("judge", "model")
        run = store.begin(judge, timedelta(minutes=5))
        shown = store.claim(run, plan, 99)
        assert any(each.asked for each in shown)  # a paid answer that was not read yet is found
        assert len({row.presentation for row in store.tidy() if row.rater == "judge"}) == 1
        balance = store.balance()
        assert all(abs(pair.a_first - pair.b_first) <= 2 for pair in balance.pairs)


@pytest.mark.both_databases
def test_it_is_copied_to_the_other_system_and_back(earlier, version, database_kind, databases, tmp_path):
    Store.open(earlier, create=True).close()
    before = checksum(earlier)
    other = databases.new("postgres" if database_kind == "sqlite" else "sqlite", tmp_path)
    assert copy(earlier, other).digest == before
    back = f"sqlite:///{tmp_path / 'back.db'}"
    assert copy(other, back).digest == checksum(back) == before
    databases.drop(other)
