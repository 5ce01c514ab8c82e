"""Verdicts reduced to count patterns: items with the same verdict counts are exchangeable.

Five raters and three categories have only 21 patterns with no rating missing, whatever the number of items.
An agreement coefficient, or a bootstrap over items, that reads the patterns costs the same for a thousand
items as for a million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.integer]
Codes = NDArray[np.int64]

# Items are taken in blocks that stay in the processor's cache.
_BLOCK = 1 << 16
# Up to here, or four times the rows, a cell for every possible code is cheaper than sorting the codes. Up to
# here, too, the raters' verdicts on an item fit 16 bits.
_DENSE = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Patterns:
    """The distinct verdict counts of a set of items, in lexicographic order, and how often each occurs.

    An item without a rating is in no pattern.

    Attributes:
        counts: How many raters chose each category, int64 [patterns, categories]; no row is all zeros.
        items: How many items have the pattern, int64 [patterns].
        clustered: Where items of a cluster (a prompt) depend on each other: the cluster and the pattern of
            each item with a rating, int64 [2, items], clusters from 0; `None` where items are alone.
    """

    counts: Codes
    items: Codes
    clustered: Codes | None = None

    @cached_property
    def sizes(self) -> Codes:
        """Return the ratings of one item of each pattern, [patterns]."""
        sizes: Codes = self.counts.sum(axis=1)
        return sizes

    @cached_property
    def n(self) -> int:
        """Return the number of items with a rating."""
        return int(self.items.sum())

    @property
    def ratings(self) -> int:
        """Return the number of ratings."""
        return int(self.items @ self.sizes)

    @cached_property
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


def from_counts(counts: ArrayLike, clusters: Integers | None = None) -> Patterns:
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
    if clusters is not None and table.size:
        rated = table.any(axis=1)
        rows, place, items = np.unique(table[rated], axis=0, return_inverse=True, return_counts=True)
        cluster = np.unique(np.asarray(clusters)[rated], return_inverse=True)[1]
        clustered = np.stack([cluster, place.ravel()]).astype(np.int64)
        return replace(_patterns(rows.astype(np.int64), items), clustered=clustered)
    most = int(table.max(initial=0))
    columns, items = distinct_rows(tuple(table.T), bounds=[(0, most)] * table.shape[1])
    return _patterns(np.stack(columns, axis=1), items)


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
    if array.size and (categories + 1) ** array.shape[1] <= _DENSE:
        return _of_tuples(array, categories)
    check_verdicts(array, categories)
    return from_counts(_tally(array, categories))


def check_verdicts(verdicts: Integers, categories: int) -> None:
    """Raise ValueError unless all are from 0 to `categories` − 1, or −1 for missing."""
    low, high = int(verdicts.min(initial=0)), int(verdicts.max(initial=-1))
    if low < -1 or high >= categories:
        wrong = low if low < -1 else high
        raise ValueError(f"a verdict is −1 (missing) or from 0 to {categories - 1}; {wrong} is neither")


def distinct_rows(
    columns: Sequence[Integers], bounds: Sequence[tuple[int, int]] | None = None
) -> tuple[tuple[Codes, ...], Codes]:
    """Return the columns of the distinct rows, in lexicographic order, and how often each row occurs.

    `bounds` are each column's least and greatest possible value, where they are known.
    """
    if not len(columns[0]):
        none = np.zeros(0, dtype=np.int64)
        return (none,) * len(columns), none
    bounds = bounds or [(int(column.min()), int(column.max())) for column in columns]
    least, room = [low for low, _ in bounds], [high - low + 1 for low, high in bounds]
    codes = math.prod(room)
    if codes >= 2**63:
        rows, often = np.unique(np.stack(columns, axis=1).astype(np.int64), axis=0, return_counts=True)
        return tuple(rows.T), often
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column, low, wide in zip(columns, least, room, strict=True):
        key *= wide
        np.add(key, column - low if low else column, out=key, casting="unsafe")
    if codes <= max(_DENSE, 4 * len(key)):
        cells = np.bincount(key)
        used = np.flatnonzero(cells)
        often = cells[used]
    else:
        used, often = np.unique(key, return_counts=True)
    parts = np.unravel_index(used, room)
    return tuple(part + low for part, low in zip(parts, least, strict=True)), often


def _patterns(rows: Codes, items: Codes) -> Patterns:
    rated = rows.any(axis=1)
    counts, kept = rows[rated], items[rated]
    counts.flags.writeable = kept.flags.writeable = False
    return Patterns(counts=counts, items=kept)


def _of_tuples(array: Integers, categories: int) -> Patterns:
    """Count every combination of the raters' verdicts, then turn the combinations into counts."""
    base, raters = categories + 1, array.shape[1]
    cells = np.zeros(base**raters, dtype=np.int64)
    # Verdicts begin at −1 and digits at 0: the ones are added at the end, and until then uint16 goes round.
    ones = np.uint16(sum(base**rater for rater in range(raters)))
    for start in range(0, len(array), _BLOCK):
        block = array[start : start + _BLOCK]
        check_verdicts(block, categories)
        code = block[:, 0].astype(np.uint16)
        for rater in range(1, raters):
            code *= np.uint16(base)
            code += block[:, rater].astype(np.uint16)
        code += ones
        cells += np.bincount(code, minlength=len(cells))
    used = np.flatnonzero(cells)
    counts = _tally(used[:, None] // base ** np.arange(raters) % base - 1, categories)
    rows, place = np.unique(counts, axis=0, return_inverse=True)
    return _patterns(rows, np.bincount(place.ravel(), weights=cells[used]).astype(np.int64))


def _tally(block: Integers, categories: int) -> Codes:
    """Return how often each category occurs in each row, [rows, categories]."""
    return np.stack([(block == k).sum(axis=1) for k in range(categories)], axis=1).astype(np.int64)
