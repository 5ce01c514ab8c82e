"""From verdicts to scores: one per rater and pair, then one per item."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.composite import Composite, with_composite
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

_ORDER = ["pair_id", "method_a", "method_b", "criterion", "rater_kind", "rater", "presentation"]
"""What no two verdicts of a validated table share."""
_ROUNDING = 1e-12
"""A mean score below this one is 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredVerdicts:
    """A table of verdicts with its scores: made once and handed to each analysis, which must not change it.

    Attributes:
        frame: The table, each comparison one way round.
        panel: The judges who count as one besides; None if no panel was declared.
        composite: Criteria whose weighted mean is one more outcome; None if none was declared.
    """

    frame: pd.DataFrame
    panel: JudgePanel | None = None
    composite: Composite | None = None

    @classmethod
    def of(
        cls,
        verdicts: pd.DataFrame,
        planned: Planned | None = None,
        panel: JudgePanel | None = None,
        composite: Composite | None = None,
    ) -> ScoredVerdicts:
        """Return a validated table, each comparison in the order of `planned` if it is there."""
        return cls(frame=in_order(orient(verdicts, planned)), panel=panel, composite=composite)

    def only(self, comparisons: Collection[tuple[str, str]]) -> ScoredVerdicts:
        """Return the verdicts on some comparisons; itself if they are all there are."""
        names = self.frame[["method_a", "method_b"]]
        known = names.drop_duplicates()
        wanted = known[[pair in set(comparisons) for pair in known.itertuples(index=False, name=None)]]
        if len(wanted) == len(known):
            return self
        kept = pd.MultiIndex.from_frame(names).isin(pd.MultiIndex.from_frame(wanted))
        # A panel is of the judges who judged all of it; if some of them are missing, there is none.
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
        """Return `rater_scores`, with the panel and the composite if they were declared."""
        scores = self._with_panel[0]
        scores = scores if self.composite is None else with_composite(scores, self.composite)
        return scores if scores is self.raters else _numbered(scores)

    @property
    def panels(self) -> tuple[FormedPanel, ...]:
        """Return the panel that was declared, if any; simulated judges form another."""
        return self._with_panel[1]

    @cached_property
    def by_kind(self) -> pd.DataFrame:
        """Return `rater_scores` with all judges of a kind in one cell, to compare them with each other."""
        scores = self.raters
        return _numbered(scores.assign(judge="")) if (scores["judge"] != "").any() else scores

    @cached_property
    def items(self) -> pd.DataFrame:
        """Return `item_scores`, computed when first needed."""
        return item_scores(self.scores)


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its rows sorted, so that no sum depends on the order in which they came.

    The index keeps that order, which a sequential test needs if verdicts have no time.
    """
    codes = [_ranks(frame[name]) for name in _ORDER if name in frame.columns]
    return frame.iloc[np.lexsort(codes[::-1])]


def _ranks(column: pd.Series) -> NDArray[np.int64]:
    """Return the rank of each text among the different ones, −1 for a missing one."""
    return pd.factorize(column, sort=True)[0]


def rater_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rater and pair of an oriented table: `net` of its `showings`, in the keys' order.

    A verdict for method_a counts +1, for method_b −1, a tie 0. A rater who saw a pair more than once (a judge
    in both orders) has one score, net / showings: a verdict that flips with the order is a tie. `judge` is
    the rater if it is a judge, and empty for people. `unit` is the same in rows of one prompt, or of one pair
    if the prompt is not known, and `item` in rows of one item, in the order of the items' keys. `verdicts` is
    how many verdicts a score rests on.
    """
    for_a, for_b = (
        (frame["verdict"] == frame[method]).to_numpy(dtype=np.int64) for method in ("method_a", "method_b")
    )
    judged = with_units(frame)
    keys = [*ITEM, "rater"]
    index, first = _places(judged, keys)
    showings = np.bincount(index, minlength=len(first))
    net = np.bincount(index, weights=for_a - for_b, minlength=len(first)).astype(np.int64)
    scores = judged[[*keys, "unit"]].iloc[first].reset_index(drop=True)
    return _numbered(scores.assign(net=net, showings=showings, verdicts=showings))


