"""Outcomes → scores with intervals: one drawing of prompts for all metrics and strategies of a dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.core.intervals import Interval
from analysis.core.resampling import exchanges, percentile, prompt_weights
from guard_eval.metrics.groups import Group
from guard_eval.metrics.outcomes import Bare, Outcome, Spread, Sum
from guard_eval.metrics.scores import OVERALL, Score
from guard_eval.records import content_id

NORMAL = "normal interval, bootstrap over prompts and seeds of k-means"
_SEEDS = 2**63


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
        cls, groups: Sequence[Group], *, seed: int, replicates: int, permutations: int, level: float
    ) -> Resampling:
        """Draw for the datasets of `groups`: from the seed and the dataset's name, nothing else."""
        prompts = {group.dataset: len(group.prompts) for group in groups}

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


Outcomes = Mapping[tuple[str, str, str], Outcome]
"""By metric, dataset and strategy."""


def scores(outcomes: Outcomes, resampling: Resampling) -> list[Score]:
    """Return each outcome with its interval, and where there are several datasets the mean over them."""
    found = [
        _score(dataset, strategy, [outcome], [dataset], resampling)
        for (_, dataset, strategy), outcome in outcomes.items()
    ]
    datasets = list(dict.fromkeys(dataset for _, dataset, _ in outcomes))
    if len(datasets) > 1:
        for metric, strategy in dict.fromkeys((metric, strategy) for metric, _, strategy in outcomes):
            mine = [outcomes.get((metric, dataset, strategy)) for dataset in datasets]
            whole = [one for one in mine if one is not None and one.value is not None]
            if len(whole) == len(datasets):
                found.append(_score(OVERALL, strategy, whole, datasets, resampling))
    return found


def _score(
    dataset: str, strategy: str, parts: Sequence[Outcome], datasets: Sequence[str], resampling: Resampling
) -> Score:
    first = parts[0]
    if len(parts) == 1:
        value, n, counts, note = first.value, first.n, dict(first.counts), first.note
    else:
        value = math.fsum(one.value or 0.0 for one in parts) / len(parts)
        n, counts = sum(one.n for one in parts), {}
        note = f"mean over {len(parts)} datasets, each of the same weight"
    interval = _interval(value, parts, datasets, resampling)
    low, high = (interval.low, interval.high) if interval else (None, None)
    if interval:
        note = "; ".join(part for part in (note, *interval.warnings) if part)
    elif isinstance(first, Bare) and len(parts) == 1:
        low, high = first.low, first.high
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
    )


def _interval(
    value: float | None, parts: Sequence[Outcome], datasets: Sequence[str], resampling: Resampling
) -> Interval | None:
    replicates = replicates_of(parts, datasets, resampling)
    if value is None or replicates is None:
        return None
    n = sum(one.n for one in parts)
    if all(isinstance(one, Sum) for one in parts):
        return percentile(value, replicates, level=resampling.level, n=n, seed=resampling.seed)
    half = quantile(resampling.level) * math.sqrt(float(np.var(replicates, ddof=1)) + noise_of(parts))
    low, high = max(0.0, value - half), min(100.0, value + half)
    return Interval(estimate=value, low=low, high=high, level=resampling.level, n=n, method=NORMAL)


def replicates_of(
    parts: Sequence[Outcome], datasets: Sequence[str], resampling: Resampling
) -> NDArray[np.float64] | None:
    """Return the mean over datasets in each replicate, `[R]`; None where an outcome has no replicates."""
    found = []
    for one, dataset in zip(parts, datasets, strict=True):
        if isinstance(one, Sum):
            found.append(one.function(resampling.weights[dataset] @ one.parts))
        elif isinstance(one, Spread):
            found.append(one.replicates)
        else:
            return None
    mean: NDArray[np.float64] = np.mean(found, axis=0)
    return mean


def noise_of(parts: Sequence[Outcome]) -> float:
    """Return the variance of a mean over datasets that comes from elsewhere than the prompts."""
    return math.fsum(one.noise for one in parts if isinstance(one, Spread)) / len(parts) ** 2


def quantile(level: float) -> float:
    """Return how many standard errors an interval of a level reaches to each side."""
    return float(special.ndtri(0.5 + level / 2))
