"""Compute intervals of metrics, differences from a baseline, and tests of these differences.

A metric of many texts is a smooth function of sums over prompts. To first order, the metric is a mean with
one contribution from each prompt: the jackknife's pseudo-values. Means over datasets and differences between
strategies are means of the same contributions, so all of them use the same interval and the same test.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import (
    NEEDS_EACH,
    ROUNDING,
    UNBOUNDED,
    Bounds,
    Estimate,
    Floats,
    Statistic,
    adjust_p_values,
    divide_sums,
    explain_unreachable_alpha,
    jackknife,
    join_notes,
)
from guard_eval.joint_flips import REPLICATES, compute_max_t_p
from guard_eval.metrics.outcomes import Outcome
from guard_eval.metrics.scores import METRICS, OVERALL, Difference, Score
from guard_eval.records import HUMAN
from guard_eval.sign_flip import sign_flip

EQUAL_SCORES = "both scores are equal on every prompt. Measure more prompts"

Outcomes = Mapping[tuple[str, str, str], Outcome]
"""Outcomes by metric, dataset and strategy."""
Sides = Sequence[tuple[Outcome, Outcome]]
"""The outcomes of a strategy and of the baseline, for each dataset."""
Searches = Mapping[str, Sequence[str]]
"""For each chosen setting of a strategy, all settings of the strategy that were tried."""


def compute_prompt_contributions(parts: Floats, function: Statistic) -> Floats:
    """Return the contribution of each prompt to a metric, `[prompts]`. The mean contribution is the metric.

    Contributions are the jackknife's pseudo-values, without the jackknife's correction for bias.

    >>> compute_prompt_contributions(np.array([[1.0, 1], [2, 1], [6, 1]]), divide_sums)  # of a mean: values
    array([1., 2., 6.])
    """
    total = parts.sum(axis=0)
    n = len(parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(function(total))
        without = np.asarray(function(total - parts)) if n > 1 else np.array([value])
        return np.asarray(value + (n - 1) * (without.mean() - without))


def estimate_scores(outcomes: Outcomes, *, level: float) -> list[Score]:
    """Return the score of each outcome and of each mean over datasets, with intervals."""
    scores = [_make_score([outcome], level) for outcome in outcomes.values()]
    count = len({dataset for _, dataset, _ in outcomes})
    defined: dict[tuple[str, str], list[Outcome]] = {}
    for (metric, _, strategy), outcome in outcomes.items():
        if outcome.value is not None:
            defined.setdefault((metric, strategy), []).append(outcome)
    return scores + [_make_score(every, level) for every in defined.values() if len(every) == count > 1]


def _make_score(outcomes: Sequence[Outcome], level: float) -> Score:
    """Return a strategy's score on one dataset, or the mean score over several datasets."""
    first = outcomes[0]
    is_mean = len(outcomes) > 1
    note = f"mean over {len(outcomes)} datasets, each of the same weight" if is_mean else first.note
    estimate = Estimate()
    datasets = [
        compute_prompt_contributions(outcome.parts, outcome.function)
        for outcome in outcomes
        if outcome.parts is not None
    ]
    if len(datasets) == len(outcomes):
        metric = METRICS[first.metric]
        bounds = (metric.lowest, metric.highest)
        estimate = _estimate_mean_over_datasets(datasets, outcomes, level=level, bounds=bounds)
    return Score(
        metric=first.metric,
        dataset=OVERALL if is_mean else first.dataset,
        strategy=first.strategy,
        value=None if first.value is None else statistics.fmean(outcome.value or 0.0 for outcome in outcomes),
        low=estimate.low,
        high=estimate.high,
        level=level,
        n=sum(outcome.n for outcome in outcomes),
        counts={} if is_mean else first.counts,
        note=join_notes(note, estimate.note),
        signature=first.signature,
        runs=first.runs,
    )


