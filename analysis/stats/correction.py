"""Correction of p-values for the number of tests in a family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.stats.significance import out_of_reach


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrected:
    """Adjusted p-values, in the order given.

    Attributes:
        p_values: Each the smallest error rate at which its hypothesis falls, family-wise after Holm and the
            false discovery rate after Benjamini; `None` where there was no test.
        n: The size of the family, tests that could not be made included.
        method: The correction's name.
        how: How the p-values were found, where there are several ways.
    """

    p_values: tuple[float | None, ...]
    n: int
    method: str = "Holm"
    how: str = ""


def holm(p_values: Sequence[float | None]) -> Corrected:
    """Return Holm's step-down adjustment (Holm 1979).

    A declared test that could not be made (`None`) still counts towards the size of the family: the family
    was chosen before the data were seen.

    >>> holm([0.01, 0.04, 0.03]).p_values
    (0.03, 0.06, 0.06)
    """
    _check(p_values)
    (adjusted,) = holms(np.array([p_values], dtype=float)).tolist()
    found = tuple(None if math.isnan(value) else value for value in adjusted)
    return Corrected(p_values=found, n=len(p_values))


def holms(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Holm's adjustment within each family, [families, tests]; NaN is a test that was not made."""
    order = np.argsort(p_values, axis=1)
    stepped = np.take_along_axis(p_values, order, axis=1) * np.arange(p_values.shape[1], 0, -1)
    adjusted = np.fmin(1.0, np.maximum.accumulate(stepped, axis=1))
    adjusted[np.isnan(stepped)] = np.nan
    out = np.empty_like(adjusted)
    np.put_along_axis(out, order, adjusted, axis=1)
    return out


def within_reach(
    p_values: Sequence[float | None],
    smallest: Sequence[float],
    *,
    alpha: float,
    correct: Callable[[Sequence[float | None]], Corrected] = holm,
) -> tuple[Corrected, tuple[str, ...]]:
    """Return the corrected p-values that could have reached `alpha`, and why each other one is left out.

    No corrected p can be below what it would be if every p were its smallest: corrections rise with each p.

    Args:
        p_values: Of the family; `None` where there was no test.
        smallest: The smallest p that each test can give.
        alpha: The error rate.
        correct: The correction.

    >>> within_reach([0.125, 0.01], [0.125, 0.0], alpha=0.05)[0].p_values
    (None, 0.02)
    """
    corrected = correct(p_values)
    pairs = zip(p_values, smallest, strict=True)
    limits = correct([None if value is None else least for value, least in pairs]).p_values
    after = f" after {corrected.method}'s correction for {corrected.n} tests" if corrected.n > 1 else ""
    reasons = tuple("" if limit is None else out_of_reach(limit, alpha, after=after) for limit in limits)
    kept = tuple(None if why else value for value, why in zip(corrected.p_values, reasons, strict=True))
    return replace(corrected, p_values=kept), reasons


def benjamini_hochberg(p_values: Sequence[float | None]) -> Corrected:
    """Return the step-up adjustment for the false discovery rate (Benjamini and Hochberg 1995).

    It holds for tests that are independent or depend on each other positively. As in `holm`, a test that
    could not be made counts towards the family.

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).p_values
    (0.03, 0.04, 0.04)
    """
    return Corrected(p_values=_step_up(p_values, 1.0), n=len(p_values), method="Benjamini–Hochberg")


def benjamini_yekutieli(p_values: Sequence[float | None]) -> Corrected:
    """Return the same under any dependence, larger by 1 + 1/2 + … + 1/n (Benjamini and Yekutieli 2001).

    >>> benjamini_yekutieli([0.01, 0.04]).p_values  # · 3/2: .01 · 2 and .04 · 1
    (0.03, 0.06)
    """
    harmonic = math.fsum(1 / rank for rank in range(1, len(p_values) + 1))
    return Corrected(p_values=_step_up(p_values, harmonic), n=len(p_values), method="Benjamini–Yekutieli")


def _step_up(p_values: Sequence[float | None], factor: float) -> tuple[float | None, ...]:
    _check(p_values)
    made = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    ceiling = 1.0
    for rank, (value, place) in reversed(list(enumerate(made, start=1))):
        ceiling = min(ceiling, factor * len(p_values) * value / rank)
        adjusted[place] = ceiling
    return tuple(adjusted)


def _check(p_values: Sequence[float | None]) -> None:
    for value in p_values:
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"a p-value lies between 0 and 1; {value} does not")
