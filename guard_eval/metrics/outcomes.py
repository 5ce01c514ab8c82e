"""What a metric comes to: a value, and how it is resampled over prompts.

A `ResampledSum` is a function of sums over prompts, which is what most metrics are. `Replicates` are made by
the metric itself, as by MAUVE. A `PointEstimate` is not resampled. Intervals and tests are made of these in
`analysis.results.metrics`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A metric of one group.

    Attributes:
        metric: One of `scores.METRICS`.
        value: None where it is undefined.
        n: How many texts it was taken of.
        counts: How many texts were left out, cut or repaired, by reason.
        note: What a reader must know.
        signature: The definition with its settings.
        run_values: The values of single runs, where there are several.
    """

    metric: str
    value: float | None
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""
    run_values: tuple[float | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ResampledSum(Outcome):
    """A metric that is a function of sums over prompts.

    Attributes:
        parts: Each prompt's part of the sums, `[prompts, m]`; zeros where it has no text.
        function: Sums `[..., m]` → metric `[...]`, NaN where undefined.
    """

    parts: Floats
    function: Callable[[Floats], Floats]


@dataclass(frozen=True, kw_only=True)
class Replicates(Outcome):
    """A metric that makes its own bootstrap replicates, and has noise that no resampling shows.

    Attributes:
        resample: Weights of the dataset's prompts `[R, prompts]` → the value in each replicate `[R]`.
        noise: Variance of the value from other sources, such as the seed of k-means.
    """

    resample: Callable[[Floats], Floats]
    noise: float


@dataclass(frozen=True, kw_only=True)
class PointEstimate(Outcome):
    """A metric that is not resampled; `low` and `high` may come with it.

    `without` are then its values without each text or prompt, `[n]`, of which they were made.
    """

    low: float | None = None
    high: float | None = None
    without: Floats | None = field(default=None, compare=False)


def ratio_of(
    metric: str,
    rows: Floats,
    *,
    n: int,
    counts: Mapping[str, int],
    signature: str,
    note: str = "",
    scale: float = 1.0,
) -> ResampledSum | PointEstimate:
    """Return `scale` · Σ first / Σ second column of `rows`, `[prompts, 2]`; over counts it is a mean."""

    def function(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(sums[..., 1] > 0, scale * sums[..., 0] / sums[..., 1], np.nan)

    return sum_of(metric, rows, function, n=n, counts=counts, signature=signature, note=note)


def sum_of(
    metric: str,
    rows: Floats,
    function: Callable[[Floats], Floats],
    *,
    n: int,
    counts: Mapping[str, int],
    signature: str,
    note: str = "",
    value: float | None = None,
) -> ResampledSum | PointEstimate:
    """Return a metric of sums; undefined where `function` has no value. `value` is its published rounding."""
    whole = float(function(rows.sum(axis=0)))
    if np.isnan(whole):
        return PointEstimate(
            metric=metric,
            value=None,
            n=0,
            counts=counts,
            signature=signature,
            note=note or "no text has what it needs",
        )
    return ResampledSum(
        metric=metric,
        value=whole if value is None else value,
        n=n,
        counts=counts,
        note=note,
        signature=signature,
        parts=rows,
        function=function,
    )


def spread(values: Sequence[float | None]) -> float | None:
    """Return the standard deviation of a metric's values of single runs; None of fewer than two."""
    known = [value for value in values if value is not None]
    return statistics.stdev(known) if len(known) > 1 else None
