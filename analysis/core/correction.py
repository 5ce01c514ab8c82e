"""Correction of p-values for the number of tests in a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Corrected:
    """Adjusted p-values, in the order given.

    Attributes:
        p_values: Each the smallest family-wise error rate at which its hypothesis falls; `None` where there
            was no test.
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
    for value in p_values:
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"a p-value lies between 0 and 1; {value} does not")
    size = len(p_values)
    made = sorted((value, place) for place, value in enumerate(p_values) if value is not None)
    adjusted: list[float | None] = [None] * size
    floor = 0.0
    for rank, (value, place) in enumerate(made):
        floor = max(floor, min(1.0, (size - rank) * value))
        adjusted[place] = floor
    return Corrected(p_values=tuple(adjusted), n=size)
