"""Intervals, differences and tests of automatic metrics, from one drawing of each dataset's prompts."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.correction import within_reach
from analysis.stats.intervals import Interval
from analysis.stats.resampling import exchanges, paired_randomisation, percentile, prompt_weights
from analysis.stats.significance import out_of_reach
from guard_eval.metrics.outcomes import Outcome, PointEstimate, Replicates, ResampledSum, spread
from guard_eval.metrics.scores import OVERALL, Difference, Score
from guard_eval.records import content_id

NORMAL = "normal interval, bootstrap over prompts and seeds of k-means"
_SEEDS = 2**63

Places = Mapping[tuple[str, str], NDArray[np.int64]]
"""Which of a dataset's prompts a strategy continued, by dataset and strategy."""


@dataclass(frozen=True)
class Resampling:
    """Random weights and exchanges of each dataset's prompts, the same for all strategies and metrics.

    Attributes:
        weights: The bootstrap's, `[R, prompts]`, by dataset.
        exchanged: The randomisation test's, `[permutations, prompts]`, by dataset.
        level: The confidence level.
        seed: The study's.
    """

    weights: Mapping[str, NDArray[np.float64]]
    exchanged: Mapping[str, NDArray[np.int8]]
    level: float
    seed: int

    @classmethod
    def of(
        cls, prompts: Mapping[str, int], *, seed: int, replicates: int, permutations: int, level: float
    ) -> Resampling:
        """Draw for datasets of so many prompts: from the seed and the dataset's name, nothing else."""

        def seed_of(purpose: str, dataset: str) -> int:
            return int(content_id(purpose, seed, dataset), 16) % _SEEDS

        return cls(
            weights={
                name: prompt_weights(number, replicates=replicates, seed=seed_of("bootstrap", name))
                for name, number in prompts.items()
            },
            exchanged={
                name: exchanges(number, permutations=permutations, seed=seed_of("exchange", name))
                for name, number in prompts.items()
            },
            level=level,
            seed=seed,
        )


@dataclass(frozen=True)
class _Part:
    """An outcome on one dataset, and its value in each replicate `[R]`, if it is resampled."""

    outcome: Outcome
    dataset: str
    replicates: NDArray[np.float64] | None


@dataclass(frozen=True)
class _Comparison:
    """A strategy and the baseline on one dataset, or on all of them.

    Attributes:
        strategy: The strategy.
        baseline: The baseline.
        both: The places of the prompts that both continued, by dataset.
    """

    strategy: str
    baseline: str
    both: Mapping[str, NDArray[np.int64]]


def scores_and_differences(
    outcomes: Mapping[tuple[str, str, str], Outcome],
    resampling: Resampling,
    *,
    places: Places,
    baseline: str | None = None,
) -> tuple[list[Score], list[Difference]]:
    """Return each outcome with its interval, the means over datasets, and the differences from a baseline.

    A metric is a question of its own; the family of its tests is all its comparisons, over strategies and
    datasets, the mean over datasets included. A test that could not have reached one minus the level has no
    p.

    Args:
        outcomes: By metric, dataset and strategy.
        resampling: Drawn for the same datasets.
        places: Of the strategies to compare; the references are not among them.
        baseline: The strategy that others are compared with; no differences without one.
    """
    parts = {
        key: _Part(outcome, key[1], _replicates(outcome, resampling.weights[key[1]]))
        for key, outcome in outcomes.items()
    }
    scores = [_score(strategy, [part], resampling) for (_, _, strategy), part in parts.items()]
    datasets = list(dict.fromkeys(dataset for _, dataset, _ in parts))
    if len(datasets) > 1:
        for metric, strategy in dict.fromkeys((metric, strategy) for metric, _, strategy in parts):
            mine = [parts.get((metric, dataset, strategy)) for dataset in datasets]
            whole = [one for one in mine if one is not None and one.outcome.value is not None]
            if len(whole) == len(datasets):
                scores.append(_score(strategy, whole, resampling))
    if baseline is None:
        return scores, []
    comparisons = list(_comparisons(places, baseline))
    differences = [
        one
        for metric in dict.fromkeys(metric for metric, _, _ in parts)
        for one in _family(metric, parts, comparisons, resampling)
    ]
    return scores, differences


