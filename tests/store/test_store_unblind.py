"""Choices by letter become verdicts by method, with every revision in the history."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta, timezone

from rating import claim_pair, exclude_rater, invite_people, rate_all_pairs, save_choice

from guard_eval.store import Store, TidyRow, handout, pairs, verdicts
from guard_eval.store.unblind import read_tidy_rows, read_verdict_history


def test_verdict_history_has_a_row_for_each_revision(store, ann, make_pairs, plan, clock):
    pair = replace(make_pairs(1)[0], text_a="four", text_b="six éé😀")
    pairs.add_pairs(store, [pair])
    blind = claim_pair(store, ann, plan)
    first, second = ("guard", "top_k(k=50)") if blind.text_a == "four" else ("top_k(k=50)", "guard")
    clock.advance(seconds=60)
    save_choice(store, ann, blind, seconds=60.0, active_seconds=41.5)
    row = TidyRow(
        pair_id=pair.id,
        dataset="wikinews",
        prompt_id=pair.prompt_id,
        method_a="guard",
        method_b="top_k(k=50)",
        rater="Ann",
        criterion="fluency",
        verdict=first,
        rater_kind="person",
        presentation=blind.presentation,
        slot=0,
        shown_first=first,
        seconds=60.0,
        active_seconds=41.5,
        at="2026-01-02T03:05:05.678+00:00",
        length_a=4,
        length_b=7,
        surplus=False,
        position="A",
        handed_out="2026-01-02T03:04:05.678+00:00",
    )
    assert read_tidy_rows(store) == [row]
    clock.advance(seconds=5)
    save_choice(store, ann, blind, "B")
    at = "2026-01-02T03:05:10.678+00:00"
    unknown = {"seconds": None, "active_seconds": None}
    later = replace(row, position="B", verdict=second, at=at, revision=1, **unknown)
    assert read_verdict_history(store) == [row, later]
    assert read_tidy_rows(store) == [later]
    save_choice(store, ann, blind, "tie")
    assert [(row.position, row.verdict) for row in read_tidy_rows(store)] == [("tie", "tie")]


def test_times_are_utc_in_any_time_zone(store_url, make_pairs, plan, clock):
    there = timezone(timedelta(hours=9, minutes=30))
    with Store.open(store_url, create=True, clock=lambda: clock().astimezone(there)) as store:
        pairs.add_pairs(store, make_pairs(1))
        rate_all_pairs(store, invite_people(store, "Ann")[0], plan)
        assert read_tidy_rows(store)[0].at == "2026-01-02T03:04:05.678+00:00"


def test_verdicts_name_the_same_method_in_both_orders(store, make_pairs, plan, judge_all):
    """A judge prefers the same text of each pair in both orders."""
    stored = {pair.prompt: pair for pair in make_pairs(12)}
    pairs.add_pairs(store, list(stored.values()))
    liked = {pair.id: ("guard", "top_k(k=50)", "tie")[pair.position % 3] for pair in stored.values()}

    def choose(blind):
        pair = stored[blind.prompt]
        text = {pair.method_a: pair.text_a, pair.method_b: pair.text_b}.get(liked[pair.id])
        return "tie" if text is None else "A" if blind.text_a == text else "B"

    judge_all(store, "judge", plan, choose)
    rows = read_tidy_rows(store)
    assert Counter((row.pair_id, row.verdict) for row in rows) == dict.fromkeys(liked.items(), 2)
    sides = {(row.pair_id, row.shown_first) for row in rows}
    assert sides == {(pair_id, method) for pair_id in liked for method in ("guard", "top_k(k=50)")}


def test_verdicts_are_sorted_by_position_rater_and_criterion(store, make_pairs, add_new_pairs, plan):
    add_new_pairs(3)
    for rater in invite_people(store, "b", "a"):
        for blind in handout.claim_pairs(store, rater, plan, limit=3):
            verdicts.save_verdict(store, blind.presentation, {"fluency": "A", "coherence": "B"}, rater=rater)
    position = {pair.id: pair.position for pair in make_pairs(3)}
    keys = [(position[row.pair_id], row.rater, row.criterion) for row in read_tidy_rows(store)]
    assert keys == sorted(keys)
    assert len(keys) == 3 * 2 * 2


def test_surplus_excluded_and_repeated_verdicts_are_marked(store, add_new_pairs, plan, clock):
    add_new_pairs(2)
    single_plan = replace(plan, slots=1, repeats=1)
    late, ann = invite_people(store, "late", "Ann")
    lost = claim_pair(store, late, single_plan)
    clock.advance(hours=1)
    rate_all_pairs(store, ann, single_plan)
    save_choice(store, late, lost, "tie")
    exclude_rater(store, "Ann")
    rows = [
        (row.rater, row.role, row.surplus, row.excluded, row.position) for row in read_verdict_history(store)
    ]
    assert rows == [
        ("late", "study", True, False, "tie"),
        ("Ann", "study", False, True, "A"),
        ("Ann", "study", False, True, "A"),
        ("Ann", "repeat", False, True, "A"),
    ]
