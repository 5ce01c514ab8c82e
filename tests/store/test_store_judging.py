"""What a judge's runs may claim and send: nothing by two of them, and never above the budget."""

import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from judged import LEASE, USAGE, answer, planned

from guard_eval.errors import StudyError
from guard_eval.records import JudgeSpending
from guard_eval.store import Judgment, Reservation, Settlement, Store, Unjudged
from guard_eval.store.judging import runs


@pytest.fixture
def judge(store, make_pairs):
    store.add_pairs(make_pairs(3))
    return store.rater("judge", "model")


@pytest.fixture
def run(store, judge):
    return store.begin(judge, LEASE)


@pytest.fixture
def elsewhere(monkeypatch):
    """Let what is begun by it look as if it ran on another machine."""

    def begin(store, judge, lease=LEASE):
        with monkeypatch.context() as patched:
            patched.setattr(runs, "_host", lambda: "another machine")
            return store.begin(judge, lease)

    return begin


def numbers(showings):
    return [showing.blind.presentation for showing in showings]


def test_a_run_claims_each_showing_once_and_another_takes_the_rest(store, judge, run, plan):
    first = store.claim(run, plan, 4)
    other = store.begin(judge, LEASE)
    second = store.claim(other, plan, 99)
    assert len(first) == 4
    assert len({*numbers(first), *numbers(second)}) == 6
    assert store.claim(run, plan, 99) == store.claim(other, plan, 99) == []
    assert store.elsewhere(other) == (4, True)


def test_a_run_ends_where_the_pairs_were_drawn_again_meanwhile(store, judge, run, plan, make_pairs):
    """As many as before: it must neither show what is removed nor judge what nobody planned for it."""
    store.judge_progress(run.rater, plan)
    store.replace_pairs([replace(pair, id=pair.id[::-1]) for pair in make_pairs(3)])
    with pytest.raises(StudyError, match="drawn again while this judge was running; run it again"):
        store.claim(run, plan, 4)
    assert len(store.claim(store.begin(judge, LEASE), plan, 99)) == 6


def test_what_a_run_gave_up_is_claimed_again(store, judge, run, plan):
    given = store.claim(run, plan, 2)
    (right,) = store.record(run, planned=[planned("k", given[0].blind.presentation)])
    store.record(run, answers=[answer(right, given[0].blind.presentation)])
    store.end(run)
    again = store.claim(store.begin(judge, LEASE), plan, 2)
    assert [each.blind for each in again] == [given[0].blind, given[1].blind]


def test_claims_hold_for_a_lease_and_longer_while_they_are_renewed(*, store, judge, elsewhere, plan, clock):
    far = elsewhere(store, judge)
    held = store.claim(far, plan, 6)
    other = store.begin(judge, LEASE)
    assert store.claim(other, plan, 6) == []
    assert store.elsewhere(other) == (6, False)  # nothing is known of another machine but its lease
    clock.advance(seconds=50)
    store.renew(far)
    clock.advance(seconds=50)
    assert store.claim(other, plan, 6) == []
    clock.advance(seconds=11)
    assert numbers(store.claim(other, plan, 6)) == numbers(held)
    (outcome,) = store.record(far, planned=[planned("k", held[0].blind.presentation)])
    assert outcome == "not_claimed"  # it came back too late, and must not send what another run does


CLAIMER = """
import sys
from datetime import timedelta
from guard_eval.records import Plan
from guard_eval.store import Store
store = Store.open(sys.argv[1])
run = store.begin(store.rater("judge", "model"), timedelta(hours=1))
print(len(store.claim(run, Plan(seed=7, slots=2, lease=timedelta(hours=1)), 4)), flush=True)
sys.stdin.read()
"""