def _pool_contributions(datasets: Sequence[Floats]) -> tuple[Floats, NDArray[np.int64]]:
    """Return each prompt's contribution to the mean over datasets, and each prompt's dataset as a number.

    Both results have the shape `[prompts]`. All datasets have the same weight in the mean.
    """
    sizes = [len(values) for values in datasets]
    total = sum(sizes)
    scaled = [values * total / (len(values) * len(datasets)) for values in datasets]
    return np.concatenate(scaled), np.repeat(np.arange(len(datasets)), sizes)


def _estimate_mean_over_datasets(
    datasets: Sequence[Floats],
    outcomes: Sequence[Outcome],
    *,
    level: float,
    null: float | None = None,
    bounds: Bounds = UNBOUNDED,
) -> Estimate:
    """Return the mean of contributions over datasets, with a jackknife interval."""
    values, strata = _pool_contributions(datasets)
    if not np.isfinite(values).all():
        return Estimate(level=level, n=len(values)).with_note(NEEDS_EACH)
    parts = np.stack([values, np.ones_like(values)], axis=1)
    noise = math.fsum(outcome.noise for outcome in outcomes) / len(datasets) ** 2
    return jackknife(parts, divide_sums, strata=strata, level=level, null=null, noise=noise, bounds=bounds)


def estimate_differences(
    outcomes: Outcomes, baseline: str, *, level: float, searches: Searches = MappingProxyType({})
) -> list[Difference]:
    """Return each strategy's differences from the baseline, with tests.

    Holm's correction is for all tests of one metric: the tests of all strategies, on each dataset and for the
    mean over datasets. A test that could not be computed also counts. A test has no p-value if the smallest
    possible p-value is above one minus the level.

    Args:
        outcomes: The outcomes by metric, dataset and strategy.
        baseline: The strategy that other strategies are compared with.
        level: The confidence level.
        searches: For each setting that was chosen on these prompts, all settings that were tried. Only the
            chosen setting has a row, and the test is corrected for the number of tried settings.
    """
    differences: list[Difference] = []
    unchosen = set(chain(*searches.values())) - searches.keys()
    skipped = {baseline, HUMAN, *unchosen}
    datasets = list(dict.fromkeys(dataset for _, dataset, _ in outcomes))
    strategies = dict.fromkeys(strategy for _, _, strategy in outcomes)
    scopes = [[dataset] for dataset in datasets]
    if len(datasets) > 1:
        scopes.append(datasets)
    for metric in dict.fromkeys(metric for metric, _, _ in outcomes):
        family = []
        for strategy in (name for name in strategies if name not in skipped):
            for scope in scopes:
                tried = [
                    _pair_with_baseline(outcomes, metric, scope, setting, baseline)
                    for setting in (strategy, *searches.get(strategy, ()))
                ]
                if len(tried[0]) == len(scope):
                    family.append(_estimate_difference(tried[0], level, tried[1:]))
        differences += _adjust_differences_by_holm(family, 1 - level)
    return differences


def _pair_with_baseline(
    outcomes: Outcomes, metric: str, datasets: Sequence[str], strategy: str, baseline: str
) -> Sides:
    """Return the outcomes of a strategy and of the baseline on each dataset that has both."""
    keys = [((metric, dataset, strategy), (metric, dataset, baseline)) for dataset in datasets]
    return [(outcomes[key], outcomes[base]) for key, base in keys if {key, base} <= outcomes.keys()]


