"""The item bootstrap against enumeration, resampling row by row, scipy, and its own Monte-Carlo error."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from analysis.stats import resampling
from analysis.stats.intervals import item_mean
from analysis.stats.resampling import win_share_bootstrap

pytestmark = pytest.mark.slow


def study(n, seed, raters=5):
    """Draw scores that pile up at the ends, as ratings that depend on each other do, in three strata."""
    rng = np.random.default_rng(seed)
    means = rng.beta(0.8, 0.6, size=n)
    return 2 * rng.binomial(raters, means) - raters, np.full(n, raters), rng.integers(0, 3, size=n)


def enumerated(scores, strata, level):
    """Return the quantiles of the mean share over every resample, all equally likely, in exact fractions."""
    groups = [[score for score, own in zip(scores, strata, strict=True) if own == name] for name in "ab"]
    groups = [group for group in groups if group]
    every = product(*(product(group, repeat=len(group)) for group in groups))
    shares = sorted((1 + sum(map(sum, drawn)) / len(scores)) / 2 for drawn in every)
    tail = Fraction(1 - level).limit_denominator(1000) / 2

    def quantile(p):
        return next(share for place, share in enumerate(shares, start=1) if Fraction(place, len(shares)) >= p)

    return quantile(tail), quantile(1 - tail)


@pytest.mark.parametrize(
    ("scores", "strata", "level"),
    [
        # The levels keep away from the steps of the distribution, where a limit may fall on either side.
        (["1", "1/3", "-1/2"], "aaa", 0.8),
        (["1", "1/3", "-1/2", "0"], "aaaa", 0.9),
        (["1", "0", "-1/5", "3/5", "1/5"], "aabbb", 0.85),
        (["1/2", "1", "-1", "0", "2/4", "-2/4"], "aaabbb", 0.9),
    ],
)
def test_few_items_have_the_quantiles_of_all_resamples(scores, strata, level):
    fractions = [Fraction(score) for score in scores]
    parts = [score.partition("/") for score in scores]  # 2/4 as it stands: it must count as 1/2
    found = win_share_bootstrap(
        [int(top) for top, _, _ in parts],
        [int(bottom or 1) for _, _, bottom in parts],
        list(strata),
        replicates=40_000,
        seed=7,
        level=level,
    )
    low, high = enumerated(fractions, strata, level)
    assert found.estimate == pytest.approx(float((1 + sum(fractions) / len(fractions)) / 2))
    assert (found.low, found.high) == pytest.approx((float(low), float(high)))


def by_rows(shares, strata, replicates, seed):
    rng = np.random.default_rng(seed)
    sums = np.zeros(replicates)
    for name in set(strata.tolist()):
        own = shares[strata == name]
        sums += own[rng.integers(0, len(own), size=(replicates, len(own)))].sum(axis=1)
    return sums / len(shares)


def test_agrees_with_resampling_row_by_row():
    tops, bottoms, strata = study(300, seed=1)
    found = win_share_bootstrap(tops, bottoms, strata, seed=2)
    rows = by_rows((1 + tops / bottoms) / 2, strata, 10_000, seed=3)
    low, high = np.quantile(rows, [0.025, 0.975])
    # Two independent Monte-Carlo errors of one size: four standard errors of their difference.
    assert abs(found.low - low) <= 4 * np.sqrt(2) * found.low_error
    assert abs(found.high - high) <= 4 * np.sqrt(2) * found.high_error
    assert 0 < found.low_error < (found.high - found.low) / 50


def test_agrees_with_scipy_by_strata():
    tops, bottoms, strata = study(240, seed=4)
    shares = (1 + tops / bottoms) / 2
    groups = [shares[strata == name] for name in range(3)]

    def mean(*parts, axis):
        return sum(part.sum(axis=axis) for part in parts) / len(shares)

    theirs = stats.bootstrap(
        groups, mean, n_resamples=10_000, confidence_level=0.9, method="percentile", rng=5, vectorized=True
    ).confidence_interval
    ours = win_share_bootstrap(tops, bottoms, strata, seed=6, level=0.9)
    assert abs(ours.low - theirs.low) <= 4 * np.sqrt(2) * ours.low_error
    assert abs(ours.high - theirs.high) <= 4 * np.sqrt(2) * ours.high_error


def test_the_monte_carlo_error_is_how_much_seeds_move_the_limits():
    tops, bottoms, strata = study(400, seed=8, raters=25)
    found = [win_share_bootstrap(tops, bottoms, strata, replicates=1000, seed=seed) for seed in range(150)]
    for limit, error in (("low", "low_error"), ("high", "high_error")):
        moved = np.std([getattr(one, limit) for one in found], ddof=1)
        reported = np.mean([getattr(one, error) for one in found])
        assert reported == pytest.approx(moved, rel=0.2)  # the sd of 150 is known to 6 %, the density to 5 %


def test_many_items_have_the_normal_limits():
    tops, bottoms, strata = study(1_000_000, seed=9)
    found = win_share_bootstrap(tops, bottoms, strata, seed=10)
    by_t = item_mean((1 + tops / bottoms) / 2, [str(name) for name in strata])
    assert found.estimate == pytest.approx(by_t.estimate, abs=1e-12)
    assert abs(found.low - by_t.low) < 5 * found.low_error
    assert abs(found.high - by_t.high) < 5 * found.high_error
    assert found.warnings == ()


scored = st.integers(1, 6).flatmap(lambda bottom: st.tuples(st.integers(-bottom, bottom), st.just(bottom)))


@settings(max_examples=40)
@given(st.lists(st.tuples(scored, st.sampled_from("ab")), min_size=2, max_size=12), st.randoms())
def test_neither_order_nor_common_factors_nor_spelling_matter(items, random):
    def run(rows, factor=1, name=str):
        return win_share_bootstrap(
            [top * factor for (top, _), _ in rows],
            [bottom * factor for (_, bottom), _ in rows],
            [name(stratum) for _, stratum in rows],
            replicates=50,
            seed=1,
        )

    found = run(items)
    turned = random.sample(items, len(items))
    assert run(turned) == found
    assert run(items, name=lambda stratum: f"book {stratum}") == found
    again = run(items, factor=3)
    assert (again.low, again.high) == pytest.approx((found.low, found.high)) if found.low else again == found
    codes = np.array(["ab".index(stratum) for _, stratum in items])
    tops, bottoms = zip(*(score for score, _ in items), strict=True)
    assert win_share_bootstrap(tops, bottoms, codes, replicates=50, seed=1) == found
    assert found.low is None or found.low <= found.high


def test_all_the_scores_at_once_or_in_blocks_are_the_same(monkeypatch):
    tops, bottoms, strata = study(200, seed=11, raters=40)
    whole = win_share_bootstrap(tops, bottoms, strata, replicates=500, seed=1)
    monkeypatch.setattr(resampling, "_DRAWS", 100)
    assert win_share_bootstrap(tops, bottoms, strata, replicates=500, seed=1) == whole


def test_edges_are_those_of_the_t_interval():
    assert win_share_bootstrap([], [], [], seed=1).estimate is None
    one = win_share_bootstrap([1], [3], ["a"], seed=1)
    assert (one.estimate, one.low, one.low_error) == (pytest.approx(2 / 3), None, None)
    assert "only one item" in one.warnings[-1]
    same = win_share_bootstrap([1, 2, 5], [1, 2, 5], ["a", "a", "b"], seed=1)
    assert (same.estimate, same.high) == (1.0, None)
    assert "same mean" in same.warnings[-1]
    within = win_share_bootstrap([1, 1, 0, 0], [1, 1, 1, 1], ["a", "a", "b", "b"], seed=1)
    assert (within.estimate, within.low) == (0.75, None)
    assert "of a dataset has the same mean" in within.warnings[-1]
    lonely = win_share_bootstrap([1, 0, -1], [1, 1, 1], ["a", "b", "b"], seed=1)
    assert "strata" not in lonely.method
    assert "only one item" in lonely.warnings[0]
    assert lonely.low is not None


def test_warns_where_it_is_narrow_or_rough():
    tops, bottoms, strata = study(43, seed=12)
    assert not win_share_bootstrap(tops, bottoms, strata, replicates=400, seed=1).warnings
    few = win_share_bootstrap(tops[:42], bottoms[:42], strata[:42], replicates=399, seed=1).warnings
    assert "too narrow" in few[0]
    assert "too few for the tails" in few[1]


def test_too_many_numbers_of_ratings_for_one_denominator():
    bottoms = np.arange(1, 201)  # their least common multiple has 90 digits
    tops = np.where(bottoms % 2, 1, -1) * (bottoms // 3)
    found = win_share_bootstrap(tops, bottoms, np.zeros(200, dtype=int), seed=1)
    rows = by_rows((1 + tops / bottoms) / 2, np.zeros(200), 10_000, seed=3)
    assert found.estimate == pytest.approx(((1 + tops / bottoms) / 2).mean())
    assert abs(found.low - np.quantile(rows, 0.025)) <= 4 * np.sqrt(2) * found.low_error


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([1, 1], [1], ["a"]), {}, "one denominator per"),
        (([1, 1], [1, 1], ["a"]), {}, "one stratum per"),
        (([0.5], [1], ["a"]), {}, "integers over positive"),
        (([1], [0], ["a"]), {}, "integers over positive"),
        (([0, 3], [1, 2], ["a", "a"]), {}, "3/2 does not"),
        (([1], [1], ["a"]), {"level": 95}, "confidence level"),
        (([1], [1], ["a"]), {"replicates": 1}, "two replicates"),
    ],
)
def test_wrong_arguments_are_refused(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        win_share_bootstrap(*arguments, seed=1, **settings)
