"""Verdicts reduced to count patterns: items with the same verdict counts are exchangeable.

Five raters and three categories have only 21 patterns with no rating missing, whatever the number of items.
An agreement coefficient, or a bootstrap over items, that reads the patterns costs the same for a thousand
items as for a million.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Items are taken in blocks that stay in the processor's cache.
_BLOCK = 1 << 16
# Up to here an array with a cell for every possible code is cheaper than sorting the codes.
_DENSE = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Patterns:
    """The distinct verdict counts of a set of items, in lexicographic order, and how often each occurs.

    Attributes:
        counts: How many raters chose each category, int64 [patterns, categories]; no row is all zeros.
        items: How many items have the pattern, int64 [patterns].
        unrated: Items without a rating, which are in no pattern.
        clustered: Where items of a cluster (a prompt) depend on each other: the cluster and the pattern of
            each item with a rating, int64 [2, items], clusters from 0; `None` where items are alone.
    """

    counts: NDArray[np.int64]
    items: NDArray[np.int64]
    unrated: int = 0
    clustered: NDArray[np.int64] | None = None

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return the ratings of one item of each pattern, [patterns]."""
        sizes: NDArray[np.int64] = self.counts.sum(axis=1)
        return sizes

    @property
    def n(self) -> int:
        """Return the number of items with a rating."""
        return int(self.items.sum())

    @property
    def ratings(self) -> int:
        """Return the number of ratings."""
        return int(self.items @ self.sizes)

    @property
    def units(self) -> int:
        """Return how many items, or clusters of them, are independent of each other."""
        return self.n if self.clustered is None else len(np.unique(self.clustered[0]))

    @property
    def over(self) -> str:
        """Return what an interval is taken over, in words."""
        return "items" if self.clustered is None else "prompts"

    def kept(self, which: NDArray[np.bool_]) -> Patterns:
        """Return the patterns, and their items, for which `which` holds, [patterns]."""
        clustered = self.clustered
        if clustered is not None:
            clustered = clustered[:, which[clustered[1]]]
            clustered = np.stack([clustered[0], (np.cumsum(which) - 1)[clustered[1]]])
        return Patterns(counts=self.counts[which], items=self.items[which], clustered=clustered)

    def error_of_mean(self, values: NDArray[np.float64]) -> float | None:
        """Return the standard error of the mean over items of `values`, [patterns]; `None` if there is none.

        Its unit is the cluster where there are clusters: C/(C − 1) · Σ (sum of a cluster's distances)² / n².
        """
        n = self.n
        if self.units < 2:
            return None
        spread = values - float(values @ self.items) / n
        if self.clustered is None:
            error = math.sqrt(float(spread**2 @ self.items) / (n * (n - 1)))
        else:
            sums = np.bincount(self.clustered[0], weights=spread[self.clustered[1]])
            error = math.sqrt(float(sums @ sums) * self.units / (self.units - 1)) / n
        return error if error > 1e-12 else None


def from_counts(counts: ArrayLike, clusters: NDArray[np.integer] | None = None) -> Patterns:
    """Return the patterns of `counts`, non-negative integers [items, categories].

    Args:
        counts: How many raters of each item chose each category.
        clusters: The item's cluster (its prompt), [items]; `None` where items are alone.

    Raises:
        ValueError: If `counts` are anything else.
    """
    table = np.asarray(counts)
    if table.ndim != 2 or (table.size and (table.dtype.kind not in "iu" or table.min() < 0)):
        raise ValueError(f"counts are non-negative integers, [items, categories]; got shape {table.shape}")
    if not table.size:
        return _patterns(np.zeros((0, table.shape[1]), dtype=np.int64), np.zeros(0, dtype=np.int64))
    if clusters is not None:
        rated = table.any(axis=1)
        rows, place, items = np.unique(table[rated], axis=0, return_inverse=True, return_counts=True)
        cluster = np.unique(np.asarray(clusters)[rated], return_inverse=True)[1]
        found = _patterns(rows.astype(np.int64), items.astype(np.int64), unrated=int((~rated).sum()))
        return replace(found, clustered=np.stack([cluster, place.ravel()]).astype(np.int64))
    rows, items = _distinct(table)
    return _patterns(rows, items)


