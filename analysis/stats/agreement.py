"""Agreement between raters beyond chance: Fleiss' and Cohen's κ, Krippendorff's α, Gwet's AC1 and AC2."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.stats.counts import Patterns, check_verdicts, from_counts
from analysis.stats.intervals import check_level

Floats = NDArray[np.float64]
Weighting = Literal["nominal", "linear", "ordinal"]
Metric = Literal["nominal", "ordinal", "interval"]

NOT_PAIRED = "no item was rated twice"
SAME = "all verdicts are the same"
FEWEST_OFF = 5
"""Items with any but one and the same verdict below which no interval is given. In simulated studies of
nearly all ties 95 % intervals then covered down to .13: the few others are there by chance."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Coefficient:
    """A coefficient of agreement between raters with the agreement it rests on.

    Attributes:
        name: The coefficient's name, with its weights or metric.
        value: The coefficient; `None` where undefined, and `reason` says why.
        raw: Observed agreement, weighted as the coefficient weighs it; `None` without two ratings of an item.
        expected: The same by chance, as the coefficient defines it.
        low: Lower limit of the coefficient.
        high: Upper limit of the coefficient.
        level: The confidence level of the limits.
        standard_error: The standard error over items; `None` where the data determine none.
        n: Items rated at least twice.
        ratings: Ratings in all.
        method: Coefficient or error, and interval, in words.
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


def fleiss(counts: ArrayLike | Patterns, *, level: float = 0.95) -> Coefficient:
    """Return raw agreement and Fleiss' κ (Fleiss 1971) of `counts` with shape [items, categories].

    `raw` is the share of an item's pairs of ratings that agree, averaged over the items rated twice. Items
    may have different numbers of ratings (Gwet 2014, ch. 2): an item rated once counts towards the
    categories' shares and not towards agreement. The interval is Gwet's linearisation for the sampling of
    items, never the standard error under "no agreement". κ is undefined, not 1, when all verdicts are the
    same. The patterns of counts, where there are some already, spare counting the items again.
    """
    patterns = counts if isinstance(counts, Patterns) else from_counts(counts)
    method = f"Fleiss' κ, Gwet's linearised t interval over {patterns.over}"
    whole, items = _of_items(patterns, "Fleiss' κ", method, weights="nominal", level=level)
    if items is None:
        return whole
    expected = float((items.shares**2).sum())
    if items.alike:
        return replace(whole, expected=1.0, reason=f"{SAME}, so chance agreement is complete")
    value = (items.raw - expected) / (1 - expected)
    influence = items.influence(value, expected, items.each @ items.shares)
    warnings = _remarks(patterns, single="count only towards the categories' shares", weight=True)
    return _with_interval(whole, patterns, influence, value=value, expected=expected, warnings=warnings)


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
    name = "Gwet's AC1" if weights == "nominal" else f"Gwet's AC2, {weights} weights"
    method = f"Gwet's linearised t interval over {patterns.over}"
    whole, items = _of_items(patterns, name, method, weights=weights, level=level)
    q = patterns.counts.shape[1]
    if items is None:
        return whole
    if q < 2:
        return replace(whole, raw=None, reason="there is only one category")
    scale = float(weight_matrix(weights, q).sum()) / (q * (q - 1))
    expected = scale * float((items.shares * (1 - items.shares)).sum())
    value = (items.raw - expected) / (1 - expected)
    influence = items.influence(value, expected, scale * (items.each @ (1 - items.shares)))
    warnings = _remarks(
        patterns, single="count only towards the categories' shares, and widen Gwet's interval"
    )
    if items.alike:
        warnings = (*warnings, f"{SAME}, so chance agreement is 0 by definition")
        influence = np.zeros_like(influence)
    return _with_interval(whole, patterns, influence, value=value, expected=expected, warnings=warnings)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Items:
    """What κ and AC rest on: agreement within the items of each pattern, and the categories' shares.

    `agreeing` [patterns] is the weighted share of agreeing pairs of ratings, 0 for items not rated `twice`;
    `raw` is its mean over the others, each of `weight` all / others; `each` [patterns, categories] and
    `shares` [categories] are the categories' shares in an item and on average; `alike`: only one is used.
    """

    twice: NDArray[np.bool_]
    agreeing: Floats
    weight: float
    raw: float
    each: Floats
    shares: Floats
    alike: bool

    def influence(self, value: float, expected: float, by_chance: Floats) -> Floats:
        """Return what an item adds to the coefficient by its own agreement and by chance, [patterns]."""
        own = self.weight * np.where(self.twice, self.agreeing - expected, 0.0) / (1 - expected)
        added: Floats = own - 2 * (1 - value) * (by_chance - expected) / (1 - expected)
        return added


def _of_items(
    patterns: Patterns, name: str, method: str, *, weights: Weighting, level: float
) -> tuple[Coefficient, _Items | None]:
    """Return a coefficient with raw agreement alone, and what else it rests on; `None` without pairs."""
    check_level(level)
    matrix = weight_matrix(weights, patterns.counts.shape[1])
    counts, sizes, items = patterns.counts.astype(float), patterns.sizes, patterns.items
    twice = sizes >= 2
    paired, n = int(items[twice].sum()), patterns.n
    ratings = int(items @ sizes)
    if paired == 0:
        nothing = Coefficient(name=name, method=method, level=level, n=0, ratings=ratings, reason=NOT_PAIRED)
        return nothing, None
    pairs = (counts * (counts @ matrix - 1)).sum(axis=1)
    agreeing = np.where(twice, pairs / np.maximum(sizes * (sizes - 1), 1), 0.0)
    raw = float(agreeing @ items) / paired
    each = counts / sizes[:, None]
    shares = items @ each / n
    alike = bool((shares > 0).sum() == 1)
    whole = Coefficient(name=name, method=method, level=level, n=paired, ratings=ratings, raw=raw)
    return whole, _Items(
        twice=twice, agreeing=agreeing, weight=n / paired, raw=raw, each=each, shares=shares, alike=alike
    )


def weight_matrix(weights: Weighting, categories: int) -> Floats:
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


def _remarks(patterns: Patterns, *, single: str, weight: bool = False) -> tuple[str, ...]:
    """Return warnings of items rated once or unevenly; `single` says what becomes of the former."""
    once = int(patterns.items[patterns.sizes == 1].sum())
    found = [f"{once} item(s) rated once {single}"] if once else []
    sizes = patterns.sizes[patterns.sizes >= 2]
    if sizes.size and sizes.min() != sizes.max():
        alike = "; each item weighs the same" if weight else ""
        found.append(f"items have between {sizes.min()} and {sizes.max()} ratings{alike}")
    return tuple(found)


def _with_interval(
    whole: Coefficient,
    patterns: Patterns,
    influence: Floats,
    *,
    value: float,
    expected: float,
    warnings: tuple[str, ...],
) -> Coefficient:
    """Return the coefficient with its t interval; `influence`, [patterns], is what one item adds to it."""
    error = patterns.error_of_mean(influence)
    off = int((patterns.items @ (patterns.counts < patterns.sizes[:, None])).min())
    if error is None or off < FEWEST_OFF:
        unit = patterns.over.removesuffix("s")
        why = f"fewer than {FEWEST_OFF} items have any but one and the same verdict"
        if error is None:
            why = f"one {unit}" if patterns.units < 2 else f"every {unit} says the same about agreement"
        warnings = (*warnings, f"{why}, so no interval can be given")
        return replace(whole, value=value, expected=expected, standard_error=error, warnings=warnings)
    half = float(special.stdtrit(patterns.units - 1, 0.5 + whole.level / 2)) * error
    return replace(
        whole,
        value=value,
        expected=expected,
        low=max(-1.0, value - half),
        high=min(1.0, value + half),
        standard_error=error,
        warnings=warnings,
    )


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
    twice = patterns.sizes >= 2
    counts, items = patterns.counts[twice].astype(float), patterns.items[twice]
    n, totals = int(items.sum()), items @ counts
    warnings = _remarks(patterns, single="are left out")
    whole = Coefficient(
        name=f"Krippendorff's α, {metric}",
        method=f"linearised t interval over {patterns.over}",
        level=level,
        n=n,
        ratings=patterns.ratings,
        warnings=warnings,
    )
    if n == 0:
        return replace(whole, reason=NOT_PAIRED)
    if (totals > 0).sum() == 1:
        return replace(whole, raw=1.0, expected=1.0, reason=f"{SAME}, so no disagreement is expected")
    distance = _distances(metric, totals)
    ratings, largest = float(totals.sum()), float(distance.max())
    observed = float(items @ _disagreement(counts, distance)) / ratings
    by_chance = float(totals @ distance @ totals) / (ratings * (ratings - 1))
    return _with_interval(
        replace(whole, raw=1 - observed / largest),
        patterns.kept(twice),
        n * _derivative(counts, items, distance, ordinal=metric == "ordinal"),
        value=1 - observed / by_chance,
        expected=1 - by_chance / largest,
        warnings=warnings,
    )


def _mid_ranks(counts: Floats) -> Floats:
    """Return each category's mid-rank (from 0) among the ratings counted, [..., categories]."""
    ranks: Floats = counts.cumsum(axis=-1) - counts / 2
    return ranks


