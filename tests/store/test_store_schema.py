"""What the database itself refuses, and how its schema is brought up to date."""

import shutil
from contextlib import contextmanager
from dataclasses import replace
from inspect import unwrap

import pytest
from judged import answer, fail, planned
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from guard_eval.errors import StudyError
from guard_eval.records import Gold
from guard_eval.store import Store, connection, upgrade
from guard_eval.store.schema import VERSION_TABLE

pytestmark = pytest.mark.slow


def execute(store, statement):
    """Run a statement in a transaction; return the first value of its rows, if it has any."""
    with store._database.engine.connect() as connection, connection.begin():
        result = connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None


NEWEST = upgrade._known(upgrade.MIGRATIONS)[-1]
NEXT = f"{int(NEWEST) + 1:04}"


@pytest.fixture
def filled(store, make_pairs, plan, clock, claim):
    """A store with rows in every table that keeps them as they came."""
    store.add_pairs(make_pairs(2))
    gold = replace(make_pairs(1)[0], id="gold")
    store.add_gold([Gold(pair=gold, expected={"fluency": "a"})])
    ann, _ = store.invite("Ann")
    store.note(ann, "consent", "yes")
    store.assign(["Ann"], plan)
    judge = store.rater("judge", "model")
    number = claim(store, judge, plan)[0].presentation
    store.save(number, {"fluency": "A"}, rater=judge)
    fail(store, judge, number)
    run = store.begin(judge, plan.lease)
    (right,) = store.record(run, planned=[planned("k", body=b"{}")])
    store.record(run, answers=[answer(right, at=clock())])
    store.end(run)
    return store


APPEND_ONLY = {
    "verdict": "at",
    "answer": "at",
    "sent": "body",
    "sent_form": "body",
    "note": "at",
    "pair": "prompt",
    "gold": "expected",
    "assignment": "first",
}


def test_what_was_collected_cannot_be_changed_or_removed(filled):
    for table, column in APPEND_ONLY.items():
        before = execute(filled, f"SELECT count(*) FROM {table}")
        for statement in (f"UPDATE {table} SET {column} = {column}", f"DELETE FROM {table}"):
            with pytest.raises(DBAPIError, match=f"{table} is append-only"):
                execute(filled, statement)
            with pytest.raises(DBAPIError, match=f"{table} is append-only"):
                execute(filled, f"{statement} WHERE 1 = 1")
        assert execute(filled, f"SELECT count(*) FROM {table}") == before > 0


@pytest.mark.postgres
def test_postgresql_does_not_truncate_them_either(postgres_url):
    with Store.open(postgres_url, create=True) as store:
        for table in APPEND_ONLY:
            with pytest.raises(DBAPIError, match="append-only"):
                execute(store, f"TRUNCATE {table} CASCADE")


VERDICT = "INSERT INTO verdict (presentation_id, criterion, revision, choice, at)"
SHOWN = "pair_id, rater_id, pool, slot, first, handed_out, leased_until"
PRESENTATION = f"INSERT INTO presentation ({SHOWN}, attempt, superseded)"


@pytest.mark.parametrize(
    "statements",
    [
        {
            "a choice that is none": f"{VERDICT} SELECT 1, 'x', 0, 'C', at FROM verdict",
            "a negative revision": f"{VERDICT} SELECT 1, 'x', -1, 'A', at FROM verdict",
            "a verdict on nothing": f"{VERDICT} SELECT 99, 'x', 0, 'A', at FROM verdict",
            "a revision twice": "INSERT INTO verdict SELECT * FROM verdict",
            "an attempt twice": "INSERT INTO answer SELECT * FROM answer",
        },
        {
            "a third side": "UPDATE presentation SET first = 'c'",
            "a negative slot": "UPDATE presentation SET slot = -1",
            "a showing of nothing": "UPDATE presentation SET pair_id = 'none'",
            "a showing to nobody": "UPDATE presentation SET rater_id = 99",
            "a role that is none": "UPDATE presentation SET role = 'test'",
            "a second holder": f"{PRESENTATION} SELECT {SHOWN}, attempt + 1, superseded FROM presentation",
            "an attempt twice": f"{PRESENTATION} SELECT {SHOWN}, attempt, 1 = 1 FROM presentation",
        },
        {
            "a kind that is none": "UPDATE rater SET kind = 'robot'",
            "an id from outside twice": "UPDATE rater SET source = 'x', external_id = 'y'",
            "gold without pair": "INSERT INTO gold VALUES ('none', 'fluency', 'a')",
            "gold without answer": "INSERT INTO gold SELECT id, 'x', 'c' FROM pair",
            "a note on nobody": "INSERT INTO note (id, rater_id, kind, detail, at) "
            "SELECT 9, 99, kind, '', at FROM note",
            "verdicts without rater": "DELETE FROM rater",
            "verdicts without pair": "DELETE FROM pair",
        },
    ],
    ids=["collected", "presentation", "study"],
)
def test_the_database_itself_refuses(filled, statements):
    for statement in statements.values():
        with pytest.raises(DBAPIError):
            execute(filled, statement)