def _estimate_difference(pairs: Sides, level: float, tried: Sequence[Sides]) -> Difference:
    """Return a strategy's difference from the baseline, before Holm's correction.

    `pairs` has one dataset or all datasets. If the strategy's setting was chosen on the same prompts, `tried`
    has all settings that were tried.
    """
    first, second = pairs[0]
    sides = [side for pair in pairs for side in pair]
    untested = Difference(
        metric=first.metric,
        dataset=first.dataset if len(pairs) == 1 else OVERALL,
        strategy=first.strategy,
        baseline=second.strategy,
        level=level,
        n=sum(len(_find_shared_prompts(*pair)) for pair in pairs),
    )
    if not untested.n:
        return replace(
            untested, note="no prompt has texts of both strategies. Give each prompt the same words or id"
        )
    if undefined := [side for side in sides if side.value is None]:
        return replace(untested, note=f"{undefined[0].strategy} has no value: {undefined[0].note}")
    if any(side.parts is None for side in sides):
        gains = [(ours.value or 0.0) - (theirs.value or 0.0) for ours, theirs in pairs]
        return replace(untested, value=statistics.fmean(gains))
    gained = [_compute_prompt_gains(*pair) for pair in pairs]
    estimate = _estimate_mean_over_datasets(gained, sides, level=level, null=0.0)
    if estimate.value is None:
        return replace(untested, note=estimate.note)
    if tried:
        # There is no interval, because it would not be corrected for the search.
        estimate = replace(estimate, low=None, high=None, method="no interval")
        test = _test_best_setting(pairs, tried)
    elif any(side.noise for side in sides):  # flipped signs would ignore the effect of the seeds
        test = Estimate(p=estimate.p, method="t test with the variance between seeds of k-means")
    else:
        test = sign_flip(_pool_contributions(gained)[0])
        test = replace(test, note=test.note and EQUAL_SCORES)
    return replace(
        untested,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        p_value=test.p,
        smallest_p=test.smallest_p,
        method=f"{estimate.method}; {test.method}",
        note=test.note,
    )


def _test_best_setting(pairs: Sides, tried: Sequence[Sides]) -> Estimate:
    """Test the best setting's difference from the baseline, corrected for all settings that were tried."""
    method = f"max-T test, best of {len(tried)}, corrected for the search"
    defined = [setting for setting in tried if all(side.parts is not None for side in chain(*setting))]
    if any(side.noise for pair in chain(*defined) for side in pair):
        return Estimate(
            method=method, note="no test, because these prompts chose the setting. Set tuning.prompts"
        )
    gains = [[_compute_prompt_gains(*pair) for pair in setting] for setting in defined]
    columns = np.stack([_pool_contributions(by_dataset)[0] for by_dataset in gains], axis=1)
    smallest = max(math.ldexp(1.0, 1 - len(columns)), 1 / (REPLICATES + 1))
    return Estimate(p=compute_max_t_p(columns)[defined.index(pairs)], method=method, smallest_p=smallest)


def _find_shared_prompts(first: Outcome, second: Outcome) -> NDArray[np.int64]:
    """Return the indices of the prompts that both strategies continued."""
    return np.intersect1d(first.prompt_indices, second.prompt_indices)


def _compute_prompt_gains(first: Outcome, second: Outcome) -> Floats:
    """Return the contribution of each prompt to a difference. Rounding errors become 0."""
    shared = _find_shared_prompts(first, second)
    ours, theirs = (
        compute_prompt_contributions(np.asarray(side.parts)[shared], side.function)
        for side in (first, second)
    )
    with np.errstate(invalid="ignore"):
        gain = ours - theirs
    largest = np.fmax(1.0, np.abs([ours, theirs]).max())
    return np.where(np.abs(gain) <= ROUNDING * len(gain) * largest, 0.0, gain)


def _adjust_differences_by_holm(family: Sequence[Difference], alpha: float) -> Iterator[Difference]:
    """Yield the differences of one metric with p-values after Holm's correction."""
    p_values = [row.p_value for row in family]
    smallest = [None if row.p_value is None else row.smallest_p for row in family]
    correction = f" after Holm's correction for {len(family)} tests"
    for row, p_holm, smallest_holm in zip(
        family, adjust_p_values(p_values), adjust_p_values(smallest), strict=True
    ):
        why_no_p_value = explain_unreachable_alpha(row.smallest_p, alpha) if p_holm is not None else ""
        why_no_p_holm = why_no_p_value or explain_unreachable_alpha(
            smallest_holm or 0.0, alpha, after_correction=correction
        )
        yield replace(
            row,
            p_value=None if why_no_p_value else row.p_value,
            p_holm=None if why_no_p_holm else p_holm,
            family=len(family),
            note=why_no_p_holm or row.note,
        )
