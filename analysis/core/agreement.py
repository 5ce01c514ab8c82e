"""Agreement between raters beyond chance, from counts of verdicts per item and category."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.core.patterns import Patterns, from_counts


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


def fleiss(counts: ArrayLike | Patterns, *, level: float = 0.95) -> Agreement:
    """Return raw agreement and Fleiss' κ (Fleiss 1971) of `counts` with shape [items, categories].

    Items may have different numbers of ratings (Gwet 2014, ch. 2): an item rated once counts towards the
    categories' shares and not towards agreement. The interval is Gwet's linearisation for the sampling of
    items, never the standard error under "no agreement". κ is undefined, not 1, when all verdicts are the
    same. The patterns of counts, where there are some already, spare counting the items again.
    """
    patterns = counts if isinstance(counts, Patterns) else from_counts(counts)
    table, sizes, items = patterns.counts.astype(float), patterns.sizes, patterns.items
    twice = sizes >= 2
    paired, n = int(items[twice].sum()), patterns.n
    if paired == 0:
        return _undefined("no item was rated twice", level=level, n=0, ratings=patterns.ratings)
    agreeing = np.where(twice, (table * (table - 1)).sum(axis=1) / np.maximum(1, sizes * (sizes - 1)), 0.0)
    raw = float(agreeing @ items) / paired
    each = table / sizes[:, None]
    shares = items @ each / n
    expected = float((shares**2).sum())
    if (shares > 0).sum() == 1:
        reason = "all verdicts are the same, so chance agreement is complete"
        return _undefined(reason, level=level, n=paired, ratings=patterns.ratings, raw=raw, expected=1.0)
    kappa = (raw - expected) / (1 - expected)
    # What an item adds to κ (Gwet 2014, ch. 5): its own agreement, and the chance agreement it brings about.
    own = n / paired * np.where(twice, agreeing - expected, 0.0) / (1 - expected)
    linear = own - 2 * (1 - kappa) * (each @ shares - expected) / (1 - expected)
    error = _standard_error(linear - kappa, items)
    warnings = _remarks(patterns)
    if error is None:
        low = high = None
        warnings = (*warnings, "every item says the same about agreement, so no interval can be given")
    else:
        half = float(special.stdtrit(n - 1, 0.5 + level / 2)) * error
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
        ratings=patterns.ratings,
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


def _remarks(patterns: Patterns) -> tuple[str, ...]:
    single = int(patterns.items[patterns.sizes == 1].sum())
    remarks = [f"{single} item(s) rated once count only towards the categories' shares"] if single else []
    sizes = patterns.sizes[patterns.sizes >= 2]
    if sizes.min() != sizes.max():
        remarks.append(
            f"items have between {sizes.min()} and {sizes.max()} ratings; each item weighs the same"
        )
    return tuple(remarks)


def _standard_error(spread: NDArray[np.float64], items: NDArray[np.int64]) -> float | None:
    """Return the standard error of a mean over items from the distances to it, one for each pattern."""
    n = int(items.sum())
    if n < 2:
        return None
    error = math.sqrt(float(spread**2 @ items) / (n * (n - 1)))
    return error if error > 1e-12 else None
