"""Exchanges with judges, read again from the store."""

import hashlib

import pytest
from judged import LEASE, answer, planned
from sqlalchemy import func, select

from guard_eval.store import Settlement, Store, Unjudged
from guard_eval.store.judging.schema import sent, sent_form


@pytest.fixture
def judged(store, make_pairs, plan):
    """A model that was shown two pairs in both orders, and its run."""
    store.add_pairs(make_pairs(2))
    judge = store.rater("judge", "model")
    run = store.begin(judge, LEASE)
    return judge, run, store.claim(run, plan, 4)


def test_a_request_is_kept_from_the_moment_in_which_it_may_be_sent(store, judged, clock):
    _, run, showings = judged
    first, second = (showing.blind.presentation for showing in showings[:2])
    body = b'{"model": "m"}\x00\xff' * 300
    (right,) = store.record(run, planned=[planned("a", first, body=body)])
    (open_one,) = list(store.exchanges())
    assert [(each.state, each.sent, each.answer) for each in open_one.attempts] == [("open", body, None)]
    store.record(run, settled=[Settlement(key="a", attempt=right.attempt, state="lost")])
    clock.advance(seconds=1)
    (right,) = store.record(run, planned=[planned("a", first, body=body + b"2")])
    came = answer(right, first, at=clock())
    store.record(run, answers=[came])
    store.save(first, {"fluency": "B", "coherence": "tie"}, rater=judged[0])
    store.save(first, {"fluency": "A"}, rater=judged[0])
    store.record(run, unjudged=[Unjudged(presentation=second, kind="timeout", detail="after 60 s")])
    judged_one, failed = store.exchanges(judge="judge")
    assert [(each.attempt, each.state, each.sent, each.answer) for each in judged_one.attempts] == [
        (0, "lost", body, None),
        (1, "answered", body + b"2", came),
    ]
    assert judged_one.choices == {"fluency": "A", "coherence": "tie"}
    assert (judged_one.blind, judged_one.sample) == (showings[0].blind, 0)
    assert (failed.presentation, failed.attempts, failed.choices) == (second, (), {})
    assert [(each.rater, each.kind, each.detail) for each in failed.failures] == [
        ("judge", "timeout", "after 60 s")
    ]
    assert judged_one.pair_id != failed.pair_id or {judged_one.order, failed.order} == {"a", "b"}


def test_what_may_not_be_sent_is_not_kept(store, judged):
    _, run, showings = judged
    number = showings[0].blind.presentation
    outcomes = store.record(
        run, planned=[planned("a", number, usd=2.0, body=b"x"), planned("b", 999, body=b"y")], limit_usd=1.0
    )
    assert outcomes == ["budget", "not_claimed"]
    assert list(store.exchanges()) == []


def test_an_answer_to_the_same_request_about_another_pair_is_shown_there_too(store, judged):
    _, run, showings = judged
    first, second = (showing.blind.presentation for showing in showings[:2])
    (right,) = store.record(run, planned=[planned("a", first, body=b"x")])
    store.record(run, answers=[answer(right, first)])
    store.record(run, planned=[planned("a", second, body=b"x")])  # answered already: sent no second time
    found = {each.presentation: each.attempts for each in store.exchanges()}
    assert {number: len(attempts) for number, attempts in found.items()} == {first: 1, second: 1}
    assert found[first] == found[second]


def test_the_requests_of_a_batch_are_kept_with_it(store, judged):
    _, run, showings = judged
    numbers = [showing.blind.presentation for showing in showings]
    store.add_batch(run, [planned(str(n), n, style="batch", body=b"%d" % n) for n in numbers])
    found = {each.presentation: each.attempts for each in store.exchanges()}
    assert {n: [each.sent for each in attempts] for n, attempts in found.items()} == {
        n: [b"%d" % n] for n in numbers
    }


def test_they_come_by_pair_and_judge_and_of_one_pair_or_judge_where_wanted(store, judged, plan, make_pairs):
    other = store.rater("another", "model")
    run = store.begin(other, LEASE)
    shown = store.claim(run, plan, 4)
    for owner, showings in ((judged[1], judged[2]), (run, shown)):
        for showing in reversed(showings):
            number = showing.blind.presentation
            store.record(owner, planned=[planned(f"{owner.id}-{number}", number, body=b"x")])
    person, _ = store.invite("Ann")
    for blind in store.hand_out(person, plan, limit=2):
        store.save(blind.presentation, {"fluency": "A"}, rater=person)
    positions = {pair.id: pair.position for pair in store.pairs()}
    found = list(store.exchanges())
    assert [(positions[each.pair_id], each.rater) for each in found] == sorted(
        (positions[each.pair_id], each.rater) for each in found
    )
    assert len(found) == 8
    one = found[0].pair_id
    assert list(store.exchanges(pair_id=one)) == [each for each in found if each.pair_id == one]
    assert list(store.exchanges(pair_id=one, judge="judge")) == [
        each for each in found if each.pair_id == one and each.rater == "judge"
    ]
    assert list(store.exchanges(judge="nobody")) == []


def test_requests_of_any_length_come_back_whole_and_take_little(store, judged, store_url, clock):
    _, run, showings = judged
    words = " ".join(hashlib.sha256(b"%d" % number).hexdigest() for number in range(100))
    like = [f"{words} and of its own {number}".encode() for number in range(3)]
    other = [b"", bytes(range(256)) * 1000]
    number = showings[0].blind.presentation
    bodies = [*like, *other]
    planned_ones = [planned(str(place), number, usd=0, body=body) for place, body in enumerate(bodies)]
    store.record(run, planned=planned_ones[:1])
    with Store.open(store_url, clock=clock) as another:  # as another process would
        another.record(run, planned=[*planned_ones[1:], planned("x", number, usd=0, shape="s", body=like[0])])
        (exchange,) = another.exchanges()
    assert [attempt.sent for attempt in exchange.attempts] == [*bodies, like[0]]
    with store._database.read() as connection:
        sizes = [row.size for row in connection.execute(select(func.length(sent.c.body).label("size")))]
        assert connection.execute(select(func.count()).select_from(sent_form)).scalar_one() == 2
    assert sorted(sizes)[3] < 100 < len(like[0])
