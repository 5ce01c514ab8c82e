"""Krippendorff's α from count patterns, with the linearised error over items."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from analysis.core.agreement_coefficients import (
    NOT_PAIRED,
    Coefficient,
    check_level,
    estimated,
    remarks,
)
from analysis.core.patterns import Patterns

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
    name, method = f"Krippendorff's α, {metric}", "linearised t interval over items"
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
        items=items,
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