def _replicates(outcome: Outcome, weights: NDArray[np.float64]) -> NDArray[np.float64] | None:
    match outcome:
        case ResampledSum():
            return outcome.function(weights @ outcome.parts)
        case Replicates():
            return outcome.resample(weights)
        case _:
            return None


def _mean_replicates(parts: Sequence[_Part]) -> NDArray[np.float64] | None:
    """Return the mean over datasets in each replicate, `[R]`; None where an outcome has no replicates."""
    found = [part.replicates for part in parts if part.replicates is not None]
    if len(found) < len(parts):
        return None
    mean: NDArray[np.float64] = np.mean(found, axis=0)
    return mean


def _noise(parts: Sequence[_Part]) -> float:
    """Return the variance of a mean over datasets that comes from elsewhere than the prompts."""
    found = (part.outcome for part in parts)
    return math.fsum(one.noise for one in found if isinstance(one, Replicates)) / len(parts) ** 2


def _standard_errors(level: float) -> float:
    """Return how many standard errors an interval of a level reaches to each side."""
    return float(special.ndtri(0.5 + level / 2))


def _score(strategy: str, parts: Sequence[_Part], resampling: Resampling) -> Score:
    """Return an outcome as a score, or several as that of all datasets."""
    first = parts[0].outcome
    if len(parts) == 1:
        dataset, value, note = parts[0].dataset, first.value, first.note
        n, counts = first.n, dict(first.counts)
    else:
        dataset, value = OVERALL, math.fsum(part.outcome.value or 0.0 for part in parts) / len(parts)
        n, counts = sum(part.outcome.n for part in parts), {}
        note = f"mean over {len(parts)} datasets, each of the same weight"
    interval = _interval(value, parts, resampling)
    low, high = (interval.low, interval.high) if interval else (None, None)
    if interval:
        note = "; ".join(part for part in (note, *interval.warnings) if part)
    elif isinstance(first, PointEstimate) and len(parts) == 1:
        low, high = first.low, first.high
    by_part = [part.outcome.run_values for part in parts]
    # Of all datasets, a run's value is its mean over them.
    whole = [None if None in run else math.fsum(run) / len(run) for run in zip(*by_part, strict=False)]
    return Score(
        metric=first.metric,
        dataset=dataset,
        strategy=strategy,
        value=value,
        low=low,
        high=high,
        level=resampling.level,
        n=n,
        counts=counts,
        note=note,
        signature=first.signature,
        runs=max(1, *map(len, by_part)),
        run_sd=spread(whole),
    )


def _interval(value: float | None, parts: Sequence[_Part], resampling: Resampling) -> Interval | None:
    replicates = _mean_replicates(parts)
    if value is None or replicates is None:
        return None
    n = sum(part.outcome.n for part in parts)
    if all(isinstance(part.outcome, ResampledSum) for part in parts):
        return percentile(value, replicates, level=resampling.level, n=n, seed=resampling.seed)
    error = math.sqrt(float(np.var(replicates, ddof=1)) + _noise(parts))
    half = _standard_errors(resampling.level) * error
    low, high = max(0.0, value - half), min(100.0, value + half)
    return Interval(estimate=value, low=low, high=high, level=resampling.level, n=n, method=NORMAL)


def _comparisons(places: Places, baseline: str) -> Iterator[_Comparison]:
    datasets = tuple(dict.fromkeys(dataset for dataset, _ in places))
    for strategy in dict.fromkeys(strategy for _, strategy in places):
        if strategy == baseline:
            continue
        for where in [(dataset,) for dataset in datasets] + ([datasets] if len(datasets) > 1 else []):
            sides = {one: (places.get((one, strategy)), places.get((one, baseline))) for one in where}
            both = {
                one: np.intersect1d(a, b) for one, (a, b) in sides.items() if a is not None and b is not None
            }
            if len(both) == len(where):
                yield _Comparison(strategy, baseline, both)


