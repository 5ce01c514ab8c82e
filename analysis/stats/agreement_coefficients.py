"""Raw agreement and Gwet's AC1 and AC2 with their errors over items, from count patterns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.counts import Patterns

Weighting = Literal["nominal", "linear", "ordinal"]
NOT_PAIRED = "no item was rated twice"


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficient:
    """A coefficient of agreement between raters with the agreement it rests on.

    Attributes:
        name: The coefficient's name, with its weights or metric.
        value: The coefficient; `None` where undefined, and `reason` says why.
        raw: Observed agreement, weighted as the coefficient weighs it; `None` without two ratings of an item.
        expected: The same by chance, as the coefficient defines it; `None` for raw agreement.
        low: Lower limit of the coefficient.
        high: Upper limit of the coefficient.
        level: The confidence level of the limits.
        standard_error: The standard error over items; `None` where the data determine none.
        n: Items rated at least twice.
        ratings: Ratings in all.
        method: Error and interval, in words.
        reason: Why the coefficient is undefined, or empty.
        warnings: What a reader must know before using it.
    """

    name: str
    value: float | None = None
    raw: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    level: float
    standard_error: float | None = None
    n: int
    ratings: int
    method: str
    reason: str = ""
    warnings: tuple[str, ...] = ()


def raw_agreement(patterns: Patterns, *, level: float = 0.95) -> Coefficient:
    """Return the share of an item's pairs of ratings that agree, averaged over the items rated twice.

    The standard error is that of a mean over those items. (irrCAC counts an item rated once as one without
    agreement when it computes this error; here it has no part in it.)
    """
    check_level(level)
    name, method = "raw agreement", f"t interval of the mean over {patterns.over} rated at least twice"
    twice = patterns.sizes >= 2
    items = patterns.items[twice]
    n = int(items.sum())
    if n == 0:
        return Coefficient(
            name=name, reason=NOT_PAIRED, method=method, level=level, n=0, ratings=patterns.ratings
        )
    agreeing = _agreeing(patterns, weight_matrix("nominal", patterns.counts.shape[1]))[twice]
    raw = float(agreeing @ items) / n
    return estimated(
        name,
        raw,
        influence=agreeing,
        patterns=patterns.kept(twice),
        lowest=0.0,
        raw=raw,
        expected=None,
        method=method,
        level=level,
        n=n,
        ratings=patterns.ratings,
        warnings=remarks(patterns, single="have no part in it"),
    )


def gwet(patterns: Patterns, *, weights: Weighting = "nominal", level: float = 0.95) -> Coefficient:
    """Return Gwet's AC1 (nominal; Gwet 2008) or AC2 (linear or ordinal weights; Gwet 2014, ch. 4 and 5).

    Chance agreement is T Σ p(1 − p) / (q(q − 1)), with T the sum of the weights and q all categories of
    `patterns`, the unused included. Items rated once count towards the shares p and not towards agreement.
    The standard error is Gwet's linearisation for the sampling of items, as published and as in irrCAC: it
    counts an item rated once as far from agreement, so it exceeds the derivative of the coefficient where
    there are such items. When all verdicts are the same chance agreement is 0 and the coefficient 1, without
    an interval, and a warning says what that rests on. It is undefined with one category only.

    Raises:
        ValueError: If `weights` or `level` is unknown.
    """
    check_level(level)
    q, ratings = patterns.counts.shape[1], patterns.ratings
    matrix = weight_matrix(weights, q)
    name = "Gwet's AC1" if weights == "nominal" else f"Gwet's AC2, {weights} weights"
    method = f"Gwet's linearised t interval over {patterns.over}"
    twice, items, n = patterns.sizes >= 2, patterns.items, patterns.n
    paired = int(items[twice].sum())
    warnings = remarks(
        patterns, single="count only towards the categories' shares, and widen Gwet's interval"
    )
    if paired == 0 or q < 2:
        why = NOT_PAIRED if paired == 0 else "there is only one category"
        return Coefficient(name=name, reason=why, method=method, level=level, n=paired, ratings=ratings)
    agreeing = _agreeing(patterns, matrix)
    raw = float(agreeing @ items) / paired
    each = patterns.counts / patterns.sizes[:, None]
    shares = items @ each / n
    alike = (shares > 0).sum() == 1
    if alike:
        warnings = (*warnings, "all verdicts are the same, so chance agreement is 0 by definition")
    scale = float(matrix.sum()) / (q * (q - 1))
    expected = scale * float((shares * (1 - shares)).sum())
    value = (raw - expected) / (1 - expected)
    own = n / paired * np.where(twice, agreeing - expected, 0.0) / (1 - expected)
    by_chance = scale * (each @ (1 - shares))
    influence = own - 2 * (1 - value) * (by_chance - expected) / (1 - expected)
    return estimated(
        name,
        value,
        influence=np.zeros_like(own) if alike else influence,
        patterns=patterns,
        raw=raw,
        expected=expected,
        method=method,
        level=level,
        n=paired,
        ratings=ratings,
        warnings=warnings,
    )


def weight_matrix(weights: Weighting, categories: int) -> NDArray[np.float64]:
    """Return Gwet's agreement weights [categories, categories]: 1 on the diagonal (Gwet 2014, table 3.5 ff.).

    Linear weights fall with the distance d between categories as 1 − d/(q − 1), ordinal weights with the
    number of pairs of categories from one to the other, 1 − (d + 1)d / (q(q − 1)).
    """
    if weights not in get_args(Weighting):
        raise ValueError(f"weights are one of {', '.join(get_args(Weighting))}, not {weights!r}")
    if weights == "nominal" or categories < 2:
        return np.eye(categories)
    place = np.arange(categories, dtype=float)
    distance = np.abs(place[:, None] - place)
    if weights == "linear":
        distance /= categories - 1
    else:
        distance *= (distance + 1) / (categories * (categories - 1))
    return np.ones_like(distance) - distance


def _agreeing(patterns: Patterns, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted share of agreeing pairs of ratings in each pattern, 0 for items rated once."""
    counts, sizes = patterns.counts.astype(float), patterns.sizes
    pairs = (counts * (counts @ matrix - 1)).sum(axis=1)
    agreeing: NDArray[np.float64] = np.where(sizes >= 2, pairs / np.maximum(sizes * (sizes - 1), 1), 0.0)
    return agreeing


