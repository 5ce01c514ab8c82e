"""Raters as a sample: against a published analysis of variance, matrices in full and t intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.meta_analysis import combine_effects

from analysis.stats.population import TwoWayDesign, explain_too_few_raters

SHROUT_FLEISS = np.array(
    [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]], dtype=float
)
"""Six targets and four judges (Shrout and Fleiss 1979, table 2)."""


def full(items, raters):
    item, rater = np.divmod(np.arange(items * raters), raters)
    return TwoWayDesign(item, rater, np.full(items * raters, 1 / (items * raters)))


def test_full_table_gives_published_analysis_of_variance():
    result = full(6, 4).estimate_mean(SHROUT_FLEISS.ravel())
    targets, judges, residual = 11.24, 32.49, 1.02  # mean squares, their table 3
    assert result.raters == pytest.approx((judges - residual) / 6, abs=0.005)
    assert result.variance == pytest.approx((targets + judges - residual) / 24, abs=0.005)
    freedom = (targets + judges - residual) ** 2 / (targets**2 / 5 + judges**2 / 3 + residual**2 / 15)
    assert result.df == pytest.approx(freedom, abs=0.005)
    assert result.value == pytest.approx(127 / 24)


@st.composite
def designs(draw):
    """Draw who rated what, with which weight, in one to three strata."""
    items, raters, strata = draw(st.integers(4, 9)), draw(st.integers(2, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rated = rng.random((items, raters)) < draw(st.sampled_from([0.2, 0.6, 1]))
    rated[np.arange(items), np.arange(items) % raters] = True
    item, rater = np.nonzero(rated)
    weight = rng.uniform(0.5, 2, len(item))
    return TwoWayDesign(item, rater, weight / weight.sum(), item % strata)


@settings(max_examples=60, deadline=None)
@given(designs())
def test_expected_sums_of_squares_agree_with_matrices(design):
    """The matrices that the formulas stand for, made in full: v'y over each rater, item and score."""
    n, w, s = len(design.item), design.weight, design.stratum
    centred = np.eye(n) - np.stack([w * (s == stratum) / w[s == stratum].sum() for stratum in s])
    effects = [np.eye(numbers.max() + 1)[numbers] for numbers in (design.rater, design.item, np.arange(n))]
    expected, target = design._compute_expected_squares()
    for row, groups in zip(expected, effects, strict=True):
        forms = groups.T @ (w[:, None] * centred)
        assert row == pytest.approx([((forms @ effect) ** 2).sum() for effect in effects])
    assert target == pytest.approx([((w @ effect) ** 2).sum() for effect in effects])


def test_raters_without_shared_pairs_give_variance_of_means():
    """Then the mean over raters is what varies: the t interval of their own shares, wider than over pairs."""
    rng = np.random.default_rng(5)
    shares = np.clip(np.repeat(rng.random(6), 10) + 0.2 * rng.standard_normal(60), 0, 1)
    design = TwoWayDesign(np.arange(60), np.repeat(np.arange(6), 10), np.full(60, 1 / 60))
    result = design.estimate_mean(shares)
    rater_means = shares.reshape(6, 10).mean(axis=1)
    assert (result.df, result.variance) == pytest.approx((5, rater_means.var(ddof=1) / 6))


def test_unequal_loads_have_variance_of_paule_and_mandel():
    """The variance between raters is that of a meta-analysis of their means, as statsmodels has it."""
    rng, loads = np.random.default_rng(8), np.array([200, 100, 60, 40, 20, 20, 10, 10])
    rater = np.repeat(np.arange(8), loads)
    scores = 0.5 + rng.normal(0, 0.15, 8)[rater] + rng.normal(0, 0.35, len(rater))
    result = TwoWayDesign(np.arange(460), rater, np.full(460, 1 / 460)).estimate_mean(scores)
    means = np.array([scores[rater == name].mean() for name in range(8)])
    residual = ((scores - means[rater]) ** 2).sum() / (460 - 8)
    theirs = combine_effects(means, residual / loads, method_re="iterated")
    assert result.raters == pytest.approx(theirs.tau2, rel=1e-4)
    share = loads / 460
    assert result.variance == pytest.approx((share**2 * (theirs.tau2 + residual / loads)).sum(), rel=1e-4)
    assert 4 < result.df < 9  # that of a sum of squares in which raters weigh as much as they rated is 0.8


ALONE = TwoWayDesign(np.arange(6), np.arange(6) // 2, np.full(6, 1 / 6))
"""Three raters who share no item."""


@pytest.mark.parametrize(
    ("design", "scores", "method"),
    [
        (full(3, 4), [1.0] * 12, "items and raters as random effects"),
        (full(2, 2), [1.0, 0.0, 0.0, 1.0], "items and raters as random effects"),
        (ALONE, [1.0] * 6, "items as clusters"),
    ],
    ids=["crossed and equal", "crossed and opposed", "apart and equal"],
)
def test_negative_variance_between_raters_counts_as_zero(design, scores, method):
    """Sums of squares of opposed raters give a negative variance, which counts as 0."""
    result = design.estimate_mean(np.array(scores))
    assert (result.variance, result.df) == (0, 1)
    assert result.raters <= 0
    assert method in design.method


def test_raters_with_equal_means_have_residual_variance():
    # Residuals of ±½ have 6 − 3 degrees of freedom: 1.5 / 3, over six scores; three equal raters have two.
    result = ALONE.estimate_mean(np.array([0.0, 1.0] * 3))
    assert (result.raters, result.variance, result.df) == pytest.approx((0, 0.5 / 6, 2))


def test_degrees_of_freedom_are_fewer_than_the_items():
    """Each of three items has another two of three raters, who agree, so all variance is between items."""
    design = TwoWayDesign(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0]), np.full(6, 1 / 6))
    assert "items as clusters" in design.method
    assert design.estimate_mean(np.array([1, 1, 0, 0, 0.5, 0.5])).df == 2


def test_few_raters_are_never_printed_as_enough():
    """By hand: 507² / (307² + 2 · 100²) = 257 049 / 114 249 = 2.2499, and 2.25 equal raters are needed."""
    assert explain_too_few_raters(np.array([307, 100, 100]), 3).endswith("there are 3, worth 2.24")
    assert explain_too_few_raters(np.array([306, 100, 100]), 3) == ""  # 256 036 / 113 636 = 2.2531
