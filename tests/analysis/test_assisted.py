"""People's share assisted by a judge: against the regression estimator and a jackknife written out."""

import numpy as np
import pytest

from analysis.stats.assisted import estimate_assisted_share


def estimate(people, judge, strata, weights, *, is_tuned):
    """Return people's mean plus λ times the judge's difference, of items that count with weights."""
    total = slope_top = slope_bottom = gap = 0
    for stratum, share in enumerate(np.bincount(strata) / len(strata)):
        is_in = strata == stratum
        rated = is_in & ~np.isnan(people)
        n, judged = weights[rated].sum(), weights[is_in].sum()
        mean, judge_mean = (np.average(scores[rated], weights=weights[rated]) for scores in (people, judge))
        off = judge[rated] - judge_mean
        worth = weights[rated] * share**2 * (1 / n - 1 / judged) / (n - 1)
        slope_top += (worth * off * (people[rated] - mean)).sum()
        slope_bottom += (worth * off**2).sum()
        total += share * mean
        gap += share * (np.average(judge[is_in], weights=weights[is_in]) - judge_mean)
    slope = max(0, slope_top / slope_bottom) if is_tuned and slope_bottom else 0
    return total + slope * gap, slope


def variance_and_df(people, judge, strata, groups=None, *, is_tuned):
    """Return the jackknife's variance over rated and unrated items of each stratum, and its freedom."""
    variances, freedoms = [], []
    groups = 2 * strata + np.isnan(people) if groups is None else groups
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        n = len(members)
        values = []
        for item in members:
            weights = np.where(groups == group, n / (n - 1), 1.0)
            weights[item] = 0
            values.append(estimate(people, judge, strata, weights, is_tuned=is_tuned)[0])
        variances.append((n - 1) / n * ((np.array(values) - np.mean(values)) ** 2).sum())
        freedoms.append(n - 1)
    return sum(variances), sum(variances) ** 2 / sum(
        v**2 / df for v, df in zip(variances, freedoms, strict=True)
    )


def drawn(items=(20, 14), rated=(8, 6), seed=3):
    rng = np.random.default_rng(seed)
    strata = np.repeat(np.arange(len(items)), items)
    judge = rng.integers(0, 3, len(strata)) / 2
    people = np.clip(judge + rng.normal(0, 0.4, len(strata)), 0, 1)
    for stratum, count in enumerate(rated):
        people[np.flatnonzero(strata == stratum)[count:]] = np.nan
    return people, judge, strata


def test_assisted_share_agrees_with_regression_estimator():
    people, judge, strata = drawn()
    result = estimate_assisted_share(people, judge, strata, np.arange(34))
    value, slope = estimate(people, judge, strata, np.ones(34), is_tuned=True)
    alone, _ = variance_and_df(people, judge, strata, is_tuned=False)
    tuned, df = variance_and_df(people, judge, strata, is_tuned=True)
    # Fourteen units, and two units' worth of people alone.
    variance = (14 * tuned + 2 * alone) / 16
    assert (result.share.value, result.weight) == pytest.approx((value, slope))
    assert (result.share.error, result.share.df) == pytest.approx((variance**0.5, df))
    assert result.effective == pytest.approx(14 * alone / variance)
    assert tuned < alone


def test_judge_changes_nothing_if_people_rated_all_items():
    people, judge, strata = drawn(rated=(20, 14))
    result = estimate_assisted_share(people, judge, strata, np.arange(34))
    variance, _ = variance_and_df(people, judge, strata, is_tuned=False)
    assert (result.share.value, result.share.error) == pytest.approx((people.mean(), variance**0.5))
    assert result.effective is None
    centred = [
        scores - [scores[strata == stratum].mean() for stratum in strata] for scores in (people, judge)
    ]
    assert result.correlation == pytest.approx(np.corrcoef(*centred)[0, 1])


def test_constant_or_contrary_judge_has_no_weight():
    people, judge, strata = drawn()
    constant, contrary = (
        estimate_assisted_share(people, other, strata, np.arange(34)) for other in (0 * judge, 1 - judge)
    )
    assert constant.weight == contrary.weight == 0
    assert constant.share.value == pytest.approx(contrary.share.value)
    assert constant.correlation is None
    assert contrary.correlation < 0


@pytest.mark.parametrize(("rated", "notes"), [((8, 1), True), ((8, 2), False)])
def test_assisted_share_ignores_datasets_with_one_rated_unit(rated, notes):
    people, judge, strata = drawn(rated=rated)
    result, whole = (
        estimate_assisted_share(people, judge, codes, np.arange(34)) for codes in (strata, 0 * strata)
    )
    assert ("ignores the datasets" in result.share.note) == notes
    assert (result.share.value == pytest.approx(whole.share.value)) == notes


@pytest.mark.parametrize(
    ("items", "rated", "are_apart"), [((9,), (8,), 0), ((9, 9), (8, 9), 0), ((9, 9), (8, 8), 1)]
)
def test_few_unrated_units_form_no_jackknife_sample(items, rated, are_apart):
    """Two unrated units are a sample over both datasets; one unrated unit belongs to the rated ones."""
    people, judge, strata = drawn(items=items, rated=rated)
    groups = are_apart * np.isnan(people)
    alone, tuned = (
        variance_and_df(people, judge, strata, groups, is_tuned=is_tuned)[0] for is_tuned in (False, True)
    )
    n = sum(rated)
    share = estimate_assisted_share(people, judge, strata, np.arange(len(people))).share
    assert share.error**2 == pytest.approx((n * tuned + 2 * alone) / (n + 2))
    assert share.note == ""
