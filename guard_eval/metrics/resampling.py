"""Intervals, differences and tests of automatic metrics, from one drawing of each dataset's prompts."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from guard_eval.estimate import (
    Estimate,
    Floats,
    Statistic,
    adjust,
    bootstrap_weights,
    percentile_interval,
    why_no_p,
)
from guard_eval.metrics.outcomes import Outcome
from guard_eval.metrics.scores import OVERALL, Difference, Score
from guard_eval.records import content_id

NORMAL = "normal interval, bootstrap over prompts and seeds of k-means"
_BLOCK_FLOATS = 1 << 22

Outcomes = Mapping[tuple[str, str, str], Outcome]
"""Outcomes by metric, dataset and strategy."""
Places = Mapping[tuple[str, str], NDArray[np.int64]]
"""Which of a dataset's prompts a strategy continued, by dataset and strategy."""


@dataclass(frozen=True)
class Resampling:
    """Random weights and exchanges of each dataset's prompts, the same for all strategies and metrics.

    Attributes:
        weights: The bootstrap's, `[R, prompts]`, by dataset.
        exchanged: The randomisation test's, 0 or 1, `[permutations, prompts]`, by dataset.
        level: The confidence level.
        seed: The study's.
    """

    weights: Mapping[str, Floats]
    exchanged: Mapping[str, NDArray[np.int8]]
    level: float
    seed: int

    @classmethod
    def draw(
        cls, prompts: Mapping[str, int], *, seed: int, replicates: int, permutations: int, level: float
    ) -> Resampling:
        """Draw for datasets of so many prompts; the seed and the dataset's name decide, and nothing else."""

        def seed_of(purpose: str, dataset: str) -> int:
            return int(content_id(purpose, seed, dataset), 16) % 2**63

        weights = {
            name: bootstrap_weights(count, replicates=replicates, seed=seed_of("bootstrap", name))
            for name, count in prompts.items()
        }
        exchanged = {
            name: np.random.default_rng(seed_of("exchange", name)).integers(
                0, 2, size=(permutations, count), dtype=np.int8
            )
            for name, count in prompts.items()
        }
        return cls(weights, exchanged, level, seed)


def scores_and_differences(
    outcomes: Outcomes, resampling: Resampling, *, places: Places, baseline: str | None = None
) -> tuple[list[Score], list[Difference]]:
    """Return each outcome with its interval, the means over datasets, and the differences from a baseline.

    A metric is a question of its own; the family of its tests is all its comparisons, over strategies and
    datasets, the mean over datasets included. A test that could not be made counts, too. A test that could
    not have reached one minus the level has no p.

    Args:
        outcomes: By metric, dataset and strategy.
        resampling: Drawn for the same datasets.
        places: Of the strategies to compare; the references are not among them.
        baseline: The strategy that others are compared with; no differences without one.
    """
    replicates = {
        key: None if outcome.resample is None else outcome.resample(resampling.weights[key[1]])
        for key, outcome in outcomes.items()
    }
    scores = [_score(outcomes, replicates, [key], resampling) for key in outcomes]
    datasets = list(dict.fromkeys(dataset for _, dataset, _ in outcomes))
    if len(datasets) > 1:
        for metric, strategy in dict.fromkeys((metric, strategy) for metric, _, strategy in outcomes):
            keys = [(metric, dataset, strategy) for dataset in datasets]
            if all(key in outcomes and outcomes[key].value is not None for key in keys):
                scores.append(_score(outcomes, replicates, keys, resampling))
    differences: list[Difference] = []
    if baseline is not None:
        for metric in dict.fromkeys(metric for metric, _, _ in outcomes):
            family = [
                _difference(_Comparison(metric, strategy, baseline, both), outcomes, replicates, resampling)
                for strategy, both in _comparisons(places, baseline)
                if all((metric, d, s) in outcomes for d in both for s in (strategy, baseline))
            ]
            differences += _adjusted(family, 1 - resampling.level)
    return scores, differences


Key = tuple[str, str, str]
Replicates = Mapping[Key, Floats | None]


def _mean(replicates: Replicates, keys: Sequence[Key]) -> Floats | None:
    """Return the mean over datasets in each replicate, `[R]`; None where one has no replicates."""
    known = [values for key in keys if (values := replicates[key]) is not None]
    return np.asarray(np.mean(known, axis=0)) if len(known) == len(keys) else None


def _noise(outcomes: Outcomes, keys: Sequence[Key]) -> float:
    """Return the variance of a mean over datasets that comes from other sources than the prompts."""
    return math.fsum(outcomes[key].noise for key in keys) / len(keys) ** 2


