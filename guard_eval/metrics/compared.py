"""Differences from a baseline, prompt by prompt, with their intervals, tests and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.core.correction import holm
from analysis.core.resampling import paired_randomisation, percentile
from guard_eval.generations import HUMAN
from guard_eval.metrics.groups import Group
from guard_eval.metrics.outcomes import Outcome, Sum
from guard_eval.metrics.resampled import NORMAL, Outcomes, Resampling, noise_of, quantile, replicates_of
from guard_eval.metrics.scores import OVERALL, Difference


@dataclass(frozen=True)
class _Comparison:
    """A strategy and the baseline on one dataset, or on all of them.

    Attributes:
        strategy: The strategy.
        baseline: The baseline.
        datasets: Where they are compared.
        both: The places of the prompts that both continued, for each dataset.
    """

    strategy: str
    baseline: str
    datasets: tuple[str, ...]
    both: tuple[NDArray[np.int64], ...]


def differences(
    outcomes: Outcomes, groups: Sequence[Group], baseline: str, resampling: Resampling
) -> list[Difference]:
    """Return each strategy's metrics less the baseline's, corrected by Holm within each metric.

    A metric is a question of its own; its family is all its comparisons, over strategies and datasets, the
    mean over datasets included.
    """
    comparisons = list(_comparisons(groups, baseline))
    found: list[Difference] = []
    for metric in dict.fromkeys(metric for metric, _, _ in outcomes):
        family = []
        for comparison in comparisons:
            sides = [
                [outcomes.get((metric, dataset, name)) for dataset in comparison.datasets]
                for name in (comparison.strategy, comparison.baseline)
            ]
            first, second = ([one for one in side if one is not None] for side in sides)
            if len(first) == len(second) == len(comparison.datasets):
                family.append(_difference(first, second, comparison, resampling))
        corrected = holm([one.p_value for one in family if one.p_value is not None])
        adjusted = iter(corrected.p_values)
        found += [
            replace(one, p_holm=None if one.p_value is None else next(adjusted), family=corrected.n)
            for one in family
        ]
    return found


def _comparisons(groups: Sequence[Group], baseline: str) -> Iterator[_Comparison]:
    by_place = {(group.dataset, group.strategy): group for group in groups}
    datasets = tuple(dict.fromkeys(group.dataset for group in groups))
    for strategy in dict.fromkeys(group.strategy for group in groups):
        if strategy in {baseline, HUMAN}:
            continue
        for where in [(dataset,) for dataset in datasets] + ([datasets] if len(datasets) > 1 else []):
            pairs = [(by_place.get((one, strategy)), by_place.get((one, baseline))) for one in where]
            both = [np.intersect1d(a.places, b.places) for a, b in pairs if a is not None and b is not None]
            if len(both) == len(where):
                yield _Comparison(strategy, baseline, where, tuple(both))


def _difference(
    first: Sequence[Outcome], second: Sequence[Outcome], comparison: _Comparison, resampling: Resampling
) -> Difference:
    """Return one difference, not yet corrected."""
    blank = Difference(
        metric=first[0].metric,
        dataset=comparison.datasets[0] if len(comparison.datasets) == 1 else OVERALL,
        strategy=comparison.strategy,
        baseline=comparison.baseline,
        value=None,
        low=None,
        high=None,
        level=resampling.level,
        p_value=None,
        p_holm=None,
        family=0,
        n=sum(len(places) for places in comparison.both),
        method="no test",
    )
    if any(one.value is None for one in (*first, *second)):
        return blank
    sums = [[one for one in side if isinstance(one, Sum)] for side in (first, second)]
    if len(sums[0]) == len(sums[1]) == len(first):
        return _of_sums(blank, sums[0], sums[1], comparison, resampling)
    return _of_spreads(blank, first, second, comparison, resampling)


def _of_sums(
    blank: Difference,
    first: Sequence[Sum],
    second: Sequence[Sum],
    comparison: _Comparison,
    resampling: Resampling,
) -> Difference:
    chosen = list(zip(comparison.datasets, comparison.both, strict=True))
    function = first[0].function
    ours, theirs = (
        [one.parts[places] for one, places in zip(side, comparison.both, strict=True)]
        for side in (first, second)
    )
    test = paired_randomisation(
        ours, theirs, function, [resampling.exchanged[name][:, places] for name, places in chosen]
    )
    if math.isnan(test.statistic):
        return blank
    weights = [resampling.weights[name][:, places] for name, places in chosen]
    replicates = np.mean(
        [function(w @ a) - function(w @ b) for w, a, b in zip(weights, ours, theirs, strict=True)], axis=0
    )
    interval = percentile(test.statistic, replicates, level=resampling.level, n=blank.n, seed=resampling.seed)
    return replace(
        blank,
        value=test.statistic,
        low=interval.low,
        high=interval.high,
        p_value=test.p_value,
        method=f"{interval.method}; {test.method}",
    )


def _of_spreads(
    blank: Difference,
    first: Sequence[Outcome],
    second: Sequence[Outcome],
    comparison: _Comparison,
    resampling: Resampling,
) -> Difference:
    """Return the difference of metrics that are no sums: normal where they have replicates, else bare."""
    value = math.fsum(one.value or 0.0 for one in first) - math.fsum(one.value or 0.0 for one in second)
    value /= len(first)
    ours, theirs = (replicates_of(side, comparison.datasets, resampling) for side in (first, second))
    if ours is None or theirs is None:
        return replace(blank, value=value)
    error = math.sqrt(float(np.var(ours - theirs, ddof=1)) + noise_of(first) + noise_of(second))
    half = quantile(resampling.level) * error
    p = 2 * float(special.ndtr(-abs(value) / error)) if error > 0 else None
    return replace(blank, value=value, low=value - half, high=value + half, p_value=p, method=NORMAL)
