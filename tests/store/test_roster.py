"""The plan for a roster, by the numbers it promises."""

from collections import Counter
from itertools import combinations

import pytest

from guard_eval.store.roster import Comparison, plan_roster


def make_pairs_of(comparisons, each, datasets=("wikinews", "wikitext")):
    return {
        f"{a}-{b}-{number}": Comparison(a, b, datasets[number % len(datasets)])
        for a, b in comparisons
        for number in range(each)
    }


def farthest(pairs, plan):
    """How far from even the sides are at most, by pair, by rater and method, by rater and comparison."""
    by_pair, methods, comparisons = Counter(), Counter(), Counter()
    for pair_id, kept in plan.items():
        a, b = pairs[pair_id].method_a, pairs[pair_id].method_b
        for _, who, first in kept:
            sign = 1 if first == "a" else -1
            by_pair[pair_id] += sign
            methods[who, a] += sign
            methods[who, b] -= sign
            comparisons[who, a, b] += sign
    return tuple(max(map(abs, counts.values())) for counts in (by_pair, methods, comparisons))


STAR = [("guard", "top_k"), ("top_p", "guard"), ("guard", "contrastive")]


@pytest.mark.parametrize("comparisons", [STAR[:1], STAR], ids=["one", "star"])
@pytest.mark.parametrize(("raters", "slots"), [(4, 4), (8, 4), (7, 3), (3, 3), (10, 2), (2, 4), (1, 3)])
def test_sides_are_even_within_one_per_pair_and_per_rater_and_method(comparisons, raters, slots):
    pairs = make_pairs_of(comparisons, 25)
    for seed in range(3):
        plan = plan_roster(pairs, range(1, raters + 1), slots=slots, seed=seed)
        by_pair, by_method, by_comparison = farthest(pairs, plan)
        seated = min(raters, slots)
        assert by_pair == seated % 2
        assert by_method <= 1
        assert by_comparison <= 1


def test_all_against_all_is_even_within_one_per_comparison_and_nearly_so_per_method():
    pairs = make_pairs_of(list(combinations("abcd", 2)), 25)
    by_pair, by_method, by_comparison = farthest(pairs, plan_roster(pairs, range(8), slots=4, seed=1))
    assert (by_pair, by_comparison) == (0, 1)
    assert by_method <= 2


def test_a_plan_depends_on_the_seed_alone():
    pairs = make_pairs_of(STAR, 10)
    plan = plan_roster(pairs, [1, 2, 3], slots=2, seed=1)
    assert plan_roster(dict(reversed(pairs.items())), [3, 2, 1], slots=2, seed=1) == plan
    assert plan_roster(pairs, [1, 2, 3], slots=2, seed=2) != plan