def _score(outcomes: Outcomes, replicates: Replicates, keys: Sequence[Key], resampling: Resampling) -> Score:
    """Return an outcome as a score, or the mean of the datasets' outcomes."""
    first, level = outcomes[keys[0]], resampling.level
    single = len(keys) == 1
    n = sum(outcomes[key].n for key in keys)
    value, note = first.value, first.note
    if not single:
        value = math.fsum(outcomes[key].value or 0.0 for key in keys) / len(keys)
        note = f"mean over {len(keys)} datasets, each of the same weight"
    interval = Estimate(level=level)
    drawn = _mean(replicates, keys)
    if value is not None and drawn is not None:
        if all(outcomes[key].sums for key in keys):
            interval = percentile_interval(value, drawn, level=level, n=n, seed=resampling.seed)
        else:
            interval = _normal(value, drawn, _noise(outcomes, keys), level, bounds=(0.0, 100.0))
    # Of all datasets, a run's value is its mean over them.
    runs = zip(*(outcomes[key].run_values for key in keys), strict=False)
    by_run = [math.fsum(run) / len(run) for run in runs if None not in run]
    return Score(
        metric=first.metric,
        dataset=keys[0][1] if single else OVERALL,
        strategy=keys[0][2],
        value=value,
        low=interval.low,
        high=interval.high,
        level=level,
        n=n,
        counts=dict(first.counts) if single else {},
        note="; ".join(part for part in (note, interval.note) if part),
        signature=first.signature,
        runs=max(1, *(len(outcomes[key].run_values) for key in keys)),
        run_sd=float(np.std(by_run, ddof=1)) if len(by_run) > 1 else None,
    )


