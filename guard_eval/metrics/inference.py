"""Intervals of metrics, differences from a baseline, and their tests.

A metric of many texts is a smooth function of sums over prompts. To first order it is a mean over prompts of
what each one contributes: the jackknife's pseudo-values. Means over datasets and differences between
strategies are means of the same contributions, so one interval and one test serve for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from guard_eval.estimate import ROUNDING, Estimate, Floats, Statistic, adjust, jackknife, sign_flip, why_no_p
from guard_eval.metrics.outcomes import Outcome, ratio
from guard_eval.metrics.scores import METRICS, OVERALL, Difference, Score

Key = tuple[str, str, str]
Outcomes = Mapping[Key, Outcome]
"""Outcomes by metric, dataset and strategy."""
Places = Mapping[tuple[str, str], NDArray[np.int64]]
"""Which of a dataset's prompts a strategy continued, by dataset and strategy."""

UNSTABLE = "without one of the prompts it is undefined, so its error is unknown"


def scores_and_differences(
    outcomes: Outcomes, *, places: Places, level: float, seed: int, baseline: str | None = None
) -> tuple[list[Score], list[Difference]]:
    """Return each outcome with its interval, the means over datasets, and the differences from a baseline.

    The tests of one metric, over strategies and datasets and the mean over datasets, are one family. A test
    that could not be made counts, too. A test that could not have reached one minus the level has no p.

    Args:
        outcomes: By metric, dataset and strategy.
        places: Of the strategies to compare; the references are not among them.
        level: The confidence level.
        seed: The seed of randomly drawn signs.
        baseline: The strategy that others are compared with; no differences without one.
    """
    scores = [_score(outcomes, [key], level) for key in outcomes]
    datasets = list(dict.fromkeys(dataset for _, dataset, _ in outcomes))
    if len(datasets) > 1:
        for metric, strategy in dict.fromkeys((metric, strategy) for metric, _, strategy in outcomes):
            keys = [(metric, dataset, strategy) for dataset in datasets]
            if all(key in outcomes and outcomes[key].value is not None for key in keys):
                scores.append(_score(outcomes, keys, level))
    differences: list[Difference] = []
    if baseline is None:
        return scores, differences
    for metric in dict.fromkeys(metric for metric, _, _ in outcomes):
        family = [
            _difference(outcomes, metric, (strategy, baseline), both, level=level, seed=seed)
            for strategy, both in _comparisons(places, baseline)
            if all((metric, dataset, name) in outcomes for dataset in both for name in (strategy, baseline))
        ]
        differences += _adjusted(family, 1 - level)
    return scores, differences


