"""Going on with a study: other criteria, more samples, more pairs, and what another run has left."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, update

from guard_eval.errors import StudyError
from guard_eval.store.judging import runs
from judge.rater import judge_plan, rater_name

pytestmark = [pytest.mark.slow, pytest.mark.both_databases]


def test_other_criteria_in_mid_run_are_refused_with_the_way_out(run, store, pairs, server):
    pairs(3)
    run()
    asked = len(server.asks)
    with pytest.raises(StudyError) as caught:
        run(criteria=["fluency", "factuality"])
    message = str(caught.value)
    assert (
        "judged pairs of this study on coherence, fluency, and is now asked on fluency, factuality" in message
    )
    assert 'a new name there (name = "…")' in message
    assert len(server.asks) == asked
    assert run(criteria=["coherence", "fluency"]).requests == 0
    assert run(criteria=["fluency", "factuality"], name="again").verdicts == 6
    assert {row.rater for row in store.tidy()} == {"gpt-4o-2024-11-20", "again"}


def test_samples_are_asked_in_both_orders_and_are_rows_of_their_own(run, store, pairs, server):
    pairs(2)
    assert run().requests == 4
    ledger = run(samples=3)
    assert (ledger.requests, ledger.verdicts) == (8, 8)
    rows = [row for row in store.tidy() if row.criterion == "fluency"]
    assert Counter((row.pair_id, row.shown_first) for row in rows) == dict.fromkeys(
        {(each.id, method) for each in store.pairs() for method in (each.method_a, each.method_b)}, 3
    )
    assert {ask.number for ask in server.asks} == {0}  # no request was the same as another


def test_pairs_added_later_are_judged_and_no_others(run, pairs, server):
    pairs(2)
    run()
    pairs(3)
    assert (run().requests, len(server.asks)) == (2, 6)


def test_an_empty_study_takes_nothing(run, server):
    ledger = run()
    assert (ledger.verdicts, ledger.requests, server.asks) == (0, 0, [])


def held_elsewhere(store, judge, monkeypatch, lease, limit):
    """Let a run on another machine hold some showings."""
    plan = judge_plan(judge, seed=11)
    rater = store.rater(rater_name(judge), "model")
    with monkeypatch.context() as patched:
        patched.setattr(runs, "_host", lambda: "another machine")
        far = store.begin(rater, lease)
    assert len(store.claim(far, plan, limit)) == limit
    return far


def test_what_a_machine_that_fell_silent_holds_is_waited_for(
    *, run, store, pairs, judge, database, monkeypatch
):
    """Its lease ends when the run has begun to wait, and not by the clock: no machine need be fast."""
    monkeypatch.setattr("judge.run.LOOK", 0.05)
    pairs(3)
    far = held_elsewhere(store, judge, monkeypatch, timedelta(hours=1), 4)
    waited = []

    def hear(now):
        if "waiting whether another run on another machine" in (now.notice or ""):
            waited.append(now)
            run_out(database, far)

    ledger = run(lease=timedelta(hours=1), on_progress=hear)
    assert len(waited) == 1
    assert ledger.verdicts == 6
    assert ledger.notices == ()


def run_out(database, far):
    """Let the lease of a run end, as if it had been silent for that long."""
    engine = create_engine(database)
    with engine.begin() as connection:
        ended = update(runs.run).where(runs.run.c.id == far.id)
        connection.execute(ended.values(leased_until=runs.run.c.started_at))
    engine.dispose()


def test_what_a_run_that_goes_on_holds_is_left_to_it(*, run, store, pairs, judge, monkeypatch, server):
    pairs(3)
    plan = judge_plan(judge, seed=11)
    other = store.begin(store.rater(rater_name(judge), "model"), timedelta(minutes=1))
    held = store.claim(other, plan, 4)
    ledger = run()
    assert (ledger.verdicts, len(server.asks)) == (2, 2)
    assert ledger.notices == ("4 of the pairs are another run's, which goes on; run again when it has ended",)
    store.end(other)
    assert run().verdicts == len(held)


def test_a_run_ends_where_the_budget_does_and_goes_on_with_a_larger_one(run, store, pairs, server):
    pairs(5)
    cost = (100 * 2 + 10 * 8) / 1e6
    with pytest.raises(StudyError, match=r"the budget of \$0.0115 is used up.*--budget with a larger sum"):
        run(budget_usd=0.0115)
    (spend,) = store.spending()
    assert spend.usd == pytest.approx(spend.answers * cost)
    assert 0 < spend.usd < 0.0115
    assert (spend.answers, spend.held_usd) == (len(server.asks), 0)
    assert run(budget_usd=5.0).verdicts == 10 - spend.answers
    with pytest.raises(StudyError, match="used up"):
        run(budget_usd=0.001, model="another")
    assert run(budget_usd=0.001, name="the same once more").reused == 10  # which costs nothing


def test_a_judge_that_was_excluded_or_revoked_is_asked_nothing(run, store, pairs, judge, server):
    pairs(1)
    store.rater(judge.model, "model")
    store.exclude(judge.model, "why", "who")
    assert run().requests == 0
    store.revoke(judge.model)
    with pytest.raises(StudyError, match="is revoked; give the judge another name"):
        run()
    assert server.asks == []


def test_the_plan_has_a_slot_for_each_sample_of_each_order(judge):
    both = judge_plan(judge.model_copy(update={"samples": 3}), seed=1)
    assert (both.slots, both.one_order) == (6, False)
    one = judge_plan(judge.model_copy(update={"samples": 3, "orders": "one"}), seed=1)
    assert one == replace(both, one_order=True)
