"""The judge's answers, as they came, and what it could not judge."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from guard_eval.errors import StudyError
from guard_eval.store import Answer, Failure


@pytest.fixture
def judged(store, make_pairs, plan, claim):
    """A model and its presentations."""
    store.add_pairs(make_pairs(2))
    judge = store.rater("judge", "model")
    return judge, [blind.presentation for blind in claim(store, judge, plan, 4)]


def answer(presentation, **changes):
    base = Answer(
        key="0" * 64,
        presentation=presentation,
        status=200,
        body=b"\x00\xff raw \r\n bytes",
        request_id="req\x00\ud800",
        model="judge-2026-01-01",
        input_tokens=812,
        output_tokens=64,
        seconds=1.25,
        at=datetime(2026, 5, 6, 7, 8, 9, 123456, tzinfo=UTC),
    )
    return replace(base, **changes)


def test_an_answer_comes_back_as_it_was(store, judged):
    _, numbers = judged
    first = answer(numbers[0])
    second = answer(
        numbers[1], key="1" * 64, body=b"", request_id=None, model=None, input_tokens=None, output_tokens=None
    )
    store.journal(first)
    store.journal(second)
    kept = store.answers([first.key, second.key, "2"])
    assert kept == {each.key: replace(each, attempt=0) for each in (first, second)}
    assert store.answered() == {first.key, second.key}
    assert list(store.answers_of("judge")) == list(kept.values())


def test_a_moment_comes_back_in_utc(store, judged):
    _, numbers = judged
    local = datetime(2026, 5, 6, 9, 8, 9, tzinfo=timezone(timedelta(hours=2)))
    store.journal(answer(numbers[0], at=local))
    stored = store.answers(["0" * 64])["0" * 64].at
    assert (stored, stored.utcoffset()) == (local, timedelta(0))


def test_the_newest_complete_answer_is_current_and_all_are_kept(store, judged):
    from sqlalchemy import select

    from guard_eval.store.judging import schema

    _, numbers = judged
    entries = [
        answer(numbers[0], status=status, body=body)
        for status, body in ((200, b"1"), (200, b"2"), (429, b"3"))
    ]
    for entry in entries:
        store.journal(entry)
    assert store.answers(["0" * 64]) == {"0" * 64: replace(entries[1], attempt=1)}
    with store._database.read() as connection:
        kept = connection.execute(select(schema.answer).order_by(schema.answer.c.attempt)).all()
    assert [(row.attempt, row.status, row.body) for row in kept] == [
        (0, 200, b"1"),
        (1, 200, b"2"),
        (2, 429, b"3"),
    ]


def test_an_error_is_no_answer(store, judged):
    _, numbers = judged
    store.journal(answer(numbers[0], status=500))
    assert store.answered() == set()


def test_an_answer_to_nothing_is_refused(store, judged):
    with pytest.raises(StudyError, match="no presentation 4711"):
        store.journal(answer(4711))
    with pytest.raises(StudyError, match="key of the answer"):
        store.journal(answer(judged[1][0], key=""))
    assert store.answered() == set()


def test_a_failure_counts_until_there_is_a_verdict(store, judged, clock):
    judge, numbers = judged
    store.fail(numbers[0], "unparsable", "no letter in \x00 '…'")
    clock.advance(seconds=1)
    store.fail(numbers[1], "refusal", "")
    expected = [
        Failure(
            presentation=numbers[0],
            rater="judge",
            kind="unparsable",
            detail="no letter in \x00 '…'",
            at=clock() - timedelta(seconds=1),
        ),
        Failure(presentation=numbers[1], rater="judge", kind="refusal", detail="", at=clock()),
    ]
    assert store.failures() == expected
    assert store.tidy() == []
    store.save(numbers[0], {"fluency": "A"}, rater=judge)
    assert store.failures() == expected[1:]


def test_a_failure_of_nothing_is_refused(store):
    with pytest.raises(StudyError, match="no presentation 1"):
        store.fail(1, "refusal", "")


def test_a_failed_presentation_is_claimed_again(store, judged, plan, claim):
    judge, numbers = judged
    store.fail(numbers[0], "timeout", "after 60 s")
    assert claim(store, judge, plan)[0].presentation == numbers[0]
