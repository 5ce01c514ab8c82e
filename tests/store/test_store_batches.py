"""Batches: written down before each step, and what is in one is nobody else's until it is closed."""

import pytest
from judged import LEASE, planned

from guard_eval.errors import StudyError
from guard_eval.store import BatchRequest, JudgeProgress, Reservation
from guard_eval.store.judging import runs


@pytest.fixture
def judge(store, make_pairs):
    store.add_pairs(make_pairs(2))
    return store.rater("judge", "model")


@pytest.fixture
def batched(store, judge, plan):
    """A run that has put three of four showings into a batch, as far as a budget allows."""
    run = store.begin(judge, LEASE)
    shown = [showing.blind.presentation for showing in store.claim(run, plan, 4)]
    asked = [planned(f"k{n}", n, usd=0.3, style="batch") for n in shown]
    batch, outcomes = store.add_batch(run, asked, limit_usd=1.0)
    assert [isinstance(each, Reservation) for each in outcomes] == [True, True, True, False]
    return run, batch, shown


def test_its_steps_are_kept_and_somebody_else_goes_on(store, judge, batched, monkeypatch):
    run, batch, shown = batched
    assert (batch.status, batch.provider_id) == ("new", None)
    store.update_batch(batch.id, input_file="file-1")
    store.update_batch(batch.id, provider_id="batch-1", status="in_progress")
    other = store.begin(judge, LEASE)
    assert store.adopt_batches(other) == []
    store.end(run)
    (adopted,) = store.adopt_batches(other)
    assert (adopted.provider_id, adopted.input_file, adopted.status) == ("batch-1", "file-1", "in_progress")
    assert store.batch_requests(batch.id) == [
        BatchRequest(key=f"k{n}", attempt=0, presentation=n) for n in shown[:3]
    ]


def test_what_is_in_it_is_not_claimed_or_sent_by_others(store, judge, batched, plan):
    run, batch, shown = batched
    assert store.judge_progress(judge, plan) == JudgeProgress(rated=0, left=4, in_batch=3)
    store.end(run)
    other = store.begin(judge, LEASE)
    assert [each.blind.presentation for each in store.claim(other, plan, 9)] == [shown[3]]
    assert store.record(other, planned=[planned("k1", usd=0.1)]) == ["elsewhere"]
    assert store.spending()[0].held_usd == pytest.approx(0.9)
    assert store.close_batch(batch.id) == 3
    assert [each.blind.presentation for each in store.claim(other, plan, 9)] == shown[:3]
    assert store.spending()[0].held_usd == 0
    assert store.adopt_batches(other) == []


def test_what_may_have_been_billed_stays_booked(store, batched):
    _, batch, _ = batched
    store.close_batch(batch.id, billed=True)
    assert (store.spending()[0].lost, store.spending()[0].held_usd) == (3, pytest.approx(0.9))


def test_a_batch_that_is_none_is_refused(store, judge):
    with pytest.raises(StudyError, match="no batch 7"):
        store.update_batch(7, status="x")
    with pytest.raises(ValueError, match="no colour"):
        store.update_batch(7, colour="x")


def test_runs_are_told_apart_by_process_and_its_beginning():
    mine = runs._process(1)
    assert runs.is_running(mine)
    assert not runs.is_running(f"{mine.partition(':')[0]}:0")  # the number belongs to a later process
    assert not runs.is_running("999999999:1")
