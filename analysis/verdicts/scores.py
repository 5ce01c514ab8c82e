"""From verdicts to scores: one per rater and pair, then one per item, as exact fractions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.composite import Composite, with_composite
from analysis.verdicts.encoding import combined, text_codes
from analysis.verdicts.panel import FormedPanel, JudgePanel, with_panel
from analysis.verdicts.tidy import orient
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import KIND_PLACE

CELL = ["method_a", "method_b", "rater_kind", "judge", "criterion"]
"""What is never pooled: a comparison on one criterion, judged by people, or by one judge."""


class Cell(NamedTuple):
    """The values of `CELL`; `judge` is empty for people."""

    method_a: str
    method_b: str
    rater_kind: str
    judge: str
    criterion: str


ITEM = [*CELL, "dataset", "pair_id"]
"""What an item's ratings share."""
PROMPT = "prompt_id"
"""An optional column: which pairs are of one prompt. An id names a prompt within its dataset."""

Planned = tuple[tuple[str, str, str], ...]
"""The comparisons declared beforehand: (method_a, method_b, criterion)."""

_FINEST = 2**30
_LARGEST = 2**61
"""Denominators up to which twice their value is an int64."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredVerdicts:
    """A table of verdicts with its scores: made once and handed to each analysis, which must not change it.

    Attributes:
        frame: The table, each comparison one way round.
        planned: The comparisons declared beforehand, which decided the way round; `None` where none were.
        panel: The judges who count as one besides; `None` where no panel was declared.
        composite: Criteria whose weighted mean is one more outcome; `None` where none was declared.
    """

    frame: pd.DataFrame
    planned: Planned | None = None
    panel: JudgePanel | None = None
    composite: Composite | None = None

    @classmethod
    def of(
        cls,
        verdicts: Verdicts,
        planned: Planned | None = None,
        panel: JudgePanel | None = None,
        composite: Composite | None = None,
    ) -> ScoredVerdicts:
        """Return a table as this value; itself where it is one, unless `planned` is another plan."""
        if isinstance(verdicts, pd.DataFrame):
            frame = in_order(orient(verdicts, planned))
            return cls(frame=frame, planned=planned, panel=panel, composite=composite)
        if planned in (None, verdicts.planned):
            return verdicts
        return replace(verdicts, frame=orient(verdicts.frame, planned), planned=planned)

    def only(self, comparisons: Collection[tuple[str, str]]) -> ScoredVerdicts:
        """Return the verdicts on some comparisons; itself where they are all there are."""
        names = [text_codes(self.frame[name]) for name in ("method_a", "method_b")]
        wanted = np.zeros((len(names[0].texts), len(names[1].texts)), dtype=bool)
        for a, b in comparisons:
            if a in names[0].texts and b in names[1].texts:
                wanted[names[0].texts.index(a), names[1].texts.index(b)] = True
        kept = wanted[names[0].codes, names[1].codes]
        if kept.all():
            return self
        # A panel is of the judges who judged all of it; where some of them lack, it is none.
        judged = set(self.frame.loc[kept, "rater"])
        whole = all(set(panel.members) <= judged for panel in self.panels)
        return replace(self, frame=self.frame[kept], panel=self.panel if whole and kept.any() else None)

    @cached_property
    def raters(self) -> pd.DataFrame:
        """Return `rater_scores`, without the panel."""
        return rater_scores(self.frame)

    @cached_property
    def _with_panel(self) -> tuple[pd.DataFrame, tuple[FormedPanel, ...]]:
        return (self.raters, ()) if self.panel is None else with_panel(self.raters, self.panel)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Return `rater_scores`, with the panel and the composite where they were declared."""
        scores = self._with_panel[0]
        return scores if self.composite is None else with_composite(scores, self.composite)

    @property
    def panels(self) -> tuple[FormedPanel, ...]:
        """Return the panel that was declared, if any; simulated judges form another."""
        return self._with_panel[1]

    @cached_property
    def by_kind(self) -> pd.DataFrame:
        """Return `rater_scores` with all judges of a kind in one cell, to compare them with each other."""
        scores = self.raters
        if not (scores["judge"] != "").any():
            return scores
        codes = [text_codes(scores[name]).ranked().codes for name in ITEM if name != "judge"]
        return scores.assign(judge="", item=combined(*codes))

    @cached_property
    def items(self) -> pd.DataFrame:
        """Return `item_scores`, computed when first needed."""
        return item_scores(self.scores)


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its rows sorted, so that no sum depends on the order in which they came.

    The index keeps that order, which a sequential test needs where verdicts have no time.
    """
    names = [*_SORTED, *(str(name) for name in frame.columns if name not in _SORTED)]
    codes = [_sortable(frame[name]) for name in names if name in frame.columns]
    return frame.iloc[np.lexsort(codes[::-1])]


_SORTED = ("pair_id", "method_a", "method_b", "criterion", "rater_kind", "rater", "presentation", "verdict")


def _sortable(column: pd.Series) -> NDArray[np.float64] | NDArray[np.int64]:
    numeric = pd.api.types.is_numeric_dtype(column)
    return column.to_numpy(dtype=float) if numeric else text_codes(column).ranked().codes


Verdicts = pd.DataFrame | ScoredVerdicts
"""What every analysis takes: a table of verdicts, or the same already scored."""


def rater_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rater and pair of an oriented table: `net` of its `showings`, in the keys' order.

    `verdicts` is how many verdicts a score rests on, which for a rater of its own are its showings.

    `judge` is the rater where it is a judge, and empty for people. A verdict for method_a counts +1, for
    method_b −1, a tie 0. A rater who saw a pair more than once (a judge in both orders) has one score, net /
    showings: a verdict that flips with the order is a tie. `unit` is the same in rows of one prompt, or of
    one pair where the prompt is not known (`Units`), and `item` in rows of one item, in the order of the
    items' keys.
    """
    for_a, for_b = (
        (frame["verdict"] == frame[method]).to_numpy(dtype=np.int64) for method in ("method_a", "method_b")
    )
    keys = [*ITEM, "rater"]
    judges = judge_of(frame)
    columns = [judges if name == "judge" else frame[name] for name in keys]
    codes = [text_codes(column).ranked().codes for column in columns]
    place, first = _numbered(combined(*codes))
    taken = [column.iloc[first].reset_index(drop=True) for column in columns]
    scores = pd.DataFrame(dict(zip(keys, taken, strict=True)))
    scores["item"] = combined(*(column[first] for column in codes[:-1]))
    scores["unit"] = unit_codes(frame)[first]
    showings = np.bincount(place, minlength=len(first)).astype(np.int64)
    net = np.bincount(place, weights=for_a - for_b, minlength=len(first)).astype(np.int64)
    return scores.assign(net=net, showings=showings, verdicts=showings)


