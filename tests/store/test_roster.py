"""Rosters keep the balance that the module promises."""

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from rating import count_side_leads, invite_people, rate_all_pairs
from refusals import expect_refusal

from guard_eval.store import handout, raters, unblind
from guard_eval.store.showings import roster
from guard_eval.store.showings.roster import plan_roster


def make_pairs_of_comparisons(comparisons):
    return {f"{a}-{b}-{number}": (a, b) for a, b in comparisons for number in range(25)}


def find_largest_imbalances(study, sides):
    """Return the largest imbalance of sides by pair, by rater and method, and by rater and comparison."""
    by_pair, methods, comparisons = Counter(), Counter(), Counter()
    for (pair_id, who), side in sides.items():
        a, b = study[pair_id]
        by_pair[pair_id] += side
        methods[who, a] += side
        methods[who, b] -= side
        comparisons[who, a, b] += side
    return tuple(max(map(abs, counts.values())) for counts in (by_pair, methods, comparisons))


STAR = [("guard", "top_k"), ("top_p", "guard"), ("guard", "contrastive")]


@pytest.mark.parametrize("comparisons", [STAR[:1], STAR], ids=["one", "star"])
@pytest.mark.parametrize(("raters", "slots"), [(4, 4), (8, 4), (7, 3), (3, 3), (10, 2), (2, 4), (1, 3)])
def test_roster_sides_differ_by_at_most_one(comparisons, raters, slots):
    study = make_pairs_of_comparisons(comparisons)
    for seed in range(3):
        sides = plan_roster(study, range(1, raters + 1), slots=slots, seed=seed)
        seated = min(raters, slots)
        assert Counter(pair_id for pair_id, _ in sides) == dict.fromkeys(study, seated)
        by_pair, by_method, by_comparison = find_largest_imbalances(study, sides)
        assert (by_pair, by_method <= 1, by_comparison <= 1) == (seated % 2, True, True)


def test_a_roster_balances_sides_of_methods_over_comparisons():
    study = make_pairs_of_comparisons(list(combinations("abcd", 2)))
    by_pair, by_method, by_comparison = find_largest_imbalances(
        study, plan_roster(study, range(8), slots=4, seed=1)
    )
    assert (by_pair, by_comparison) == (0, 1)
    assert by_method <= 2


def test_rosters_depend_only_on_pairs_people_and_seed():
    study = make_pairs_of_comparisons(STAR)
    plan = plan_roster(study, [1, 2, 3], slots=2, seed=1)
    assert plan_roster(dict(reversed(study.items())), [3, 2, 1], slots=2, seed=1) == plan
    assert plan_roster(study, [1, 2, 3], slots=2, seed=2) != plan


def test_roster_sides_stay_even_in_any_order_of_raters(store, add_new_pairs, plan):
    add_new_pairs(15)
    *everybody, stranger = invite_people(store, *(f"person {number}" for number in range(6)))
    three = replace(plan, slots=3)
    assert roster.reserve_slots(store, [rater.name for rater in everybody], three) == 45
    assert handout.claim_pairs(store, stranger, three) == []
    assert handout.count_rated_and_remaining_pairs(store, stranger, three) == (0, 0)
    for rater in reversed(everybody):
        assert handout.count_rated_and_remaining_pairs(store, rater, three) == (0, 9)
        assert len(rate_all_pairs(store, rater, three)) == 9
    by_rater, by_pair = count_side_leads(store)
    assert {abs(lead) for lead in (*by_rater.values(), *by_pair.values())} == {1}  # of nine, and of three


def test_free_slots_balance_the_pairs_of_a_small_roster(store, ann, ben, add_new_pairs, plan):
    add_new_pairs(6)
    assert roster.reserve_slots(store, ["Ann"], plan) == 6
    assert [len(rate_all_pairs(store, rater, plan)) for rater in (ben, ann)] == [6, 6]
    assert set(count_side_leads(store)[1].values()) == {0}
    assert {row.slot for row in unblind.read_tidy_rows(store)} == {0, 1}


def test_an_impossible_roster_is_refused(store, add_new_pairs, plan):
    add_new_pairs(4)
    invite_people(store, "Ann", "Ben", "out")
    raters.get_or_add_rater(store, "judge", "model")
    raters.decide_about_rater(store, "out", "revoke", by="owner")
    for names, quota, message in (
        (["Ann", "Nobody"], None, "no rater named 'Nobody'"),
        (["judge"], None, "'judge' is a model, not a person"),
        (["out"], None, "out: revoked or excluded, so they cannot rate"),
        (["Ann", "Ben"], 3, "one rater would get 4 pairs, but the quota is 3"),
    ):
        with expect_refusal(message):
            roster.reserve_slots(store, names, replace(plan, quota=quota))
    roster.reserve_slots(store, ["Ann", "Ben"], plan)
    with expect_refusal("every pair was already shown or reserved"):
        roster.reserve_slots(store, ["Ann", "Ben"], plan)