def _normal(
    value: float,
    replicates: Floats,
    noise: float,
    level: float,
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Return value ± z · √(variance of the replicates + noise), with the p-value of a difference from 0."""
    error = math.sqrt(float(np.var(replicates, ddof=1)) + noise)
    half = float(special.ndtri(0.5 + level / 2)) * error
    p = max(2 * float(special.ndtr(-abs(value) / error)), sys.float_info.min) if error > 0 else None
    low, high = max(bounds[0], value - half), min(bounds[1], value + half)
    return Estimate(value=value, low=low, high=high, level=level, error=error, p=p, method=NORMAL)


def _comparisons(places: Places, baseline: str) -> Iterator[tuple[str, dict[str, NDArray[np.int64]]]]:
    """Yield each strategy with the prompts that it and the baseline continued, by dataset; then on all."""
    datasets = tuple(dict.fromkeys(dataset for dataset, _ in places))
    for strategy in dict.fromkeys(strategy for _, strategy in places):
        if strategy == baseline:
            continue
        for where in [(dataset,) for dataset in datasets] + ([datasets] if len(datasets) > 1 else []):
            sides = {
                dataset: (places.get((dataset, strategy)), places.get((dataset, baseline)))
                for dataset in where
            }
            both = {d: np.intersect1d(a, b) for d, (a, b) in sides.items() if a is not None and b is not None}
            if len(both) == len(where):
                yield strategy, both


@dataclass(frozen=True)
class _Comparison:
    """A metric of a strategy and of the baseline, on the prompts of each dataset that both continued."""

    metric: str
    strategy: str
    baseline: str
    both: Mapping[str, NDArray[np.int64]]


def _difference(
    comparison: _Comparison, outcomes: Outcomes, replicates: Replicates, resampling: Resampling
) -> tuple[Difference, float]:
    """Return a difference, not yet adjusted, and the smallest p that its test could have given."""
    metric, both = comparison.metric, comparison.both
    blank = Difference(
        metric=metric,
        dataset=next(iter(both)) if len(both) == 1 else OVERALL,
        strategy=comparison.strategy,
        baseline=comparison.baseline,
        level=resampling.level,
        n=sum(len(places) for places in both.values()),
    )
    sides = [
        [(metric, dataset, name) for dataset in both] for name in (comparison.strategy, comparison.baseline)
    ]
    keys = [key for side in sides for key in side]
    if any(outcomes[key].value is None for key in keys):
        return blank, 0.0
    if all(outcomes[key].sums for key in keys):
        estimate = _difference_of_sums(outcomes, sides, both, resampling)
    else:
        means = [math.fsum(outcomes[key].value or 0.0 for key in side) / len(side) for side in sides]
        value, drawn = means[0] - means[1], [_mean(replicates, side) for side in sides]
        if drawn[0] is None or drawn[1] is None:
            return replace(blank, value=value), 0.0
        noise = _noise(outcomes, sides[0]) + _noise(outcomes, sides[1])
        estimate = _normal(value, drawn[0] - drawn[1], noise, resampling.level)
    difference = replace(
        blank,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        p_value=estimate.p,
        method=estimate.method,
    )
    return difference, estimate.smallest_p


def _difference_of_sums(
    outcomes: Outcomes,
    sides: Sequence[Sequence[Key]],
    both: Mapping[str, NDArray[np.int64]],
    resampling: Resampling,
) -> Estimate:
    """Return the difference of functions of sums, over the prompts that both strategies continued."""
    first, second = (
        [sums.parts[both[key[1]]] for key in side if (sums := outcomes[key].sums)] for side in sides
    )
    function = next(sums.function for key in sides[0] if (sums := outcomes[key].sums))
    exchanged = [resampling.exchanged[name][:, places] for name, places in both.items()]
    test = randomisation_test(first, second, function, exchanged)
    if test.value is None:
        return replace(test, method="no test")
    weights = [resampling.weights[name][:, places] for name, places in both.items()]
    drawn = [function(w @ a) - function(w @ b) for w, a, b in zip(weights, first, second, strict=True)]
    interval = percentile_interval(
        test.value, np.mean(drawn, axis=0), level=resampling.level, n=test.n, seed=resampling.seed
    )
    return replace(test, low=interval.low, high=interval.high, method=f"{interval.method}; {test.method}")


def randomisation_test(
    first: Sequence[Floats],
    second: Sequence[Floats],
    function: Statistic,
    exchanged: Sequence[NDArray[np.int8]],
) -> Estimate:
    """Test that two strategies have the same metric, by exchanging their texts prompt by prompt.

    If it does not matter which strategy wrote which of a prompt's texts, each exchange is as likely as not
    (Noreen 1989).
    The statistic is the difference, averaged over strata. p = (1 + as extreme exchanges) / (1 + all
    exchanges).

    Args:
        first: The first strategy's parts, `[prompts, m]` for each stratum.
        second: The second strategy's parts for the same prompts in the same order.
        function: The metric of the sums.
        exchanged: Whether each prompt's texts change places, `[permutations, prompts]` for each stratum.
    """
    strata = list(zip(first, second, exchanged, strict=True))
    draws, n = len(exchanged[0]), sum(len(parts) for parts in first)
    observed = float(np.mean([function(a.sum(0)) - function(b.sum(0)) for a, b, _ in strata]))
    null = np.mean([_exchanged_differences(*stratum, function) for stratum in strata], axis=0)
    method = f"paired randomisation test over prompts, {draws} exchanges"
    if math.isnan(observed):
        return Estimate(n=n, method=method, note="the metric is undefined for these texts")
    test = Estimate(value=observed, n=n, method=method)
    if np.isnan(null).any():
        return test.with_note("the metric is undefined after some exchanges, so there is no test")
    # A difference by rounding alone is as extreme.
    extreme = int((np.abs(null) >= abs(observed) * (1 - 1e-9) - 1e-12).sum())
    # The opposite of an exchange is as extreme, and prompts whose two texts are alike count for nothing.
    differing = sum(int((a != b).any(axis=1).sum()) for a, b, _ in strata)
    smallest = max(math.ldexp(1.0, 1 - differing) if differing else 1.0, 1 / (1 + draws))
    return replace(test, p=(1 + extreme) / (1 + draws), smallest_p=smallest)


def _exchanged_differences(
    first: Floats, second: Floats, exchanged: NDArray[np.int8], function: Statistic
) -> Floats:
    """Return the difference of the metrics after each exchange, `[permutations]`."""
    gain, rows = second - first, max(1, _BLOCK_FLOATS // max(1, len(first)))
    blocks = range(0, len(exchanged), rows)
    moved = np.concatenate([exchanged[i : i + rows].astype(np.float64) @ gain for i in blocks])
    return np.asarray(function(first.sum(0) + moved) - function(second.sum(0) - moved))


def _adjusted(family: Sequence[tuple[Difference, float]], alpha: float) -> Iterator[Difference]:
    """Yield the differences of one metric, their p-values adjusted together by Holm."""
    p_values = [difference.p_value for difference, _ in family]
    smallest = [least for _, least in family]
    limits = adjust([None if p is None else least for p, least in zip(p_values, smallest, strict=True)])
    after = f" after Holm's correction for {len(family)} tests" if len(family) > 1 else ""
    for (difference, least), p_holm, limit in zip(family, adjust(p_values), limits, strict=True):
        why = "" if limit is None else why_no_p(least, alpha)
        why_adjusted = "" if limit is None else why_no_p(limit, alpha, after=after)
        yield replace(
            difference,
            p_value=None if why else difference.p_value,
            p_holm=None if why_adjusted else p_holm,
            family=len(family),
            note=why or why_adjusted,
        )
