"""Intervals of a ranking of methods that respect items: the cluster bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.intervals import Interval, check_level
from analysis.stats.ranks import davidson as newton
from analysis.stats.ranks.davidson import Ranking, davidson, why_undefined

_UNDEFINED = 0.05
"""Share of replicates without strengths from which on no interval is given."""
_BLOCK = 256
"""Replicates at a time, so that memory does not grow with their number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankInterval:
    """The ranks a method takes when the items are drawn again; 1 is the strongest, equals share the better.

    Attributes:
        estimate: Its rank in the data; `None` where undefined.
        low: The best rank at the level.
        high: The worst.
    """

    estimate: int | None = None
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingIntervals:
    """A ranking with intervals over items, in the order of `estimate.methods`.

    Attributes:
        estimate: The ranking of all comparisons together.
        strengths: Of each log-strength.
        shares: Of each expected win share against the average other method, ties split.
        ranks: Of each rank, one method at a time: not all at once at the level.
        level: The confidence level.
        n: Items.
        replicates: Draws made; 0 where there was nothing to draw.
        undefined: Those among them without finite strengths, left out.
        seed: It alone decides the draws.
        method: In words.
        warnings: What a reader must know before using it.
    """

    estimate: Ranking
    strengths: tuple[Interval, ...]
    shares: tuple[Interval, ...]
    ranks: tuple[RankInterval, ...]
    level: float
    n: int
    replicates: int
    undefined: int
    seed: int
    method: str
    warnings: tuple[str, ...] = ()


def tally(
    item: ArrayLike, first: ArrayLike, second: ArrayLike, points: ArrayLike, *, items: int, methods: int
) -> NDArray[np.int64]:
    """Count comparisons per item and pair, `[items, P, 3]`: wins of the pair's lower index, ties, losses.

    Args:
        item: Each comparison's item, an index below `items`, `[n]`.
        first: Index of one of its methods, `[n]`.
        second: Index of the other, `[n]`.
        points: 2 where the first won, 1 for a tie, 0 where the second won, `[n]`.
        items: How many items there are.
        methods: How many methods there are, K; pairs are in the order of `numpy.triu_indices(K, 1)`.
    """
    columns = [np.asarray(column) for column in (item, first, second, points)]
    names = ("item", "first", "second", "points")
    for name, column, below in zip(names, columns, (items, methods, methods, 3), strict=True):
        if column.shape != columns[0].shape or column.ndim != 1:
            raise ValueError(f"one {name} per comparison: shapes {column.shape} and {columns[0].shape}")
        if column.size and (column.dtype.kind not in "iu" or column.min() < 0 or column.max() >= below):
            raise ValueError(f"{name} holds integers from 0 to {below - 1}")
    which, one, other, won = (column.astype(np.int64) for column in columns)
    if (one == other).any():
        raise ValueError("no method is compared with itself, but first equals second somewhere")
    low, high = np.minimum(one, other), np.maximum(one, other)
    pairs = methods * (methods - 1) // 2
    pair = low * (2 * methods - low - 1) // 2 + high - low - 1
    outcome = np.where(one < other, 2 - won, won)
    flat = np.bincount((which * pairs + pair) * 3 + outcome, minlength=items * pairs * 3)
    return flat.reshape(items, pairs, 3)


def bootstrap(
    counts: ArrayLike,
    methods: Sequence[str],
    *,
    strata: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int,
) -> RankingIntervals:
    """Return the ranking of all comparisons and percentile intervals from resampling items.

    Items are drawn with replacement within their stratum, and Davidson's model is fitted again to each draw
    from the estimate. Verdicts on one item may depend on each other in any way. The items' order does not
    matter.

    Args:
        counts: What `tally` returns, `[items, P, 3]`.
        methods: K different names.
        strata: Each item's stratum (its dataset); `None` for one stratum.
        replicates: How often to draw, at least 2.
        level: The confidence level.
        seed: It alone decides the draws.
    """
    table, labels = _checked(counts, methods, strata)
    check_level(level)
    if replicates < 2:
        raise ValueError(f"a bootstrap takes two replicates or more, not {replicates}")
    estimate = davidson(*newton.to_matrices(table.sum(axis=0, dtype=float), len(methods)), methods)
    found, made, remarks = _draws(table, labels, estimate, replicates=replicates, seed=seed)
    drawn = found if len(found) > (1 - _UNDEFINED) * made else found[:0]
    method = f"percentile bootstrap over items within strata, {replicates} replicates, seed {seed}"
    warnings = (*estimate.warnings, *remarks)
    point = Interval(level=level, n=len(table), method=method, warnings=warnings)
    return RankingIntervals(
        estimate=estimate,
        strengths=_percentiles(point, estimate.strengths, drawn[:, :-1]),
        shares=_percentiles(point, estimate.shares, newton.shares(drawn)),
        ranks=_rank_intervals(estimate, drawn[:, :-1], level),
        level=level,
        n=len(table),
        replicates=made,
        undefined=made - len(found),
        seed=seed,
        method=method,
        warnings=warnings,
    )