def check_level(level: float) -> None:
    """Raise ValueError unless `level` lies between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1; {level} does not")


def remarks(patterns: Patterns, *, single: str) -> tuple[str, ...]:
    """Return what must be said of items rated once or unevenly; `single` says what becomes of the former."""
    once = int(patterns.items[patterns.sizes == 1].sum())
    said = [f"{once} item(s) rated once {single}"] if once else []
    sizes = patterns.sizes[patterns.sizes >= 2]
    if len(set(sizes.tolist())) > 1:
        said.append(f"items have between {sizes.min()} and {sizes.max()} ratings")
    return tuple(said)


def estimated(
    name: str,
    value: float,
    *,
    influence: NDArray[np.float64],
    patterns: Patterns,
    raw: float,
    expected: float | None,
    method: str,
    level: float,
    n: int,
    ratings: int,
    warnings: tuple[str, ...],
    lowest: float = -1.0,
) -> Coefficient:
    """Return `value` with its t interval; `influence`, [patterns], is what one item says of it."""
    error = patterns.error_of_mean(influence)
    low = high = None
    if error is None:
        unit = patterns.over.removesuffix("s")
        why = f"one {unit}" if patterns.units < 2 else f"every {unit} says the same about agreement"
        warnings = (*warnings, f"{why}, so no interval can be given")
    else:
        half = float(special.stdtrit(patterns.units - 1, 0.5 + level / 2)) * error
        low, high = max(lowest, value - half), min(1.0, value + half)
    return Coefficient(
        name=name,
        value=value,
        raw=raw,
        expected=expected,
        low=low,
        high=high,
        level=level,
        standard_error=error,
        n=n,
        ratings=ratings,
        method=method,
        warnings=warnings,
    )


Metric = Literal["nominal", "ordinal", "interval"]


def krippendorff(patterns: Patterns, *, metric: Metric = "nominal", level: float = 0.95) -> Coefficient:
    """Return Krippendorff's α (Krippendorff 2019, ch. 12) with missing ratings allowed.

    Items rated once are left out, as α is defined. The ordinal metric is Krippendorff's, the squared distance
    of the categories' mid-ranks among all ratings of the items kept; the interval metric puts the categories
    at 0, 1, 2, …. `raw` and `expected` are 1 minus observed and expected disagreement, in units of the
    largest disagreement possible.

    The standard error is the linearisation of this very estimator for the sampling of items: the derivative
    of α by the weight of each item, the ordinal metric's ranks included. For complete nominal data it is that
    of Fleiss' κ times (N − 1)/N with N ratings. irrCAC's, from Gwet's formulas, differs by
    terms of order 1/N.

    α is undefined, not 1, when all verdicts are the same.

    Raises:
        ValueError: If `metric` or `level` is unknown.
    """
    check_level(level)
    if metric not in get_args(Metric):
        raise ValueError(f"the metric is one of {', '.join(get_args(Metric))}, not {metric!r}")
    name, method = f"Krippendorff's α, {metric}", f"linearised t interval over {patterns.over}"
    twice = patterns.sizes >= 2
    counts, items = patterns.counts[twice].astype(float), patterns.items[twice]
    n, totals = int(items.sum()), items @ counts
    warnings = remarks(patterns, single="are left out")
    if n == 0 or (totals > 0).sum() == 1:
        reason = NOT_PAIRED if n == 0 else "all verdicts are the same, so no disagreement is expected"
        same = None if n == 0 else 1.0
        return Coefficient(
            name=name,
            reason=reason,
            raw=same,
            expected=same,
            method=method,
            level=level,
            n=n,
            ratings=patterns.ratings,
            warnings=warnings,
        )
    distance = _distances(metric, totals)
    ratings = float(totals.sum())
    observed = float(items @ _disagreement(counts, distance)) / ratings
    by_chance = float(totals @ distance @ totals) / (ratings * (ratings - 1))
    largest = float(distance.max())
    return estimated(
        name,
        1 - observed / by_chance,
        influence=n * _derivative(counts, items, distance, ordinal=metric == "ordinal"),
        patterns=patterns.kept(twice),
        raw=1 - observed / largest,
        expected=1 - by_chance / largest,
        method=method,
        level=level,
        n=n,
        ratings=patterns.ratings,
        warnings=warnings,
    )


def _mid_ranks(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each category's mid-rank (from 0) among the ratings counted, [..., categories]."""
    ranks: NDArray[np.float64] = counts.cumsum(axis=-1) - counts / 2
    return ranks