def contributions(parts: Floats, function: Statistic) -> Floats:
    """Return what each prompt contributes to a metric, `[prompts]`; their mean is the metric.

    These are the jackknife's pseudo-values, moved so that their mean has no correction of bias.

    >>> contributions(np.array([[1.0, 1], [2, 1], [6, 1]]), ratio)  # of a mean: the values themselves
    array([1., 2., 6.])
    """
    total, n = parts.sum(axis=0), len(parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(function(total))
        without = np.asarray(function(total - parts)) if n > 1 else np.array([value])
        return np.asarray(value + (n - 1) * (without.mean() - without))


def _mean_of(datasets: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the contributions to the mean over datasets, in which each weighs the same, and their strata."""
    prompts = sum(map(len, datasets))
    scaled = [values * prompts / (len(values) * len(datasets)) for values in datasets]
    return np.concatenate(scaled), np.repeat(np.arange(len(datasets)), [len(values) for values in datasets])


def _estimate(
    datasets: Sequence[Floats],
    *,
    level: float,
    noise: float,
    null: float | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Return the mean over datasets of contributions with its jackknife interval."""
    values, strata = _mean_of(datasets)
    if not np.isfinite(values).all():
        return Estimate(level=level, n=len(values), note=UNSTABLE)
    parts = np.stack([values, np.ones_like(values)], axis=1)
    return jackknife(parts, ratio, strata=strata, level=level, null=null, noise=noise, bounds=bounds)


def _noise(outcomes: Sequence[Outcome], datasets: int) -> float:
    """Return the variance of a mean over datasets that comes from other sources than the prompts."""
    return math.fsum(outcome.noise for outcome in outcomes) / datasets**2


def _score(outcomes: Outcomes, keys: Sequence[Key], level: float) -> Score:
    """Return an outcome as a score, or the mean of the datasets' outcomes."""
    several = [outcomes[key] for key in keys]
    first, single = several[0], len(keys) == 1
    value = first.value if single else math.fsum(item.value or 0.0 for item in several) / len(keys)
    note = first.note if single else f"mean over {len(keys)} datasets, each of the same weight"
    interval = Estimate(level=level)
    known = [contributions(item.parts, item.function) for item in several if item.parts is not None]
    if len(known) == len(keys):
        bounds = (0.0, 100.0) if METRICS[first.metric].unit == "%" else (-math.inf, math.inf)
        interval = _estimate(known, level=level, noise=_noise(several, len(keys)), bounds=bounds)
    # Of all datasets, a run's value is its mean over them.
    runs = zip(*(item.run_values for item in several), strict=False)
    by_run = [math.fsum(run) / len(run) for run in runs if None not in run]
    return Score(
        metric=first.metric,
        dataset=keys[0][1] if single else OVERALL,
        strategy=keys[0][2],
        value=value,
        low=interval.low,
        high=interval.high,
        level=level,
        n=sum(item.n for item in several),
        counts=dict(first.counts) if single else {},
        note="; ".join(part for part in (note, interval.note) if part),
        signature=first.signature,
        runs=max(1, *(len(item.run_values) for item in several)),
        run_sd=float(np.std(by_run, ddof=1)) if len(by_run) > 1 else None,
    )


def _comparisons(places: Places, baseline: str) -> Iterator[tuple[str, dict[str, NDArray[np.int64]]]]:
    """Yield each strategy with the prompts that it and the baseline continued, by dataset; then on all."""
    datasets = tuple(dict.fromkeys(dataset for dataset, _ in places))
    for strategy in dict.fromkeys(strategy for _, strategy in places):
        if strategy == baseline:
            continue
        both = {
            dataset: np.intersect1d(places[dataset, strategy], places[dataset, baseline])
            for dataset in datasets
            if (dataset, strategy) in places and (dataset, baseline) in places
        }
        yield from ((strategy, {dataset: prompts}) for dataset, prompts in both.items())
        if len(both) == len(datasets) > 1:
            yield strategy, both


def _difference(
    outcomes: Outcomes,
    metric: str,
    names: tuple[str, str],
    both: Mapping[str, NDArray[np.int64]],
    *,
    level: float,
    seed: int,
) -> tuple[Difference, float]:
    """Return a difference, not yet adjusted, and the smallest p that its test could have given.

    Args:
        outcomes: By metric, dataset and strategy.
        metric: The metric.
        names: The strategy and the baseline.
        both: The prompts that both continued, by dataset.
        level: The confidence level.
        seed: The seed of randomly drawn signs.
    """
    difference = Difference(
        metric=metric,
        dataset=next(iter(both)) if len(both) == 1 else OVERALL,
        strategy=names[0],
        baseline=names[1],
        level=level,
        n=sum(map(len, both.values())),
    )
    sides = [(outcomes[metric, dataset, names[0]], outcomes[metric, dataset, names[1]]) for dataset in both]
    every = [outcome for side in sides for outcome in side]
    if any(outcome.value is None for outcome in every) or not difference.n:
        return difference, 0.0
    if any(outcome.parts is None for outcome in every):
        gains = [(first.value or 0.0) - (second.value or 0.0) for first, second in sides]
        return replace(difference, value=math.fsum(gains) / len(gains)), 0.0
    prompts = both.values()
    gained = [_gain(*side, shared) for side, shared in zip(sides, prompts, strict=True)]
    interval = _estimate(gained, level=level, noise=_noise(every, len(both)), null=0.0)
    if interval.value is None:
        return replace(difference, note=interval.note), 0.0
    if any(outcome.noise for outcome in every):  # flipped signs would not show what the seeds change
        test, method = Estimate(p=interval.p), f"{interval.method} and seeds of k-means; t test"
    else:
        test = sign_flip(_mean_of(gained)[0], seed=seed)
        method = f"{interval.method}; {test.method}"
    difference = replace(
        difference,
        value=interval.value,
        low=interval.low,
        high=interval.high,
        p_value=test.p,
        method=method,
        note=test.note,
    )
    return difference, test.smallest_p


def _gain(first: Outcome, second: Outcome, shared: NDArray[np.int64]) -> Floats:
    """Return what each prompt contributes to the difference of two outcomes, without errors of rounding."""
    known = [(side.parts, side.function) for side in (first, second) if side.parts is not None]
    sides = [contributions(parts[shared], function) for parts, function in known]
    with np.errstate(invalid="ignore"):
        gain = sides[0] - sides[1]
    smallest = ROUNDING * len(gain) * max(1.0, *(float(np.abs(side).max()) for side in sides))
    return np.where(np.abs(gain) <= smallest, 0.0, gain)


def _adjusted(family: Sequence[tuple[Difference, float]], alpha: float) -> Iterator[Difference]:
    """Yield the differences of one metric, their p-values adjusted together by Holm."""
    p_values = [difference.p_value for difference, _ in family]
    limits = adjust([None if p is None else least for p, (_, least) in zip(p_values, family, strict=True)])
    after = f" after Holm's correction for {len(family)} tests" if len(family) > 1 else ""
    for (difference, least), p_holm, limit in zip(family, adjust(p_values), limits, strict=True):
        why = "" if limit is None else why_no_p(least, alpha)
        why_adjusted = "" if limit is None else why_no_p(limit, alpha, after=after)
        yield replace(
            difference,
            p_value=None if why else difference.p_value,
            p_holm=None if why_adjusted else p_holm,
            family=len(family),
            note=why or why_adjusted or difference.note,
        )
