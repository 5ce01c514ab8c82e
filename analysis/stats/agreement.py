"""Agreement between raters beyond chance, from counts of verdicts per item and category."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.agreement_coefficients import Coefficient, check_level
from analysis.stats.counts import Patterns, from_counts


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
    error = patterns.error_of_mean(linear)
    warnings = _remarks(patterns)
    if error is None:
        low = high = None
        warnings = (*warnings, "every item says the same about agreement, so no interval can be given")
    else:
        half = float(special.stdtrit(patterns.units - 1, 0.5 + level / 2)) * error
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
        method=f"Fleiss' κ, Gwet's linearised t interval over {patterns.over}",
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


_NAME = "Cohen's κ"
_METHOD = "large-sample normal interval (Fleiss, Cohen and Everitt 1969)"
_BY_PROMPT = "linearised t interval over prompts"


def cohen(
    first: ArrayLike,
    second: ArrayLike,
    *,
    categories: int,
    clusters: NDArray[np.integer] | None = None,
    level: float = 0.95,
) -> Coefficient:
    """Return Cohen's κ (Cohen 1960) of two raters' verdicts on the same items, in the same order.

    `first` and `second` are integers [items] from 0 to `categories` − 1, −1 for missing; an item that
    either has not rated is left out. κ is undefined, not 1, when both gave one and the same verdict always.
    Where `clusters` names the prompt of each item, [items], the interval is over prompts.

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
    raw, expected, kappa = beyond_chance(shares)
    whole = replace(whole, value=kappa, raw=raw, expected=expected)
    one, two = _labels(first, categories), _labels(second, categories)
    both = (one >= 0) & (two >= 0)
    cluster = np.arange(n) if clusters is None else np.asarray(clusters)[both]
    influence = (np.eye(categories) - _pull(shares) * (1 - kappa)) / (1 - expected)
    if len(np.unique(cluster)) == n:
        error, reach = _standard_error(shares, influence, n), float(special.ndtri(0.5 + level / 2))
    else:
        error, freedom = _clustered_error(influence[one[both], two[both]], cluster)
        reach = float(special.stdtrit(max(1, freedom), 0.5 + level / 2))
        whole = replace(whole, method=_BY_PROMPT)
    if error is None:
        why = "the large-sample error is 0, so no interval can be given"
        return replace(whole, warnings=(*whole.warnings, why))
    half = reach * error
    low, high = max(-1.0, kappa - half), min(1.0, kappa + half)
    return replace(whole, low=low, high=high, standard_error=error)


def beyond_chance(shares: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return raw agreement, chance agreement and Cohen's κ of two raters' shares, [categories, categories].

    κ is undefined where all shares but one are 0; such a table must not be given.
    """
    raw, expected = float(np.trace(shares)), float(shares.sum(axis=1) @ shares.sum(axis=0))
    return raw, expected, (raw - expected) / (1 - expected)


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


def _pull(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how a cell (i, j) pulls chance agreement up: the second's share of i and the first's of j."""
    pull: NDArray[np.float64] = shares.sum(axis=0)[:, None] + shares.sum(axis=1)
    return pull


def _standard_error(shares: NDArray[np.float64], influence: NDArray[np.float64], n: int) -> float | None:
    variance = float((shares * influence**2).sum()) - float((shares * influence).sum()) ** 2
    return None if variance <= 1e-14 else math.sqrt(variance / n)


def _clustered_error(
    influence: NDArray[np.float64], clusters: NDArray[np.integer]
) -> tuple[float | None, int]:
    """Return the error of the mean influence, [items], over clusters, and its degrees of freedom."""
    place = np.unique(clusters, return_inverse=True)[1]
    sums = np.bincount(place, weights=influence - influence.mean())
    count = len(sums)
    if count < 2 or float(np.abs(sums).max()) < 1e-12:
        return None, count - 1
    return math.sqrt(float(sums @ sums) * count / (count - 1)) / len(influence), count - 1