def _distances(metric: Metric, totals: Floats) -> Floats:
    """Return the disagreement of each two categories, [categories, categories]."""
    if metric == "nominal":
        return 1 - np.eye(len(totals))
    place = _mid_ranks(totals) if metric == "ordinal" else np.arange(len(totals), dtype=float)
    squared: Floats = (place[:, None] - place) ** 2
    return squared


def _disagreement(counts: Floats, distance: Floats) -> Floats:
    """Return what an item of each pattern adds to the observed disagreement, [patterns]."""
    added: Floats = ((counts @ distance) * counts).sum(axis=1) / (counts.sum(axis=1) - 1)
    return added


def _derivative(counts: Floats, items: NDArray[np.int64], distance: Floats, *, ordinal: bool) -> Floats:
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
        ranks, moved = _mid_ranks(totals), _mid_ranks(counts)
        own = own + moved @ _by_rank(together, ranks)
        by_chance = by_chance + moved @ _by_rank(np.outer(totals, totals), ranks)
    scaled = (totals.sum() - 1) * (own / chance - observed * by_chance / chance**2)
    derivative: Floats = -(sizes * observed / chance + scaled)
    return derivative


def _by_rank(pairs: Floats, ranks: Floats) -> Floats:
    """Return the derivative by each rank H of Σ_ck pairs_ck (H_k − H_c)², for symmetric `pairs`."""
    slope: Floats = 4 * (pairs * (ranks - ranks[:, None])).sum(axis=0)
    return slope


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
    if categories < 1:
        raise ValueError(f"there must be at least one category, not {categories}")
    one, two = _labels(first, categories), _labels(second, categories)
    if len(one) != len(two):
        raise ValueError(f"the two raters must have the same items; they have {len(one)} and {len(two)}")
    both = (one >= 0) & (two >= 0)
    left_out = int(((one >= 0) ^ (two >= 0)).sum())
    one, two = one[both], two[both]
    n = len(one)
    whole = Coefficient(
        name="Cohen's κ",
        level=level,
        n=n,
        ratings=2 * n,
        method="large-sample normal interval (Fleiss, Cohen and Everitt 1969)",
        warnings=(f"{left_out} item(s) rated by one of the two are left out",) if left_out else (),
    )
    if n == 0:
        return replace(whole, reason="no item was rated by both")
    cells = np.bincount(one * categories + two, minlength=categories**2).reshape(categories, categories)
    if cells.diagonal().max() == n:
        return replace(whole, raw=1.0, expected=1.0, reason=f"{SAME}, so chance agreement is complete")
    shares = cells / n
    raw, expected, kappa = beyond_chance(shares)
    whole = replace(whole, value=kappa, raw=raw, expected=expected)
    # A cell (i, j) pulls chance agreement up by the second's share of i and the first's of j.
    pull = shares.sum(axis=0)[:, None] + shares.sum(axis=1)
    influence = (np.eye(categories) - pull * (1 - kappa)) / (1 - expected)
    cluster = None if clusters is None else np.asarray(clusters)[both]
    if cluster is None or len(np.unique(cluster)) == n:
        variance = float((shares * influence**2).sum()) - float((shares * influence).sum()) ** 2
        error = None if variance <= 1e-14 else math.sqrt(variance / n)
        reach = float(special.ndtri(0.5 + level / 2))
    else:
        error, freedom = _clustered_error(influence[one, two], cluster)
        reach = float(special.stdtrit(max(1, freedom), 0.5 + level / 2))
        whole = replace(whole, method="linearised t interval over prompts")
    if error is None:
        why = "the large-sample error is 0, so no interval can be given"
        return replace(whole, warnings=(*whole.warnings, why))
    low, high = max(-1.0, kappa - reach * error), min(1.0, kappa + reach * error)
    return replace(whole, low=low, high=high, standard_error=error)


