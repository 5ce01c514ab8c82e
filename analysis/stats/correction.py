"""Correction of p-values for the number of tests in a family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from analysis.stats.significance import out_of_reach


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrected:
    """Adjusted p-values, in the order given.

    Attributes:
        p_values: Each the smallest error rate at which its hypothesis falls, family-wise after Holm and the
            false discovery rate after Benjamini; `None` where there was no test.
        n: The size of the family, tests that could not be made included.
        method: The correction's name.
    """

    p_values: tuple[float | None, ...]
    n: int
    method: str = "Holm"


def holm(p_values: Sequence[float | None]) -> Corrected:
    """Return Holm's step-down adjustment (Holm 1979).

    A declared test that could not be made (`None`) still counts towards the size of the family: the family
    was chosen before the data were seen.

    >>> holm([0.01, 0.04, 0.03]).p_values
    (0.03, 0.06, 0.06)
    """
    size = len(p_values)
    adjusted: list[float | None] = [None] * size
    floor = 0.0
    for rank, (value, place) in enumerate(_ordered(p_values)):
        floor = max(floor, min(1.0, (size - rank) * value))
        adjusted[place] = floor
    return Corrected(p_values=tuple(adjusted), n=size)


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
    size = len(p_values)
    adjusted: list[float | None] = [None] * size
    ceiling = 1.0
    made = list(enumerate(_ordered(p_values), start=1))
    for rank, (value, place) in reversed(made):
        ceiling = min(ceiling, factor * size * value / rank)
        adjusted[place] = ceiling
    return tuple(adjusted)


def _ordered(p_values: Sequence[float | None]) -> list[tuple[float, int]]:
    """Return the tests that were made, smallest p first, with their places.

    Raises:
        ValueError: If one of them is no probability.
    """
    for value in p_values:
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"a p-value lies between 0 and 1; {value} does not")
    return sorted((value, place) for place, value in enumerate(p_values) if value is not None)