def _draws(
    table: newton.Floats, labels: NDArray[np.object_], estimate: Ranking, *, replicates: int, seed: int
) -> tuple[newton.Floats, int, list[str]]:
    """Return the parameters of the draws that have finite ones, how many were made, and what to say of it."""
    nothing = np.zeros((0, len(estimate.methods) + 1))
    if estimate.strengths is None:
        return nothing, 0, [estimate.reason]
    if len(table) < 2:
        return nothing, 0, ["one item says nothing of the spread over items"]
    found = _replicates(table, labels, estimate, replicates=replicates, seed=seed)
    alone = int((np.unique(labels, return_counts=True)[1] == 1).sum())
    remarks = [f"{alone} strata of one item cannot vary when resampled"] if alone else []
    return found, replicates, remarks + _missing(replicates - len(found), replicates)


def _replicates(
    table: newton.Floats, labels: NDArray[np.object_], estimate: Ranking, *, replicates: int, seed: int
) -> newton.Floats:
    """Return the parameters of those replicates that have finite ones, `[≤ replicates, K + 1]`."""
    rng = np.random.default_rng(seed)
    log_nu = -np.inf if estimate.log_nu is None else estimate.log_nu
    start = np.array([*(estimate.strengths or ()), log_nu])
    # Items with the same counts are exchangeable: what is drawn is how often each pattern occurs.
    patterns = []
    for name in np.unique(labels):
        rows, often = np.unique(table[labels == name].reshape(-1, table[0].size), axis=0, return_counts=True)
        patterns.append((rows, often))
    known: dict[bytes, bool] = {}
    found = []
    for begin in range(0, replicates, _BLOCK):
        size = min(_BLOCK, replicates - begin)
        sums = np.zeros((size, table[0].size))
        for rows, often in patterns:
            drawn = rng.multinomial(int(often.sum()), often / often.sum(), size=size)
            sums += drawn.astype(float) @ rows
        tables = sums.reshape(size, -1, 3)
        finite = np.array([_is_defined(one, estimate.methods, known) for one in tables])
        fits = newton.fit(tables[finite], start)
        found.append(fits.parameters[fits.converged])
    return np.concatenate(found)


def _is_defined(table: newton.Floats, methods: Sequence[str], known: dict[bytes, bool]) -> bool:
    """Return whether the likelihood has a finite maximum; it hangs on which counts are zero alone."""
    key = np.packbits(table > 0).tobytes()
    if key not in known:
        known[key] = not why_undefined(*newton.to_matrices(table, len(methods)), methods)
    return known[key]


def _percentiles(
    whole: Interval, points: tuple[float, ...] | None, values: newton.Floats
) -> tuple[Interval, ...]:
    """Return the interval of each of the `points` from the `values` of the draws, `[draws, K]`."""
    if points is None or not len(values):
        return tuple(replace(whole, estimate=point) for point in points or (None,) * values.shape[1])
    limits = np.quantile(values, [(1 - whole.level) / 2, (1 + whole.level) / 2], axis=0).T.tolist()
    return tuple(
        replace(whole, estimate=point, low=low, high=high)
        for point, (low, high) in zip(points, limits, strict=True)
    )


def _rank_intervals(ranking: Ranking, strengths: newton.Floats, level: float) -> tuple[RankInterval, ...]:
    if ranking.strengths is None:
        return (RankInterval(),) * len(ranking.methods)
    own = _ranks(np.array([ranking.strengths]))[0]
    if len(strengths) == 0:
        return tuple(RankInterval(estimate=int(rank)) for rank in own)
    ranks = _ranks(strengths)
    low = np.quantile(ranks, (1 - level) / 2, axis=0, method="lower")
    high = np.quantile(ranks, (1 + level) / 2, axis=0, method="higher")
    return tuple(
        RankInterval(estimate=int(rank), low=int(best), high=int(worst))
        for rank, best, worst in zip(own, low, high, strict=True)
    )


def _ranks(strengths: newton.Floats) -> NDArray[np.int64]:
    """Return 1 + the number of stronger methods, `[..., K]`; what differs by rounding is equal."""
    ranks: NDArray[np.int64] = 1 + (strengths[:, None, :] > strengths[:, :, None] + 1e-9).sum(axis=-1)
    return ranks


def _missing(undefined: int, replicates: int) -> list[str]:
    if undefined == 0:
        return []
    if undefined >= _UNDEFINED * replicates:
        return [f"{undefined} of {replicates} draws have no finite strengths: no interval can be given"]
    return [f"{undefined} of {replicates} draws have no finite strengths and were left out"]


def _checked(
    counts: ArrayLike, methods: Sequence[str], strata: Sequence[str] | None
) -> tuple[newton.Floats, NDArray[np.object_]]:
    table = np.asarray(counts)
    pairs = len(methods) * (len(methods) - 1) // 2
    if table.ndim != 3 or table.shape[1:] != (pairs, 3) or len(table) == 0:
        raise ValueError(f"counts of {len(methods)} methods are [items, {pairs}, 3]; got shape {table.shape}")
    if table.dtype.kind not in "iu" or table.min() < 0:
        raise ValueError("counts are non-negative integers")
    labels = np.asarray([""] * len(table) if strata is None else list(strata), dtype=object)
    if len(labels) != len(table):
        raise ValueError(f"one stratum per item: {len(table)} items, {len(labels)} strata")
    return table.astype(float), labels
