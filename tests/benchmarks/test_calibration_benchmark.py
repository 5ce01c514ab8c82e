"""The calibration benchmark counts rightly; what it finds is in docs/calibration.md."""

import math

import krippendorff
import numpy as np
import pytest

from analysis.planning.simulation import Design, simulate, truth
from analysis.stats.intervals import item_mean
from analysis.stats.resampling import win_share_bootstrap
from analysis.stats.significance import binomial, sign_flip


@pytest.fixture
def calibration(load):
    return load("calibration")


def test_a_rate_is_the_share_of_studies_that_find_a_difference(calibration):
    # 6 wins, and 3 wins beside 3 losses: two-sided 2/64 and 1.
    verdicts = np.array([[1] * 6, [1] * 3 + [-1] * 3], dtype=np.int8)[:, :, None]
    found = calibration.tests(verdicts)
    assert found["flip"] == found["binomial"] == found["majority"] == 0.5
    assert found["flip size"] == pytest.approx(2 / 64)


@pytest.fixture(params=[(7, 1, 0.67), (20, 3, 0.32), (41, 5, 0.67), (3, 2, 0.32)], ids=str)
def verdicts(request):
    items, raters, ties = request.param
    design = Design(items=items, raters=raters, ties=ties, share=0.6)
    drawn = simulate(design, studies=25, rng=np.random.default_rng(items))[:, 0]
    drawn[0] = 0  # every verdict a tie: no test, no interval
    drawn[1] = 1
    return drawn


def same(found, alone, *, abs=1e-11):  # noqa: A002
    return math.isnan(found) if alone is None else found == pytest.approx(alone, rel=1e-9, abs=abs)


def test_many_studies_at_once_give_what_one_at_a_time_gives(calibration, verdicts):
    raters, histograms = verdicts.shape[2], calibration.net_histograms(verdicts)
    wins, losses = (verdicts > 0).sum(axis=(1, 2)), (verdicts < 0).sum(axis=(1, 2))
    pooled, flips = calibration.sign_tests(wins, losses)[0], calibration.sign_flips(histograms)
    low, high = calibration.item_means(histograms)
    for place, study in enumerate(verdicts):
        nets = study.sum(axis=1, dtype=int)
        assert same(flips[0][place], sign_flip(nets, np.full(len(nets), raters)).p_value)
        assert flips[1][place] == pytest.approx(largest_size(np.abs(nets)), abs=1e-12)
        assert same(pooled[place], binomial(int(wins[place]), int(losses[place])).p_value)
        alone = item_mean(0.5 + nets / (2 * raters), ["d"] * len(nets))
        assert same(low[place], alone.low)
        assert same(high[place], alone.high)


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


def test_the_sizes_a_sign_test_can_have(calibration):
    # Two tails of 6 fair coins: 2/64, then 14/64; of 5 coins the least is 2/32 > .05.
    p_values, sizes = calibration.sign_tests(np.array([3, 5, 0]), np.array([3, 0, 0]))
    assert sizes == pytest.approx([2 / 64, 0, 0])
    assert math.isnan(p_values[2])


def test_the_bootstrap_is_the_drawn_one_without_its_chance_error(calibration, verdicts):
    low, high = calibration.item_bootstraps(calibration.net_histograms(verdicts))
    for place in (0, 1, 2, 3):
        nets = verdicts[place].sum(axis=1, dtype=int)
        raters, strata = np.full(len(nets), verdicts.shape[2]), ["d"] * len(nets)
        drawn = win_share_bootstrap(nets, raters, strata, replicates=20_000, seed=1)
        step = 1 / (2 * nets.size * verdicts.shape[2])
        for limit, other in ((low[place], drawn.low), (high[place], drawn.high)):
            assert same(limit, other, abs=step + 1e-9)


def test_the_bootstrap_of_two_items_by_hand(calibration):
    # One rater, a win and a loss: the sum of two draws is −2, 0, 2 with chances 1/4, 1/2, 1/4.
    for level, limits in ((0.4, (0.5, 0.5)), (0.6, (0.0, 1.0))):
        low, high = calibration.item_bootstraps(np.array([[1, 0, 1]]), level=level)
        assert (low[0], high[0]) == limits


def test_a_missing_interval_is_not_counted(calibration):
    low, high = np.array([0.4, 0.55, np.nan]), np.array([0.6, 0.7, np.nan])
    assert calibration._held((low, high), 0.5) == 0.5


def test_ordinal_alpha_of_infinitely_many_items_is_that_of_very_many(calibration):
    design = Design(items=20_000, raters=3, share=0.6)
    verdicts = simulate(design, studies=1, rng=np.random.default_rng(1))[0, 0]
    counted = krippendorff.alpha(
        value_counts=np.stack([(verdicts == v).sum(axis=1) for v in (1, 0, -1)], axis=1),
        level_of_measurement="ordinal",
    )
    assert calibration.ordinal_alpha(truth(design)) == pytest.approx(counted, abs=0.015)


def test_a_cell_has_every_rate(calibration):
    task = calibration.Task(
        make=calibration.one_cell, table="grid", design=Design(items=20, raters=3), studies=20, seed=1
    )
    row = task.row()
    assert row == task.row()
    rates = {key: value for key, value in row.items() if isinstance(value, float)}
    assert all(0 <= value <= 1 for value in rates.values())
    assert "| LN | .41 | .32 | 3 | 20 |" in calibration.markdown(
        {
            "grid": [row],
            "families": [row | {"holm": 0.04, "none": 0.1, "pooled": 0.2}],
            "mixed": [],
            "datasets": [row],
        },
        studies=20,
        seed=1,
    )


def test_the_page_keeps_what_was_written_by_hand(calibration, tmp_path):
    page = tmp_path / "calibration.md"
    page.write_text(f"# By hand\n\n{calibration.MARK}\n\nold\n", encoding="utf-8")
    calibration.write(page, "new\n")
    assert page.read_text(encoding="utf-8") == f"# By hand\n\n{calibration.MARK}\n\nnew\n"


@pytest.fixture
def claims(load):
    return load("calibration_claims")


def test_differing_criteria_share_the_draws_of_the_others(claims):
    design = Design(items=40, raters=3, criteria=6, correlation=1.0)
    nets = claims._nets(design, 3, 20, [1])
    assert (nets[:, 0] == nets[:, 2]).all()
    assert (nets[:, 3] == nets[:, 5]).all()
    # A share of .6 moves thresholds: of the same draws no score becomes less.
    assert (nets[:, 0] >= nets[:, 3]).mean() > 0.99
    assert nets[:, 0].mean() > nets[:, 3].mean()


def test_both_corrections_of_a_study(claims):
    # Two criteria that are one, all six items for one method: 2/64, by Holm twice that.
    nets = np.array([[[1] * 6] * 2, [[0] * 6] * 2], np.int8)
    holm, flips = claims.both_corrections(nets, seed=1)
    assert holm.tolist() == [[False, False], [False, False]]
    assert flips.tolist() == [[True, True], [False, False]]
