"""A study that an earlier version made goes on where it was."""

import pytest
from alembic import command
from sqlalchemy import text

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import Store, upgrade
from guard_eval.store.connection import Database

FIRST = """
INSERT INTO meta (key, value) VALUES ('study_hash', 'as it was');
INSERT INTO rater (id, name, kind, token_hash, created_at) VALUES
    (1, 'Ann', 'person', NULL, '2025-01-01 00:00:00'), (2, 'Ben', 'person', NULL, '2025-01-01 00:00:00');
INSERT INTO pair VALUES
    ('p', 'wikinews', 'n', 'Once', 'guard', 'top_p', 'c1', 'c2', 'one', 'two', 0),
    ('q', 'wikinews', 'm', 'Twice', 'guard', 'top_p', 'c3', 'c4', 'three', 'four', 1);
INSERT INTO presentation (id, pair_id, rater_id, pool, slot, attempt, first, superseded, handed_out,
    leased_until, rated_at) VALUES
    (1, 'p', 1, 'people', 0, 0, 'a', {true}, '2025-01-01 00:00:00', '2025-01-01 01:00:00',
        '2025-01-01 02:00:00'),
    (2, 'p', 2, 'people', 0, 1, 'a', {false}, '2025-01-01 01:30:00', '2025-01-01 02:30:00',
        '2025-01-01 01:31:00'),
    (3, 'q', 2, 'people', 0, 0, 'b', {false}, '2025-01-01 01:40:00', '2025-01-01 02:40:00', NULL);
INSERT INTO verdict VALUES
    (1, 'fluency', 0, 'B', '2025-01-01 02:00:00', 1.5, NULL),
    (2, 'fluency', 0, 'A', '2025-01-01 01:31:00', 2.5, 2.0)
"""


@pytest.fixture
def first_version(store_url):
    """The URL of a database as version 0001 left it, with a row in every table a rater fills."""
    database = Database(store_url)
    with database.write() as connection:
        config = upgrade._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        values = {"true": "1", "false": "0"} if database.is_sqlite else {"true": "TRUE", "false": "FALSE"}
        for statement in FIRST.format(**values).split(";"):
            connection.execute(text(statement))
        if not database.is_sqlite:  # as the numbers were given by hand
            for table in ("rater", "presentation"):
                connection.execute(text(f"SELECT setval('{table}_id_seq', 3)"))
    database.close()
    return store_url


def test_what_was_rated_keeps_its_meaning(first_version, plan):
    with pytest.raises(StudyError, match=r"schema version 0001, this package \d+; run"):
        Store.open(first_version)
    with Store.open(first_version, create=True) as store:
        assert store.study_hash() == "as it was"
        (row,) = store.tidy()
        assert (row.rater, row.verdict, row.position, row.excluded) == ("Ben", "guard", "A", False)
        assert [(row.rater, row.surplus) for row in store.tidy(include_surplus=True)] == [
            ("Ann", True),
            ("Ben", False),
        ]
        assert [(row.role, row.excluded) for row in store.history()] == [("study", False)] * 2
        assert store.notes() == store.checks() == store.gold() == []
        assert [(row.name, row.excluded, row.external_id) for row in store.raters()] == [
            ("Ann", False, None),
            ("Ben", False, None),
        ]


def test_the_study_goes_on(first_version, plan, clock):
    with Store.open(first_version, create=True, clock=clock) as store:
        ann, ben = (Rater(id=id_, name=name, kind="person") for id_, name in ((1, "Ann"), (2, "Ben")))
        assert [blind.presentation for blind in store.hand_out(ben, plan)] == [3]  # it was open
        assert store.progress(ann, plan) == (1, 1)
        (blind,) = store.hand_out(ann, plan)
        assert blind.presentation > 3
        store.save(blind.presentation, {"fluency": "tie"}, rater=ann, comment="at last")
        store.exclude("Ben", "why", "who")
        eve, _ = store.invite("Eve")
        assert len(store.hand_out(eve, plan, limit=9)) == 2
        assert store.enrol("id", "prolific")[0].name == "P-1"
    with Store.open(first_version) as store:
        assert [note.detail for note in store.notes(kind="comment")] == ["at last"]
