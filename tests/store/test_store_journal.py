"""The judge's answers, as they came, and what it could not judge."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from judged import LEASE, answer, fail, planned

from guard_eval.store import Failure, Usage


@pytest.fixture
def judged(store, make_pairs, plan):
    """A model, a run of it, and its presentations."""
    store.add_pairs(make_pairs(2))
    judge = store.rater("judge", "model")
    run = store.begin(judge, LEASE)
    return judge, run, [showing.blind.presentation for showing in store.claim(run, plan, 4)]


@pytest.fixture
def journal(store, judged):
    """Reserve a request and record the answer to it."""

    def write(key, number, **changes):
        (right,) = store.record(judged[1], planned=[planned(key, number)])
        made = answer(right, number, **changes)
        store.record(judged[1], answers=[made])
        return made

    return write


def test_an_answer_comes_back_as_it_was(store, judged, journal):
    local = datetime(2026, 5, 6, 9, 8, 9, 123456, tzinfo=timezone(timedelta(hours=2)))
    numbers = judged[2]
    first = journal("0", numbers[0], body=b"\x00\xff raw \r\n bytes", request_id="req\x00\ud800")
    second = journal("1", numbers[1], body=b"", usage=Usage(), usd=None, at=local)
    stored = store.answers(["0", "1", "2"])
    assert stored == {"0": first, "1": replace(second, at=local.astimezone(UTC))}
    assert stored["1"].at.utcoffset() == timedelta(0)
    assert store.answered() == {"0", "1"}
    assert list(store.answers_of("judge")) == list(stored.values())


def test_the_newest_complete_answer_is_current_and_an_error_is_none(store, judged, journal):
    number = judged[2][0]
    journal("0", number, status=500)
    assert store.answered() == set()
    later = journal("0", number, body=b"later")
    assert later.attempt == 1
    assert store.answers(["0"]) == {"0": later}


def test_a_failure_counts_until_there_is_a_verdict(store, judged, clock):
    judge, _, numbers = judged
    fail(store, judge, numbers[0], "unparseable", "no letter in \x00 '…'")
    clock.advance(seconds=1)
    fail(store, judge, numbers[1])
    common = {"rater": "judge"}
    expected = [
        Failure(
            presentation=numbers[0],
            kind="unparseable",
            detail="no letter in \x00 '…'",
            at=clock() - timedelta(seconds=1),
            **common,
        ),
        Failure(presentation=numbers[1], kind="refusal", detail="", at=clock(), **common),
    ]
    assert store.failures() == expected
    assert store.tidy() == []
    store.save(numbers[0], {"fluency": "A"}, rater=judge)
    assert store.failures() == expected[1:]


def test_a_failed_presentation_is_claimed_again(store, judged, plan, claim):
    judge, run, numbers = judged
    fail(store, judge, numbers[0], "timeout", "after 60 s")
    store.end(run)
    assert claim(store, judge, plan)[0].presentation == numbers[0]