def _distances(metric: Metric, totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the disagreement of each two categories, [categories, categories]."""
    if metric == "nominal":
        return 1 - np.eye(len(totals))
    place = _mid_ranks(totals) if metric == "ordinal" else np.arange(len(totals), dtype=float)
    squared: NDArray[np.float64] = (place[:, None] - place) ** 2
    return squared


def _disagreement(counts: NDArray[np.float64], distance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what an item of each pattern adds to the observed disagreement, [patterns]."""
    added: NDArray[np.float64] = ((counts @ distance) * counts).sum(axis=1) / (counts.sum(axis=1) - 1)
    return added


def _derivative(
    counts: NDArray[np.float64],
    items: NDArray[np.int64],
    distance: NDArray[np.float64],
    *,
    ordinal: bool,
) -> NDArray[np.float64]:
    """Return dα/dw for one item of each pattern, where α = 1 − (N − 1) O / E and w weighs the item.

    O = Σ_items Σ_ck c_c c_k δ_ck / (m − 1) and E = Σ_ck n_c n_k δ_ck. With the ordinal metric δ depends on
    the totals n as well: δ_ck = (H_k − H_c)², and the mid-ranks H are linear in n.
    """
    sizes, totals = counts.sum(axis=1), items @ counts
    own = _disagreement(counts, distance)
    observed, chance = float(items @ own), float(totals @ distance @ totals)
    by_chance = 2 * (counts @ (distance @ totals))
    if ordinal:
        weighed = counts * (items / (sizes - 1))[:, None]
        together = weighed.T @ counts - np.diag(weighed.sum(axis=0))
        ranks = _mid_ranks(totals)
        moved = _mid_ranks(counts)
        own = own + moved @ _pull(together, ranks)
        by_chance = by_chance + moved @ _pull(np.outer(totals, totals), ranks)
    scaled = (totals.sum() - 1) * (own / chance - observed * by_chance / chance**2)
    derivative: NDArray[np.float64] = -(sizes * observed / chance + scaled)
    return derivative


def _pull(pairs: NDArray[np.float64], ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the derivative by each rank H of Σ_ck pairs_ck (H_k − H_c)², for symmetric `pairs`."""
    pull: NDArray[np.float64] = 4 * (pairs * (ranks - ranks[:, None])).sum(axis=0)
    return pull