def judge_of(frame: pd.DataFrame) -> pd.Series:
    """Return who judged each row of a table, by name, where it was a judge; empty where it was people."""
    return frame["rater"].where(frame["rater_kind"].isin(PEOPLE_OF), "")


def with_units(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of verdicts with the columns `unit` and `judge`."""
    return frame.assign(unit=unit_codes(frame), judge=judge_of(frame))


def unit_codes(frame: pd.DataFrame) -> NDArray[np.int64]:
    """Return each row's unit: a number ≥ 0 for its prompt, one below 0 for a pair that names none."""
    ranked = text_codes(frame["pair_id"]).ranked()
    pairs = ranked.codes - len(ranked.texts)
    if PROMPT not in frame.columns:
        return pairs
    prompts = text_codes(frame[PROMPT]).ranked().codes
    of = combined(text_codes(frame["dataset"]).ranked().codes, prompts)
    return np.where(prompts >= 0, of, pairs)


def by_cell(table: pd.DataFrame) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Yield each cell (`CELL`) and its rows: people first, then each judge, by methods and criterion."""
    cells = {Cell(*map(str, key)): rows for key, rows in table.groupby(CELL, sort=True)}
    for cell in sorted(cells, key=lambda cell: (KIND_PLACE[cell.rater_kind], cell.judge, cell)):
        yield cell, cells[cell]


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """What is independent of each other in a set of items: prompts where they are known, else pairs.

    Attributes:
        name: `prompt` or `pair`.
        n: How many.
        place: Each item's unit, from 0 in the order of their first items, [items].
    """

    name: Literal["prompt", "pair"]
    n: int
    place: NDArray[np.int64]

    @property
    def clusters(self) -> NDArray[np.int64] | None:
        """Return `place` where some unit has several items; `None` where the items themselves are units."""
        return self.place if self.n < len(self.place) else None


def units(table: pd.DataFrame) -> Units:
    """Return the units of a table with a column `unit`, such as `item_scores`."""
    codes = table["unit"].to_numpy()
    place, known = pd.factorize(codes)
    name: Literal["prompt", "pair"] = "prompt" if (codes >= 0).any() else "pair"
    return Units(name=name, n=len(known), place=place.astype(np.int64))


def unit_sums(items: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return each unit's sum of item scores as numerators and denominators, and how many items it has.

    The sums over units add up to the sum over items, so that what is tested stays the mean over items.
    """
    tops, bottoms = items["numerator"].to_numpy(), items["denominator"].to_numpy()
    found = units(items)
    sizes = np.bincount(found.place, minlength=found.n).astype(np.int64)
    if found.clusters is None:
        return tops, bottoms, sizes
    common = math.lcm(*np.unique(bottoms).tolist())
    if common <= _FINEST:
        parts = tops * (common // bottoms)
    else:
        # Too many numbers of raters for one denominator: a grid this fine moves p by less than shows.
        common = _FINEST
        parts = np.round(tops / bottoms * common).astype(np.int64)
    sums = np.zeros(found.n, dtype=np.int64)
    np.add.at(sums, found.place, parts)
    return sums, np.full(found.n, common, dtype=np.int64), sizes


def item_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per item of `rater_scores`: its mean score as `numerator` / `denominator`, and `share`.

    The score lies between −1 (every rater for method_b) and 1; share = (1 + score) / 2 is the item's
    tie-split win share. A score whose denominator exceeds 2⁶¹ is off by at most 2⁻³¹; all others are exact.
    """
    place, first = item_numbers(scores)
    nets, showings = scores["net"].to_numpy(), scores["showings"].to_numpy()
    numerators, denominators, raters = mean_scores(nets, showings, place, len(first))
    items = scores[[*ITEM, "unit"]].iloc[first].reset_index(drop=True)
    items = items.assign(numerator=numerators, raters=raters, denominator=denominators)
    items["share"] = 0.5 + items["numerator"] / (2 * items["denominator"])
    return items


def mean_scores(
    nets: NDArray[np.int64], showings: NDArray[np.int64], place: NDArray[np.int64], items: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return each item's mean score as numerator and denominator, and its raters, [items] each.

    Args:
        nets: Verdicts for method_a less those for method_b, of each rater and item.
        showings: How many showings each counts for.
        place: Each one's item, from 0.
        items: How many items there are; of one without a rater numerator, denominator and raters are 0.
    """
    raters = np.bincount(place, minlength=items).astype(np.int64)
    common = math.lcm(*np.unique(showings).tolist())
    if common * int(raters.max(initial=1)) > _LARGEST:
        return *_one_by_one(nets, showings, place, raters), raters
    numerators = np.zeros(items, dtype=np.int64)
    np.add.at(numerators, place, nets * (common // showings))
    return numerators, raters * common, raters


def _one_by_one(
    nets: NDArray[np.int64], showings: NDArray[np.int64], place: NDArray[np.int64], raters: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the items' mean scores where the numbers of showings have too large a common multiple."""
    sums = [Fraction()] * len(raters)
    for item, net, shown in zip(place.tolist(), nets.tolist(), showings.tolist(), strict=True):
        sums[item] += Fraction(net, shown)
    means = [total / max(1, many) for total, many in zip(sums, raters.tolist(), strict=True)]
    means = [mean if mean.denominator <= _LARGEST else mean.limit_denominator(2**31) for mean in means]
    whole = np.array([(mean.numerator, mean.denominator) for mean in means], dtype=np.int64)
    return whole[:, 0], whole[:, 1]


def item_numbers(scores: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's item, numbered in the order of the items' keys, and each item's first row."""
    return _numbered(scores["item"].to_numpy())


def _numbered(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rank of each key among the different ones, and where each of these comes first."""
    place, values = pd.factorize(key, sort=True)
    first = np.empty(len(values), dtype=np.int64)
    first[place[::-1]] = np.arange(len(key))[::-1]
    return place, first
