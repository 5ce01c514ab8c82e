"""The plan for a roster, by the numbers it promises."""

from collections import Counter
from itertools import combinations

import pytest

from guard_eval.store.handout.roster import Place, plan_roster


def make_places(comparisons, each, datasets=("wikinews", "wikitext")):
    return {
        f"{a}-{b}-{number}": Place(position, datasets[number % len(datasets)], a, b)
        for position, (a, b, number) in enumerate(
            (a, b, number) for a, b in comparisons for number in range(each)
        )
    }


def worst(places, plan):
    """How far from even the sides are at most, by pair, by rater and method, by rater and comparison."""
    pairs, methods, comparisons = Counter(), Counter(), Counter()
    for pair_id, kept in plan.items():
        a, b = places[pair_id].method_a, places[pair_id].method_b
        for slot in kept:
            sign = 1 if slot.first == "a" else -1
            pairs[pair_id] += sign
            methods[slot.rater_id, a] += sign
            methods[slot.rater_id, b] -= sign
            comparisons[slot.rater_id, a, b] += sign
    return tuple(max(map(abs, counts.values())) for counts in (pairs, methods, comparisons))


STAR = [("guard", "top_k"), ("top_p", "guard"), ("guard", "contrastive")]


@pytest.mark.parametrize("comparisons", [STAR[:1], STAR], ids=["one", "star"])
@pytest.mark.parametrize(("raters", "slots"), [(4, 4), (8, 4), (7, 3), (3, 3), (10, 2), (2, 4), (1, 3)])
def test_sides_are_even_within_one_per_pair_and_per_rater_and_method(comparisons, raters, slots):
    places = make_places(comparisons, 25)
    for seed in range(3):
        plan = plan_roster(places, range(1, raters + 1), slots=slots, seed=seed)
        by_pair, by_method, by_comparison = worst(places, plan)
        seated = min(raters, slots)
        assert by_pair == seated % 2
        assert by_method <= 1
        assert by_comparison <= 1


@pytest.mark.parametrize(("raters", "slots"), [(8, 4), (7, 3), (2, 4)])
def test_every_pair_has_its_raters_and_every_rater_its_share(raters, slots):
    places = make_places(STAR, 25)
    plan = plan_roster(places, range(1, raters + 1), slots=slots, seed=1)
    assert plan.keys() == places.keys()
    seated = min(raters, slots)
    for kept in plan.values():
        assert len({slot.rater_id for slot in kept}) == len({slot.slot for slot in kept}) == seated
        assert {slot.slot for slot in kept} <= set(range(slots))
    loads = Counter(slot.rater_id for kept in plan.values() for slot in kept)
    assert max(loads.values()) - min(loads.values()) <= 1


def test_slots_that_are_kept_for_nobody_still_balance_the_pair():
    """Two raters, four slots: the parity of the two slots left over shows either side once."""
    places = make_places(STAR, 9)
    for pair_id, kept in plan_roster(places, [1, 2], slots=4, seed=3).items():
        left = set(range(4)) - {slot.slot for slot in kept}
        assert len({(slot + places[pair_id].position) % 2 for slot in left}) == 2


def test_all_against_all_is_even_within_one_per_comparison_and_nearly_so_per_method():
    places = make_places(list(combinations("abcd", 2)), 25)
    by_pair, by_method, by_comparison = worst(places, plan_roster(places, range(8), slots=4, seed=1))
    assert (by_pair, by_comparison) == (0, 1)
    assert by_method <= 2


def test_a_plan_depends_on_the_seed_alone():
    places = make_places(STAR, 10)
    plan = plan_roster(places, [1, 2, 3], slots=2, seed=1)
    assert plan_roster(dict(reversed(places.items())), [3, 2, 1], slots=2, seed=1) == plan
    assert plan_roster(places, [1, 2, 3], slots=2, seed=2) != plan