def beyond_chance(shares: Floats) -> tuple[float, float, float]:
    """Return raw agreement, chance agreement and Cohen's κ of two raters' shares, [categories, categories].

    κ is undefined where all shares but one are 0; such a table must not be given.
    """
    raw, expected = float(np.trace(shares)), float(shares.sum(axis=1) @ shares.sum(axis=0))
    return raw, expected, (raw - expected) / (1 - expected)


def _labels(verdicts: ArrayLike, categories: int) -> NDArray[np.int64]:
    labels = np.asarray(verdicts)
    if labels.ndim != 1 or (labels.size and labels.dtype.kind not in "iu"):
        raise ValueError(f"verdicts are integers, [items]; got {labels.dtype} of shape {labels.shape}")
    check_verdicts(labels, categories)
    return labels.astype(np.int64)


def _clustered_error(influence: Floats, clusters: NDArray[np.integer]) -> tuple[float | None, int]:
    """Return the error of the mean influence, [items], over clusters, and its degrees of freedom."""
    place = np.unique(clusters, return_inverse=True)[1]
    sums = np.bincount(place, weights=influence - influence.mean())
    count = len(sums)
    if count < 2 or float(np.abs(sums).max()) < 1e-12:
        return None, count - 1
    return math.sqrt(float(sums @ sums) * count / (count - 1)) / len(influence), count - 1
