"""A study that was judged before there were requests: its answers are kept, and nothing is asked again."""

from dataclasses import replace

import pytest
from alembic import command
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from guard_eval.store import Store, upgrade
from guard_eval.store.connection import Database

SECOND = """
INSERT INTO rater (id, name, kind, created_at) VALUES (1, 'judge', 'model', '2025-01-01 00:00:00');
INSERT INTO pair VALUES ('p', 'wikinews', 'n', 'Once', 'guard', 'top_p', 'c1', 'c2', 'one', 'two', 0);
INSERT INTO presentation (id, pair_id, rater_id, pool, slot, attempt, first, superseded, handed_out,
    leased_until) VALUES
    (1, 'p', 1, 'model:judge', 0, 0, 'a', {false}, '2025-01-01 00:00:00', '2025-01-01 01:00:00');
INSERT INTO answer (key, attempt, presentation_id, status, body, input_tokens, output_tokens, seconds, at)
    VALUES ('k', 0, 1, 200, {body}, 7, 3, 1.5, '2025-01-01 00:30:00')
"""


@pytest.fixture
def second_version(empty_url):
    """The URL of a database as version 0002 left it, with an answer that no verdict was read from yet."""
    database = Database(empty_url)
    with database.write() as connection:
        config = upgrade._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
        false, body = ("0", "X'7b7d'") if database.is_sqlite else ("FALSE", "'{}'")
        for statement in SECOND.format(false=false, body=body).split(";"):
            connection.execute(text(statement))
        if not database.is_sqlite:  # as the numbers were given by hand
            for table in ("rater", "presentation"):
                connection.execute(text(f"SELECT setval('{table}_id_seq', 3)"))
    database.close()
    return empty_url


def test_old_answers_are_answered_requests_of_unknown_cost(second_version, plan):
    with Store.open(second_version, create=True) as store:
        (answer,) = store.answers_of("judge")
        assert (answer.key, answer.body, answer.presentation, answer.backend) == ("k", b"{}", 1, "chat")
        (spend,) = store.spend()
        assert (spend.requests, spend.answers, spend.input_tokens, spend.unpriced) == (1, 1, 7, 1)
        run = store.begin(store.rater("judge", "model"), plan.lease)
        shown = store.claim(run, plan, 9)
        assert [each.asked for each in shown] == [True, False]
        assert shown[0].blind.presentation == 1
        store.journal(replace(answer, attempt=None))
        assert store.answers(["k"])["k"].attempt == 1
        for statement in ("UPDATE answer SET at = at", "DELETE FROM answer"):
            with (
                pytest.raises(DBAPIError, match="answer is append-only"),
                store._database.write() as connection,
            ):
                connection.execute(text(statement))
