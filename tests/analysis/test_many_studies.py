"""Many studies at once give what one at a time gives."""

import math

import numpy as np
import pytest

from analysis.stats import intervals, power, significance
from analysis.stats.correction import holm
from analysis.stats.resampling import win_share_bootstrap
from analysis.stats.simulation import Design, simulate

pytestmark = pytest.mark.slow

SIZES = [(7, 1, 0.67), (20, 3, 0.32), (41, 5, 0.67), (3, 2, 0.32)]


@pytest.fixture(params=SIZES, ids=lambda size: "{} items {} raters {} ties".format(*size))
def verdicts(request):
    items, raters, ties = request.param
    design = Design(items=items, raters=raters, ties=ties, share=0.6)
    drawn = simulate(design, studies=25, rng=np.random.default_rng(items))[:, 0]
    drawn[0] = 0  # every verdict a tie: no test, no interval
    drawn[1] = 1
    return drawn


def test_the_sign_flip_test_and_its_attainable_size(verdicts):
    raters = verdicts.shape[2]
    found = power.sign_flips(power.net_histograms(verdicts))
    for p_value, size, study in zip(found.p_values, found.sizes, verdicts, strict=True):
        nets = study.sum(axis=1, dtype=int)
        alone = significance.sign_flip(nets, np.full(len(nets), raters)).p_value
        assert same(p_value, alone)
        assert size == pytest.approx(largest_size(np.abs(nets)), abs=1e-12)


def largest_size(magnitudes):
    """Add up the sign patterns one item at a time."""
    chances = {0: 1.0}
    for size in magnitudes[magnitudes > 0].tolist():
        doubled = {}
        for total, chance in chances.items():
            for moved in (total - size, total + size):
                doubled[moved] = doubled.get(moved, 0.0) + chance / 2
        chances = doubled
    tails = [
        sum(chance for total, chance in chances.items() if abs(total) >= limit)
        for limit in range(1, max(chances) + 1)
    ]
    return max((tail for tail in tails if tail <= 0.05), default=0.0)


def test_sign_tests_on_ratings_and_on_majorities(verdicts):
    wins, losses = (verdicts == 1).sum(axis=(1, 2)), (verdicts == -1).sum(axis=(1, 2))
    pooled = power.sign_tests(wins, losses)
    majority = power.majority_signs(power.net_histograms(verdicts))
    for place, study in enumerate(verdicts):
        alone = significance.binomial(int(wins[place]), int(losses[place]))
        assert same(pooled.p_values[place], alone.p_value)
        assert same(majority.p_values[place], significance.majority_sign(study.sum(axis=1)).p_value)


def test_the_sizes_a_sign_test_can_have():
    # Two tails of 6 fair coins: 2/64, then 14/64; of 5 coins the least is 2/32 > .05.
    found = power.sign_tests(np.array([3, 5, 0]), np.array([3, 0, 0]))
    assert found.sizes == pytest.approx([2 / 64, 0, 0])
    assert math.isnan(found.p_values[2])


@pytest.mark.filterwarnings("ignore:Sample size too small")
def test_wilcoxon(verdicts):
    found = power.signed_ranks(power.net_histograms(verdicts))
    for p_value, study in zip(found, verdicts, strict=True):
        assert same(p_value, significance.signed_rank(study.mean(axis=1)).p_value)


def test_the_item_interval_and_those_of_ratings(verdicts):
    raters = verdicts.shape[2]
    low, high = power.item_means(power.net_histograms(verdicts))
    wins, n = (verdicts == 1).sum(axis=(1, 2)), (verdicts != 0).sum(axis=(1, 2))
    pooled = [
        (power.wilsons(wins, n), intervals.wilson),
        (power.clopper_pearsons(wins, n), intervals.clopper_pearson),
    ]
    for place, study in enumerate(verdicts):
        means = 0.5 + study.sum(axis=1) / (2 * raters)
        alone = intervals.item_mean(means, ["d"] * len(means))
        assert same(low[place], alone.low)
        assert same(high[place], alone.high)
        for limits, one in pooled:
            alone = one(int(wins[place]), int(n[place]))
            assert same(limits[0][place], alone.low)
            assert same(limits[1][place], alone.high)


def test_the_bootstrap_is_the_drawn_one_without_its_chance_error(verdicts):
    low, high = power.item_bootstraps(power.net_histograms(verdicts))
    for place in (0, 1, 2, 3):
        nets = verdicts[place].sum(axis=1, dtype=int)
        drawn = win_share_bootstrap(
            nets, np.full(len(nets), verdicts.shape[2]), ["d"] * len(nets), replicates=20_000, seed=1
        )
        step = 1 / (2 * nets.size * verdicts.shape[2])
        for limit, other in ((low[place], drawn.low), (high[place], drawn.high)):
            assert same(limit, other, abs=step + 1e-9)


def test_the_bootstrap_of_two_items_by_hand():
    # One rater, a win and a loss: the sum of two draws is −2, 0, 2 with chances 1/4, 1/2, 1/4.
    low, high = power.item_bootstraps(np.array([[1, 0, 1]]), level=0.4)
    assert (low[0], high[0]) == (0.5, 0.5)
    low, high = power.item_bootstraps(np.array([[1, 0, 1]]), level=0.6)
    assert (low[0], high[0]) == (0.0, 1.0)


def test_holm():
    families = np.array([[0.01, 0.04, 0.03], [0.5, np.nan, 0.02], [np.nan] * 3, [0.9, 0.8, 0.7]])
    for found, family in zip(power.holms(families), families, strict=True):
        alone = holm([None if math.isnan(p) else float(p) for p in family]).p_values
        assert all(same(a, b) for a, b in zip(found, alone, strict=True))


def same(found, alone, *, abs=1e-11):  # noqa: A002
    return math.isnan(found) if alone is None else found == pytest.approx(alone, rel=1e-9, abs=abs)
