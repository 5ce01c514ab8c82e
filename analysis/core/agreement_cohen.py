"""Cohen's κ of two raters with its large-sample interval."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.core.agreement_coefficients import Coefficient, check_level

_NAME = "Cohen's κ"
_METHOD = "large-sample normal interval (Fleiss, Cohen and Everitt 1969)"


def cohen(first: ArrayLike, second: ArrayLike, *, categories: int, level: float = 0.95) -> Coefficient:
    """Return Cohen's κ (Cohen 1960) of two raters' verdicts on the same items, in the same order.

    `first` and `second` are integers [items] from 0 to `categories` − 1, −1 for missing; an item that
    either has not rated is left out. κ is undefined, not 1, when both gave one and the same verdict always.

    Raises:
        ValueError: If the two differ in length, or a verdict is none.
    """
    check_level(level)
    table, left_out = _table(first, second, categories)
    n = int(table.sum())
    whole = Coefficient(
        name=_NAME,
        level=level,
        n=n,
        ratings=2 * n,
        method=_METHOD,
        warnings=(f"{left_out} item(s) rated by one of the two are left out",) if left_out else (),
    )
    if n == 0:
        return replace(whole, reason="no item was rated by both")
    if table.diagonal().max() == n:
        reason = "all verdicts are the same, so chance agreement is complete"
        return replace(whole, raw=1.0, expected=1.0, reason=reason)
    shares = table / n
    raw, expected = float(np.trace(shares)), float(shares.sum(axis=1) @ shares.sum(axis=0))
    kappa = (raw - expected) / (1 - expected)
    whole = replace(whole, value=kappa, raw=raw, expected=expected)
    error = _standard_error(shares, n, kappa=kappa, expected=expected)
    if error is None:
        why = "the large-sample error is 0, so no interval can be given"
        return replace(whole, warnings=(*whole.warnings, why))
    half = float(special.ndtri(0.5 + level / 2)) * error
    low, high = max(-1.0, kappa - half), min(1.0, kappa + half)
    return replace(whole, low=low, high=high, standard_error=error)


def _table(first: ArrayLike, second: ArrayLike, categories: int) -> tuple[NDArray[np.int64], int]:
    """Return the items per pair of verdicts [categories, categories], and those only one rater has rated."""
    if categories < 1:
        raise ValueError(f"there must be at least one category, not {categories}")
    one, two = _labels(first, categories), _labels(second, categories)
    if len(one) != len(two):
        raise ValueError(f"the two raters must have the same items; they have {len(one)} and {len(two)}")
    both = (one >= 0) & (two >= 0)
    cells = np.bincount(one[both] * categories + two[both], minlength=categories**2)
    return cells.reshape(categories, categories).astype(np.int64), int(((one >= 0) ^ (two >= 0)).sum())


def _labels(verdicts: ArrayLike, categories: int) -> NDArray[np.int64]:
    labels = np.asarray(verdicts)
    if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
        raise ValueError(f"verdicts are integers, [items]; got {labels.dtype} of shape {labels.shape}")
    if labels.size and (labels.min() < -1 or labels.max() >= categories):
        wrong = labels.min() if labels.min() < -1 else labels.max()
        raise ValueError(f"a verdict is −1 (missing) or from 0 to {categories - 1}; {wrong} is neither")
    return labels.astype(np.int64)


def _standard_error(shares: NDArray[np.float64], n: int, *, kappa: float, expected: float) -> float | None:
    """Return the large-sample standard error (Fleiss, Cohen and Everitt 1969, eq. 13)."""
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    # A cell (i, j) pulls chance agreement up by the shares of i with the second rater and j with the first.
    pull = (columns[:, None] + rows) * (1 - kappa)
    agree = np.eye(len(shares))
    variance = float((shares * (agree - pull) ** 2).sum()) - (kappa - expected * (1 - kappa)) ** 2
    if variance <= 1e-14:
        return None
    return math.sqrt(variance / n) / (1 - expected)