def test_a_person_cannot_hold_a_pair_twice_even_by_hand(store, make_pairs, plan):
    store.add_pairs(make_pairs(1))
    store.hand_out(store.invite("Ann")[0], plan)
    columns = "pair_id, rater_id, pool, attempt, first, handed_out, leased_until, superseded"
    with pytest.raises(
        DBAPIError, match=r"uq_presentation_once|presentation\.rater_id, presentation\.pair_id"
    ):
        execute(store, f"INSERT INTO presentation ({columns}, slot) SELECT {columns}, 1 FROM presentation")


def test_sqlite_is_set_up_to_keep_what_it_acknowledges(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "_set_up_sqlite", unwrap(connection._set_up_sqlite))
    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        found = {
            name: execute(store, f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 60_000,
    }  # 2 is FULL


@pytest.mark.postgres
def test_postgresql_waits_for_the_disk_even_where_the_server_does_not(postgres_server):
    url = postgres_server.new_database()
    with Store.open(url, create=True) as store:
        name = store._database.url.database
        execute(store, f"ALTER DATABASE {name} SET synchronous_commit = off")
        execute(store, f"ALTER DATABASE {name} SET timezone = 'Asia/Kathmandu'")
    with Store.open(url) as store:
        assert execute(store, "SHOW synchronous_commit") == "on"
        assert execute(store, "SHOW timezone") == "Asia/Kathmandu"
    postgres_server.drop_database(url)


def test_creating_again_changes_nothing(filled, store_url):
    rows = filled.tidy()
    with Store.open(store_url, create=True) as again:
        assert again.tidy() == rows


@pytest.fixture
def next_version(tmp_path, monkeypatch):
    """Give the package one more migration, which adds a column and ends with the line that is given."""

    @contextmanager
    def next_version(last_line):
        folder = tmp_path / "migrations"
        shutil.copytree(upgrade.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "versions" / f"v{NEXT}_next.py").write_text(
            "import sqlalchemy as sa\nfrom alembic import op\n\n"
            f"revision = '{NEXT}'\ndown_revision = '{NEWEST}'\n\n\n"
            f"def upgrade():\n    op.add_column('meta', sa.Column('note', sa.Text))\n    {last_line}\n"
        )
        with monkeypatch.context() as patch:
            patch.setattr(upgrade, "MIGRATIONS", folder)
            yield

    return next_version


def test_an_older_schema_is_brought_up_to_date_and_a_newer_one_is_not_touched(
    filled, store_url, next_version
):
    rows = filled.tidy()
    with next_version("pass"):
        with pytest.raises(
            StudyError, match=f"has schema version {NEWEST}, this package {NEXT}; run: guard-eval db STUDY up"
        ):
            Store.open(store_url)
        with Store.open(store_url, create=True) as upgraded:
            assert upgraded.tidy() == rows
            assert execute(upgraded, "SELECT count(note) FROM meta") == 0
    for create in (False, True):
        with pytest.raises(
            StudyError, match=f"schema version {NEXT}, which .* newest is {NEWEST}; .*pip install"
        ):
            Store.open(store_url, create=create)


def test_a_migration_that_fails_leaves_the_database_as_it_was(filled, store_url, next_version):
    rows = filled.tidy()
    with next_version("raise RuntimeError('half way')"), pytest.raises(RuntimeError, match="half way"):
        Store.open(store_url, create=True)
    with Store.open(store_url) as untouched:
        assert untouched.tidy() == rows
        with untouched._database.read() as connection:
            assert "note" not in {column["name"] for column in inspect(connection).get_columns("meta")}


@pytest.mark.parametrize("create", [False, True])
def test_a_database_from_before_the_first_release_that_lacks_a_column_is_named(filled, store_url, create):
    """Which an earlier commit made under the same version."""
    rows = filled.tidy()
    with filled._database.write() as connection:
        connection.execute(text("DROP INDEX ix_presentation_skipped"))
        connection.execute(text("ALTER TABLE presentation RENAME COLUMN skipped TO skipt"))
    with pytest.raises(StudyError, match=r"earlier guard-eval, .* lacks presentation\.skipped; read it with"):
        Store.open(store_url, create=create)
    with filled._database.write() as connection:
        connection.execute(text("ALTER TABLE presentation RENAME COLUMN skipt TO skipped"))
    with Store.open(store_url) as again:
        assert again.tidy() == rows


@pytest.mark.parametrize("versions", [[], ["0000"], ["abc"], [NEWEST, NEXT]])
def test_a_database_of_an_unknown_version_is_not_touched(store, store_url, versions):
    execute(store, f"DELETE FROM {VERSION_TABLE}")
    for version in versions:
        execute(store, f"INSERT INTO {VERSION_TABLE} VALUES ('{version}')")
    found = " and ".join(versions) or "none"
    for create in (False, True):
        with pytest.raises(StudyError, match=f"schema version {found}, which this package does not know"):
            Store.open(store_url, create=create)
    assert execute(store, f"SELECT count(*) FROM {VERSION_TABLE}") == len(versions)