def _family(
    metric: str,
    parts: Mapping[tuple[str, str, str], _Part],
    comparisons: Sequence[_Comparison],
    resampling: Resampling,
) -> Iterator[Difference]:
    """Yield the differences of one metric, corrected together by Holm."""
    alpha = 1 - resampling.level
    family = []
    for comparison in comparisons:
        first, second = (
            [part for dataset in comparison.both if (part := parts.get((metric, dataset, name)))]
            for name in (comparison.strategy, comparison.baseline)
        )
        if len(first) == len(second) == len(comparison.both):
            family.append(_difference(first, second, comparison, resampling))
    tests = [(one.p_value, least) for one, least in family if one.p_value is not None]
    corrected, reasons = within_reach([p for p, _ in tests], [least for _, least in tests], alpha=alpha)
    adjusted = iter(zip(corrected.p_values, reasons, strict=True))
    for one, least in family:
        p_holm, after = (None, "") if one.p_value is None else next(adjusted)
        why = "" if one.p_value is None else out_of_reach(least, alpha)
        yield replace(
            one,
            p_value=None if why else one.p_value,
            p_holm=p_holm,
            family=corrected.n,
            note=why or after,
        )


def _difference(
    first: Sequence[_Part], second: Sequence[_Part], comparison: _Comparison, resampling: Resampling
) -> tuple[Difference, float]:
    """Return one difference, not yet corrected, and the smallest p that its test could have given."""
    blank = Difference(
        metric=first[0].outcome.metric,
        dataset=next(iter(comparison.both)) if len(comparison.both) == 1 else OVERALL,
        strategy=comparison.strategy,
        baseline=comparison.baseline,
        value=None,
        low=None,
        high=None,
        level=resampling.level,
        p_value=None,
        p_holm=None,
        family=0,
        n=sum(len(places) for places in comparison.both.values()),
        method="no test",
    )
    if any(part.outcome.value is None for part in (*first, *second)):
        return blank, 0.0
    sums = [
        [part.outcome for part in side if isinstance(part.outcome, ResampledSum)] for side in (first, second)
    ]
    if len(sums[0]) == len(sums[1]) == len(first):
        return _of_sums(blank, sums[0], sums[1], comparison, resampling)
    return _of_replicates(blank, first, second, resampling), 0.0


def _of_sums(
    blank: Difference,
    first: Sequence[ResampledSum],
    second: Sequence[ResampledSum],
    comparison: _Comparison,
    resampling: Resampling,
) -> tuple[Difference, float]:
    """Return the difference of functions of sums, over the prompts that both continued."""
    function = first[0].function
    ours, theirs = (
        [one.parts[places] for one, places in zip(side, comparison.both.values(), strict=True)]
        for side in (first, second)
    )
    exchanged = [resampling.exchanged[name][:, places] for name, places in comparison.both.items()]
    test = paired_randomisation(ours, theirs, function, exchanged)
    if math.isnan(test.statistic):
        return blank, 0.0
    weights = [resampling.weights[name][:, places] for name, places in comparison.both.items()]
    replicates = np.mean(
        [function(w @ a) - function(w @ b) for w, a, b in zip(weights, ours, theirs, strict=True)], axis=0
    )
    interval = percentile(test.statistic, replicates, level=resampling.level, n=blank.n, seed=resampling.seed)
    found = replace(
        blank,
        value=test.statistic,
        low=interval.low,
        high=interval.high,
        p_value=test.p_value,
        method=f"{interval.method}; {test.method}",
    )
    return found, test.smallest


def _of_replicates(
    blank: Difference, first: Sequence[_Part], second: Sequence[_Part], resampling: Resampling
) -> Difference:
    """Return the difference of metrics that are no sums: normal where both have replicates."""
    sums = [math.fsum(part.outcome.value or 0.0 for part in side) for side in (first, second)]
    value = (sums[0] - sums[1]) / len(first)
    ours, theirs = _mean_replicates(first), _mean_replicates(second)
    if ours is None or theirs is None:
        return replace(blank, value=value)
    error = math.sqrt(float(np.var(ours - theirs, ddof=1)) + _noise(first) + _noise(second))
    half = _standard_errors(resampling.level) * error
    p = max(2 * float(special.ndtr(-abs(value) / error)), sys.float_info.min) if error > 0 else None
    return replace(blank, value=value, low=value - half, high=value + half, p_value=p, method=NORMAL)
