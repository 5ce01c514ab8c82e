"""Agreement between raters beyond chance, from counts of verdicts per item and category."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """Fleiss' κ with the raw agreement it corrects.

    Attributes:
        raw: Share of pairs of ratings of an item that agree, averaged over items; `None` without such pairs.
        expected: The same by chance, from the categories' shares.
        kappa: (raw − expected) / (1 − expected); `None` where undefined, and `reason` says why.
        low: Lower limit of κ.
        high: Upper limit of κ.
        level: The confidence level of the limits.
        standard_error: Gwet's linearised standard error over items.
        n: Items rated at least twice.
        ratings: Ratings in all.
        method: Coefficient and interval, in words.
        reason: Why κ is undefined, or empty.
        warnings: What a reader must know before using it.
    """

    raw: float | None
    expected: float | None
    kappa: float | None
    low: float | None
    high: float | None
    level: float
    standard_error: float | None
    n: int
    ratings: int
    method: str = "Fleiss' κ, Gwet's linearised t interval over items"
    reason: str = ""
    warnings: tuple[str, ...] = ()


def fleiss(counts: ArrayLike, *, level: float = 0.95) -> Agreement:
    """Return raw agreement and Fleiss' κ (Fleiss 1971) of `counts` with shape [items, categories].

    Items may have different numbers of ratings (Gwet 2014, ch. 2): an item rated once counts towards the
    categories' shares and not towards agreement. The interval is Gwet's linearisation for the sampling of
    items, never the standard error under "no agreement". κ is undefined, not 1, when all verdicts are the
    same.
    """
    table = np.asarray(counts)
    if table.ndim != 2 or (table.size and (table.dtype.kind not in "iu" or table.min() < 0)):
        raise ValueError(f"counts are non-negative integers, [items, categories]; got shape {table.shape}")
    table = table[table.sum(axis=1) > 0].astype(float) if table.size else np.zeros((0, 1))
    per_item = table.sum(axis=1)
    twice = per_item >= 2
    paired, ratings = int(twice.sum()), int(per_item.sum())
    if paired == 0:
        return _undefined("no item was rated twice", level=level, n=0, ratings=ratings)
    agreeing = np.zeros(len(table))
    rated = table[twice]
    agreeing[twice] = (rated * (rated - 1)).sum(axis=1) / (per_item[twice] * (per_item[twice] - 1))
    raw = float(agreeing[twice].mean())
    shares = (table / per_item[:, None]).mean(axis=0)
    expected = float((shares**2).sum())
    if (shares > 0).sum() == 1:
        reason = "all verdicts are the same, so chance agreement is complete"
        return _undefined(reason, level=level, n=paired, ratings=ratings, raw=raw, expected=1.0)
    kappa = (raw - expected) / (1 - expected)
    warnings = _remarks(per_item, paired)
    error = _standard_error(
        table / per_item[:, None] @ shares, agreeing, twice, expected=expected, kappa=kappa
    )
    if error is None:
        low = high = None
        warnings = (*warnings, "every item says the same about agreement, so no interval can be given")
    else:
        half = float(special.stdtrit(len(table) - 1, 0.5 + level / 2)) * error
        low, high = max(-1.0, kappa - half), min(1.0, kappa + half)
    return Agreement(
        raw=raw,
        expected=expected,
        kappa=kappa,
        low=low,
        high=high,
        level=level,
        standard_error=error,
        n=paired,
        ratings=ratings,
        warnings=warnings,
    )


def _undefined(
    reason: str,
    *,
    level: float,
    n: int,
    ratings: int,
    raw: float | None = None,
    expected: float | None = None,
) -> Agreement:
    return Agreement(
        raw=raw,
        expected=expected,
        kappa=None,
        low=None,
        high=None,
        level=level,
        standard_error=None,
        n=n,
        ratings=ratings,
        reason=reason,
    )


def _remarks(per_item: NDArray[np.float64], paired: int) -> tuple[str, ...]:
    single = len(per_item) - paired
    remarks = [f"{single} item(s) rated once count only towards the categories' shares"] if single else []
    if len(set(per_item[per_item >= 2])) > 1:
        low, high = int(per_item[per_item >= 2].min()), int(per_item.max())
        remarks.append(f"items have between {low} and {high} ratings; each item weighs the same")
    return tuple(remarks)


def _standard_error(
    by_chance: NDArray[np.float64],
    agreeing: NDArray[np.float64],
    twice: NDArray[np.bool_],
    *,
    expected: float,
    kappa: float,
) -> float | None:
    """Return the linearised standard error (Gwet 2014, ch. 5): the spread of each item's part in κ."""
    n = len(agreeing)
    if n < 2:
        return None
    own = n / twice.sum() * np.where(twice, agreeing - expected, 0.0) / (1 - expected)
    linear = own - 2 * (1 - kappa) * (by_chance - expected) / (1 - expected)
    error = math.sqrt(float(((linear - kappa) ** 2).sum()) / (n * (n - 1)))
    return error if error > 1e-12 else None