def _places(table: pd.DataFrame, keys: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row's combination of keys, in their order, and its first row."""
    return _first_rows(table.groupby(keys, sort=True).ngroup().to_numpy())


def _first_rows(numbers: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rank of each number among the different ones, and the first row of each."""
    index, values = pd.factorize(numbers, sort=True)
    first = np.empty(len(values), dtype=np.int64)
    first[index[::-1]] = np.arange(len(numbers))[::-1]
    return index, first


def _numbered(scores: pd.DataFrame) -> pd.DataFrame:
    """Return scores with the number of their item, in the order of the items' keys."""
    return scores.assign(item=scores.groupby(ITEM, sort=True).ngroup().to_numpy())


def judge_of(frame: pd.DataFrame) -> pd.Series:
    """Return the judge of each row of a table by name; empty if people judged."""
    return frame["rater"].where(frame["rater_kind"].isin(PEOPLE_OF), "")


def with_units(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of verdicts with the columns `unit` and `judge`."""
    return frame.assign(unit=unit_codes(frame), judge=judge_of(frame))


def unit_codes(frame: pd.DataFrame) -> NDArray[np.int64]:
    """Return each row's unit: a number ≥ 0 for its prompt, one below 0 for a pair that names none."""
    ranks = _ranks(frame["pair_id"])
    pairs = ranks - int(ranks.max(initial=-1)) - 1
    if PROMPT not in frame.columns or not frame[PROMPT].notna().any():
        return pairs
    prompts = frame.groupby(["dataset", PROMPT], sort=True).ngroup().to_numpy()
    return np.where(prompts >= 0, prompts, pairs)


def by_cell(table: pd.DataFrame) -> Iterator[tuple[Cell, pd.DataFrame]]:
    """Yield each cell (`CELL`) and its rows: people first, then each judge, by methods and criterion."""
    cells = {Cell(*map(str, key)): rows for key, rows in table.groupby(CELL, sort=True)}
    for cell in sorted(cells, key=lambda cell: (KIND_PLACE[cell.rater_kind], cell.judge, cell)):
        yield cell, cells[cell]


@dataclass(frozen=True, kw_only=True, slots=True)
class Units:
    """The independent units of a set of items: prompts if they are known, else pairs.

    Attributes:
        name: `prompt` or `pair`.
        n: How many.
        codes: Each item's unit, from 0 in the order of their first items, [items].
    """

    name: Literal["prompt", "pair"]
    n: int
    codes: NDArray[np.int64]

    @property
    def clusters(self) -> NDArray[np.int64] | None:
        """Return `codes` if some unit has several items; None if the items themselves are units."""
        return self.codes if self.n < len(self.codes) else None


def units(table: pd.DataFrame) -> Units:
    """Return the units of a table with a column `unit`, such as `item_scores`."""
    codes = table["unit"].to_numpy()
    index, known = pd.factorize(codes)
    name: Literal["prompt", "pair"] = "prompt" if (codes >= 0).any() else "pair"
    return Units(name=name, n=len(known), codes=index.astype(np.int64))


def item_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per item of `rater_scores`, with its `raters` and its tie-split win `share`.

    The share is (1 + mean score) / 2, and every rater's score of the item weighs the same.
    """
    index, first = item_numbers(scores)
    raters = np.bincount(index, minlength=len(first))
    total = np.bincount(index, weights=scores["net"] / scores["showings"], minlength=len(first))
    mean = np.where(np.abs(total) < _ROUNDING, 0.0, total) / raters
    items = scores[[*ITEM, "unit"]].iloc[first].reset_index(drop=True)
    return items.assign(raters=raters, share=0.5 + mean / 2)


def item_numbers(scores: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's item, numbered in the order of the items' keys, and each item's first row."""
    return _first_rows(scores["item"].to_numpy())
