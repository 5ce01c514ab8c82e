"""Requests that a server charged for and did not answer: their money stays set aside, few are repeated."""

import time
from collections import Counter

import pytest

from guard_eval.errors import StudyError
from judge.failures import Retry

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]

PRICE = (100 * 2.0 + 10 * 8.0) / 1e6
"""What the server charges for each request: 100 tokens in and 10 out, at the judge's prices."""


def lost(answer, how, fake):
    """Return what arrives instead of an answer that was made and charged."""
    if how == "reset":
        answer.drop = True
        return answer
    if how == "beside":
        answer.body = {**answer.body, "error": {"code": 504, "message": "gateway timeout"}}
        return answer
    return fake.failure(int(how), "no answer in time")


@pytest.mark.parametrize(
    ("how", "times"),
    [("504", 1), ("524", 1), ("408", 6), ("beside", 1), ("502", 6), ("520", 6), ("reset", 4)],
)
def test_what_was_charged_and_lost_is_booked_and_not_sent_beyond_its_rule(
    *, run, store, pairs, server, fake, how, times
):
    pairs(2)
    charged = Counter()

    def act(ask):
        charged[ask.digest] += 1
        return lost(fake.verdict(ask), how, fake) if "number 1" in ask.texts[0] else fake.verdict(ask)

    server.act = act
    assert run(concurrency=1).verdicts == 2
    assert sorted(charged.values()) == [1, 1, times, times]
    (spend,) = store.spending()
    assert spend.lost == 2 * times
    assert spend.usd + spend.held_usd >= PRICE * charged.total()


@pytest.mark.parametrize("how", ["504", "502", "reset"])
def test_the_budget_ends_what_is_charged_and_never_answered(*, run, store, pairs, server, fake, how):
    pairs(20)
    charged = Counter()

    def act(ask):
        charged[ask.digest] += 1
        return lost(fake.verdict(ask), how, fake) if charged.total() > 3 else fake.verdict(ask)

    server.act = act
    budget = 0.05
    for _ in range(6):
        with pytest.raises(StudyError):
            run(budget_usd=budget)
    (spend,) = store.spending()
    assert PRICE * charged.total() <= spend.usd + spend.held_usd <= budget + 1e-9


def test_an_answer_that_comes_after_the_timeout_is_booked(run, store, pairs, server, fake):
    pairs(1)

    def act(ask):
        time.sleep(0.5)
        return fake.verdict(ask)

    server.act = act
    ledger = run(concurrency=1, retry=Retry(base=0.01, longest=0.02, timeout=0.1))
    assert ledger.failures == {"timeout": 2}
    assert ledger.requests == 2
    (spend,) = store.spending()
    assert (spend.answers, spend.lost) == (0, 2)
    assert spend.held_usd >= 2 * PRICE
