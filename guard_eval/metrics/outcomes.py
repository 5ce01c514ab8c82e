"""What a metric comes to before intervals: a value, and how to resample it over prompts.

A `Sum` is a function of sums over prompts, which is what most metrics are. A `Spread` brings replicates of
its own, as MAUVE does. A `Bare` has no interval, or one of its own making.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.core.resampling import Sums


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A metric of one group.

    Attributes:
        metric: One of `scores.METRICS`.
        value: None where it is undefined.
        n: How many texts it was taken of.
        counts: Texts left out, cut or mended, by what was the matter.
        note: What a reader must know.
        signature: The definition with its settings.
    """

    metric: str
    value: float | None
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""


@dataclass(frozen=True, kw_only=True)
class Sum(Outcome):
    """A metric that is a function of sums over prompts.

    Attributes:
        parts: Each prompt's part of the sums, `[prompts, m]`; zeros where it has no text.
        function: Sums `[..., m]` → metric `[...]`, NaN where undefined.
    """

    parts: NDArray[np.float64]
    function: Sums


@dataclass(frozen=True, kw_only=True)
class Spread(Outcome):
    """A metric with bootstrap replicates whose distribution is biased, and noise that no resampling shows.

    Attributes:
        replicates: The value in each replicate of the dataset's weights, `[R]`.
        noise: Variance of the value from other sources, such as the seed of k-means.
    """

    replicates: NDArray[np.float64]
    noise: float


@dataclass(frozen=True, kw_only=True)
class Bare(Outcome):
    """A metric that is not resampled; `low` and `high` may come with it."""

    low: float | None = None
    high: float | None = None


def ratio_of(
    metric: str,
    rows: NDArray[np.float64],
    *,
    n: int,
    counts: Mapping[str, int],
    signature: str,
    note: str = "",
    scale: float = 1.0,
) -> Sum | Bare:
    """Return `scale` · Σ first / Σ second column of `rows`, `[prompts, 2]`; over counts it is a mean."""

    def function(sums: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(sums[..., 1] > 0, scale * sums[..., 0] / sums[..., 1], np.nan)

    return sum_of(metric, rows, function, n=n, counts=counts, signature=signature, note=note)


def sum_of(
    metric: str,
    rows: NDArray[np.float64],
    function: Sums,
    *,
    n: int,
    counts: Mapping[str, int],
    signature: str,
    note: str = "",
    value: float | None = None,
) -> Sum | Bare:
    """Return a metric of sums; undefined where `function` has no value. `value` is its published rounding."""
    whole = float(function(rows.sum(axis=0)))
    if np.isnan(whole):
        return Bare(
            metric=metric,
            value=None,
            n=0,
            counts=counts,
            signature=signature,
            note=note or "no text has what it needs",
        )
    return Sum(
        metric=metric,
        value=whole if value is None else value,
        n=n,
        counts=counts,
        note=note,
        signature=signature,
        parts=rows,
        function=function,
    )