def from_verdicts(verdicts: ArrayLike, *, categories: int) -> Patterns:
    """Return the patterns of `verdicts`, integers [items, raters] from 0 to `categories` − 1, −1 for missing.

    int8 with each rater's verdicts contiguous (Fortran order) is fastest.

    Raises:
        ValueError: If `verdicts` are anything else, or there is no category.
    """
    if categories < 1:
        raise ValueError(f"there must be at least one category, not {categories}")
    array = np.asarray(verdicts)
    if array.ndim != 2 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"verdicts are integers, [items, raters]; got {array.dtype} of shape {array.shape}")
    if not array.size:
        none = np.zeros((0, categories), dtype=np.int64)
        return _patterns(none, np.zeros(0, dtype=np.int64), unrated=len(array))
    reduce = _by_tuple if (categories + 1) ** array.shape[1] <= _DENSE else _by_table
    rows, items = reduce(array, categories)
    return _patterns(*_merged(rows, items))


def _patterns(rows: NDArray[np.int64], items: NDArray[np.int64], *, unrated: int = 0) -> Patterns:
    rated = rows.any(axis=1)
    counts, kept = rows[rated], items[rated]
    counts.flags.writeable = kept.flags.writeable = False
    return Patterns(counts=counts, items=kept, unrated=unrated + int(items[~rated].sum()))


def _checked(block: NDArray[np.integer], categories: int) -> None:
    low, high = int(block.min()), int(block.max())
    if low < -1 or high >= categories:
        wrong = low if low < -1 else high
        raise ValueError(f"a verdict is −1 (missing) or from 0 to {categories - 1}; {wrong} is neither")


def _by_tuple(array: NDArray[np.integer], categories: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count every combination of the raters' verdicts, then turn the combinations into counts."""
    base, raters = categories + 1, array.shape[1]
    cells = np.zeros(base**raters, dtype=np.int64)
    # Verdicts begin at −1 and digits at 0: the ones are added at the end, and until then uint16 goes round.
    ones = np.uint16(sum(base**rater for rater in range(raters)))
    for start in range(0, len(array), _BLOCK):
        block = array[start : start + _BLOCK]
        _checked(block, categories)
        code = block[:, 0].astype(np.uint16)
        for rater in range(1, raters):
            code *= np.uint16(base)
            code += block[:, rater].astype(np.uint16)
        code += ones
        cells += np.bincount(code, minlength=len(cells))
    used = np.flatnonzero(cells)
    digits = used[:, None] // base ** np.arange(raters) % base
    return _tally(digits - 1, categories), cells[used]


def _by_table(array: NDArray[np.integer], categories: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count each block's verdicts per item and category, and keep the block's distinct counts."""
    rows, items = [], []
    for start in range(0, len(array), _BLOCK):
        block = array[start : start + _BLOCK]
        _checked(block, categories)
        found, often = _distinct(_tally(block, categories))
        rows.append(found)
        items.append(often)
    return np.concatenate(rows), np.concatenate(items)


def _tally(block: NDArray[np.integer], categories: int) -> NDArray[np.int64]:
    """Return how often each category occurs in each row, [rows, categories]."""
    return np.stack([(block == k).sum(axis=1) for k in range(categories)], axis=1).astype(np.int64)


def _distinct(table: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows of non-negative integers and how often each occurs."""
    base, width = int(table.max()) + 1, table.shape[1]
    if base**width > np.iinfo(np.int64).max:
        rows, often = np.unique(table, axis=0, return_counts=True)
        return rows.astype(np.int64), often.astype(np.int64)
    # The first category is the highest digit, so that codes sort as their rows do.
    powers = [base ** (width - 1 - k) for k in range(width)]
    code = np.zeros(len(table), dtype=np.int64)
    for k, power in enumerate(powers):
        code += table[:, k].astype(np.int64) * power
    if base**width <= _DENSE:
        cells = np.bincount(code)
        used = np.flatnonzero(cells)
        often = cells[used]
    else:
        used, often = np.unique(code, return_counts=True)
    return used[:, None] // np.array(powers, dtype=np.int64) % base, often.astype(np.int64)


def _merged(rows: NDArray[np.int64], items: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Add up the items of equal rows."""
    distinct, where = np.unique(rows, axis=0, return_inverse=True)
    total = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(total, where, items)
    return distinct, total