def test_claims_of_a_killed_process_are_free_at_once(store_url, make_pairs, plan):
    with Store.open(store_url, create=True) as store:
        store.add_pairs(make_pairs(3))
        process = subprocess.Popen(
            [sys.executable, "-c", CLAIMER, store_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"4\n"
        run = store.begin(store.rater("judge", "model"), LEASE)
        assert len(store.claim(run, plan, 99)) == 2
        known = runs._process(process.pid)
        process.kill()  # and not waited for: a process that has ended is over even so
        while runs.is_running(known):
            time.sleep(0.001)
        assert len(store.claim(run, plan, 99)) == 4
        process.communicate()


def test_pairs_added_while_a_run_goes_on_are_claimed_too(store, judge, run, make_pairs, plan):
    assert len(store.claim(run, plan, 99)) == 6
    store.add_pairs(make_pairs(5))
    assert len(store.claim(run, plan, 99)) == 4


def test_a_request_is_sent_by_one_and_answered_for_all(*, store, judge, run, plan):
    number = store.claim(run, plan, 1)[0].blind.presentation
    other = store.begin(judge, LEASE)
    theirs = store.claim(other, plan, 1)[0].blind.presentation
    (right,) = store.record(run, planned=[planned("same", number)])
    assert right == Reservation(key="same", attempt=0, usd=0.25)
    assert store.record(other, planned=[planned("same", theirs)]) == ["elsewhere"]
    assert store.record(run, planned=[planned("x", theirs)]) == ["not_claimed"]
    came = answer(right, number)
    store.record(run, answers=[came])
    assert store.record(other, planned=[planned("same", theirs)]) == [came]
    assert list(store.answers_of("judge")) == [came, replace(came, presentation=theirs)]
    assert (store.spending()[0].requests, store.spending()[0].usd) == (1, 0.1)


def test_what_was_lost_keeps_its_money_and_what_was_not_billed_frees_it(store, judge, run):
    rights = store.record(run, planned=[planned(key) for key in "abc"], limit_usd=1.0)
    assert store.record(run, planned=[planned("d", usd=0.26)], limit_usd=1.0) == ["budget"]
    lost, free, unknown = rights
    settled = [
        Settlement(key=lost.key, attempt=0, state="lost"),
        Settlement(key=free.key, attempt=0, state="released"),
    ]
    (again,) = store.record(run, settled=settled, planned=[planned("a", usd=0.5)], limit_usd=1.0)
    assert again == Reservation(key="a", attempt=1, usd=0.5)
    store.record(
        run,
        answers=[
            answer(again, usd=0.125),
            answer(unknown, usd=None, usage=replace(USAGE, output_tokens=None)),
        ],
    )
    assert store.spending() == [
        JudgeSpending(
            judge="judge",
            requests=3,
            answers=2,
            lost=1,
            open=0,
            unmetered=1,
            input_tokens=200,
            cached_tokens=80,
            output_tokens=10,
            reasoning_tokens=8,
            usd=0.375,  # what came without token counts stands for its reserve
            held_usd=0.25,
            unpriced=0,
        )
    ]
    assert store.record(run, planned=[planned("e", usd=0.375)], limit_usd=1.0) == [
        Reservation(key="e", attempt=0, usd=0.375)
    ]
    assert store.record(run, planned=[planned("f", usd=1e-9)], limit_usd=1.0) == ["budget"]


def test_a_budget_is_used_to_the_last_cent(store, run):
    rights = store.record(run, planned=[planned(f"{n}", usd=0.1) for n in range(11)], limit_usd=1.0)
    assert [isinstance(right, Reservation) for right in rights] == [True] * 10 + [False]


def test_a_budget_needs_a_price(store, run):
    with pytest.raises(ValueError, match="unknown cost"):
        store.record(run, planned=[planned("k", usd=None)], limit_usd=1.0)
    store.record(run, planned=[planned("k", usd=None)])
    assert store.spending()[0].unpriced == 1


def test_what_a_dead_run_had_under_way_counts_as_lost(store, judge, run):
    store.record(run, planned=[planned("k")])
    assert (store.spending()[0].open, store.spending()[0].lost) == (1, 0)
    store.end(run)
    assert (store.spending()[0].open, store.spending()[0].lost) == (0, 1)
    assert store.spending()[0].held_usd == 0.25


def test_many_at_once_never_reserve_more_than_the_budget(store, judge):
    def take(number):
        run = store.begin(judge, LEASE)
        asked = [planned(f"{number}-{n}", usd=0.01 * (1 + n % 3)) for n in range(20)]
        return [store.record(run, planned=[each], limit_usd=0.5)[0] for each in asked]

    with ThreadPoolExecutor(6) as threads:
        taken = [each for part in threads.map(take, range(6)) for each in part]
    rights = [each for each in taken if isinstance(each, Reservation)]
    assert 0.47 < sum(right.usd for right in rights) <= 0.5 + 1e-12
    assert len(taken) == 120


def test_all_of_a_group_is_written_or_nothing(store, judge, run, plan):
    numbers_ = numbers(store.claim(run, plan, 2))
    (right,) = store.record(run, planned=[planned("k", numbers_[0])])
    with pytest.raises(StudyError, match="not handed to"):
        store.record(
            run,
            answers=[answer(right, numbers_[0])],
            judgments=[Judgment(presentation=999, choices={"fluency": "A"})],
        )
    assert store.answered() == set()
    store.record(
        run,
        answers=[answer(right, numbers_[0])],
        judgments=[Judgment(presentation=numbers_[0], choices={"fluency": "A", "coherence": "tie"})],
        unjudged=[Unjudged(presentation=numbers_[1], kind="refusal", detail="")],
    )
    assert Counter(row.criterion for row in store.tidy()) == {"fluency": 1, "coherence": 1}
    assert [failure.presentation for failure in store.failures()] == [numbers_[1]]


def test_a_verdict_read_again_is_a_new_revision_only_where_it_differs(store, judge, run, plan):
    number = numbers(store.claim(run, plan, 1))[0]
    judgment = Judgment(presentation=number, choices={"fluency": "A", "coherence": "B"})
    store.record(run, judgments=[judgment])
    assert store.judge_again(judge, [judgment]) == 0
    assert store.judge_again(judge, [replace(judgment, choices={"fluency": "A", "coherence": "tie"})]) == 1
    history = [(row.criterion, row.revision, row.position) for row in store.history()]
    assert history == [("coherence", 0, "B"), ("coherence", 1, "tie"), ("fluency", 0, "A")]
    assert store.criteria_judged(judge) == {"fluency", "coherence"}
