"""From verdicts to scores: one per rater and pair, then one per item, as exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.text_codes import combined, text_codes

CELL = ["method_a", "method_b", "rater_kind", "criterion"]
"""What is never pooled: a comparison, judged by one kind of rater, on one criterion."""
ITEM = [*CELL, "dataset", "pair_id"]
"""What an item's ratings share."""


_REMEMBERED: ContextVar[tuple[pd.DataFrame, list[pd.DataFrame]] | None] = ContextVar("scores", default=None)
"""A frame whose scores are kept, and the scores once there are any."""


@contextmanager
def remembered(frame: pd.DataFrame) -> Iterator[None]:
    """Make `rater_scores` count this very frame once, however many analyses ask; none may change it."""
    token = _REMEMBERED.set((frame, []))
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


def rater_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rater and pair of an oriented table: `net` of its `showings`, in the keys' order.

    A verdict for method_a counts +1, for method_b −1, a tie 0. A rater who saw a pair more than once (a
    judge in both orders) has one score, net / showings: a verdict that flips with the order is a tie.
    """
    kept = _REMEMBERED.get()
    if kept is None or kept[0] is not frame:
        return _rater_scores(frame)
    if not kept[1]:
        kept[1].append(_rater_scores(frame))
    return kept[1][0].copy()


def _rater_scores(frame: pd.DataFrame) -> pd.DataFrame:
    for_a, for_b = (
        (frame["verdict"] == frame[method]).to_numpy(dtype=np.int64) for method in ("method_a", "method_b")
    )
    keys = [*ITEM, "rater"]
    key = combined(*(text_codes(frame[name]).ranked().codes for name in keys))
    place, first = _numbered(key)
    scores = frame[keys].iloc[first].reset_index(drop=True)
    showings = np.bincount(place, minlength=len(first)).astype(np.int64)
    net = np.bincount(place, weights=for_a - for_b, minlength=len(first)).astype(np.int64)
    return scores.assign(net=net, showings=showings)


def item_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per item of `rater_scores`: its mean score as `numerator` / `denominator`, and `share`.

    The score lies between −1 (every rater for method_b) and 1; share = (1 + score) / 2 is the item's
    tie-split win share.
    """
    showings = scores["showings"].to_numpy()
    common = math.lcm(*(int(value) for value in np.unique(showings)))
    place, first = item_numbers(scores)
    part = scores["net"].to_numpy() * (common // showings)
    items = scores[ITEM].iloc[first].reset_index(drop=True)
    raters = np.bincount(place, minlength=len(first)).astype(np.int64)
    totals = np.zeros(len(first), dtype=np.int64)
    np.add.at(totals, place, part)
    items = items.assign(numerator=totals, raters=raters, denominator=raters * common)
    items["share"] = 0.5 + items["numerator"] / (2 * items["denominator"])
    return items


def item_numbers(scores: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's item, numbered in the order of the items' keys, and each item's first row.

    The rows of an item stand together where `rater_scores` left them, and then no text needs to be sorted.
    """
    new, sorted_so_far = np.ones(len(scores), dtype=bool), True
    same = np.ones(max(0, len(scores) - 1), dtype=bool)
    for name in ITEM:
        column = scores[name].to_numpy()
        changed = np.flatnonzero(column[1:] != column[:-1])
        # Where an earlier key has changed this one may fall; elsewhere it must rise.
        within = changed[same[changed]]
        sorted_so_far = sorted_so_far and bool((column[within + 1] > column[within]).all())
        same[changed] = False
    new[1:] = ~same
    if sorted_so_far:
        return np.cumsum(new) - 1, np.flatnonzero(new)
    return _numbered(combined(*(text_codes(scores[name]).ranked().codes for name in ITEM)))


def _numbered(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rank of each key among the different ones, and where each of these comes first."""
    place, values = pd.factorize(key, sort=True)
    first = np.empty(len(values), dtype=np.int64)
    first[place[::-1]] = np.arange(len(key))[::-1]
    return place, first
