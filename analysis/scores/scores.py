"""Compute scores from verdicts: one per rater and pair, then one per item.

Scores of several criteria form a composite, and those of several judges a panel, only if the tables
`[composite]` and `[panel]` declare the rule.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.verdicts.checks import unify_method_order
from guard_eval.errors import StudyError
from guard_eval.estimate import Floats, Integers, sum_columns_by_unit
from guard_eval.records import PEOPLE_OF, SIMULATED, Couple, record
from guard_eval.reporting.words import KIND_PLACE, find_criterion_title, join_with_and
from guard_eval.rubric import COMPOSITE, Weights
from guard_eval.study.test_plan import PanelRule


class ResultKey(NamedTuple):
    """The key of a result in every analysis: the values of `CELL`. `judge` is empty for people."""

    method_a: str
    method_b: str
    rater_kind: str
    judge: str
    criterion: str

    @property
    def of_people(self) -> "ResultKey":
        """Return the key of the people whom a judge's kind is compared with. People's keys have none."""
        return self._replace(rater_kind=PEOPLE_OF.get(self.rater_kind, ""), judge="")


CELL = [*ResultKey._fields]
"""The columns that identify a result: one comparison, one criterion, and people or one judge."""
ITEM = [*CELL, "dataset", "pair_id"]
"""The columns that identify an item: one pair in one result."""
PROMPT = "prompt_id"
"""An optional column: the id of the pair's prompt within its dataset."""

Planned = tuple[tuple[str, str, str], ...]
"""The results declared beforehand: (method_a, method_b, criterion)."""
PANEL_OF = "panel of"
"""The beginning of the name of each panel."""
FEWEST_JUDGES = 2
TOO_FEW_JUDGES = (
    "a panel needs two judges or more that have judged the pairs; remove the setting panel, or let another "
    "judge judge the pairs"
)
ROUNDING = 1e-12
"""A mean score with a smaller absolute value is a rounding error and counts as 0."""
_RATED = [*CELL[:4], "dataset", "pair_id", "rater"]
"""The columns that identify one rater's scores of one pair. A composite combines these scores."""
_JUDGED = ["method_a", "method_b", "rater_kind", "criterion", "dataset", "pair_id"]
"""The columns that identify the scores of one pair on one criterion. A panel combines these scores."""

_ORDER = ["pair_id", "method_a", "method_b", "criterion", "rater_kind", "rater", "presentation"]
"""The columns that together identify a verdict of a validated table."""


@record
class JudgePanel:
    """A panel of judges.

    Attributes:
        rater_kind: The kind of the judges.
        name: The name of the panel in the column of judges.
        members: The names of the judges.
        without: The number of pairs, counted on each criterion, that only some of the judges have judged.
    """

    rater_kind: str
    name: str
    members: tuple[str, ...]
    without: int

    def select_member_verdicts(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Select the verdicts of the panel's judges. The panel itself gives no verdicts."""
        return frame[frame["rater"].isin(self.members) & (frame["rater_kind"] == self.rater_kind)]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredVerdicts:
    """A table of verdicts with its scores. All analyses share this object and must not change it.

    Attributes:
        frame: The table. Both methods of a comparison are always in the same order.
        panel: The rule that combines all judges into one more judge; None if no panel was declared.
        composite: The weights of criteria whose mean is one more criterion; None if none was declared.
    """

    frame: pd.DataFrame
    panel: PanelRule | None = None
    composite: Weights | None = None

    @classmethod
    def from_verdicts(
        cls,
        verdicts: pd.DataFrame,
        planned: Planned | None = None,
        panel: PanelRule | None = None,
        composite: Weights | None = None,
    ) -> Self:
        """Score a validated table. `planned` decides the order of the methods in each comparison."""
        return cls(
            frame=sort_verdicts(unify_method_order(verdicts, planned)), panel=panel, composite=composite
        )

    def restrict_to_comparisons(self, comparisons: Collection[Couple]) -> Self:
        """Keep only the verdicts on these comparisons. Return `self` if there are no other comparisons."""
        groups = self.frame.groupby(["method_a", "method_b"], sort=False)
        is_included = np.array([pair in comparisons for pair in groups.groups])
        rows = is_included[groups.ngroup().to_numpy()]
        if rows.all():
            return self
        # If a judge of the panel is missing, there is no panel.
        judges = set(self.frame.loc[rows, "rater"])
        has_panel = rows.any() and all(set(panel.members) <= judges for panel in self.panels)
        return replace(self, frame=self.frame[rows], panel=self.panel if has_panel else None)

    @cached_property
    def rater_scores(self) -> pd.DataFrame:
        """Return one score per rater and pair (`score_raters`), without the panel."""
        return score_raters(self.frame)

    @cached_property
    def _scores_and_panels(self) -> tuple[pd.DataFrame, tuple[JudgePanel, ...]]:
        """Add the panel's scores. Return all scores and the panels."""
        if self.panel is None:
            return self.rater_scores, ()
        return add_panel_scores(self.rater_scores, self.panel)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Return one score per rater and pair, with the declared panel and the declared composite."""
        scores, _ = self._scores_and_panels
        if self.composite is not None:
            scores = add_composite_scores(scores, self.composite)
        return scores if scores is self.rater_scores else _add_item_numbers(scores)

    @property
    def panels(self) -> tuple[JudgePanel, ...]:
        """Return the declared panel, if any. Simulated judges form a second panel."""
        return self._scores_and_panels[1]

    @property
    def panel_names(self) -> list[str]:
        """Return the names of the panels, as in the column `judge`."""
        return [panel.name for panel in self.panels]

    @cached_property
    def scores_by_kind(self) -> pd.DataFrame:
        """Return raters' scores with all judges of one kind in one result, to compare the judges."""
        scores = self.rater_scores
        has_judges = (scores["judge"] != "").any()
        return _add_item_numbers(scores.assign(judge="")) if has_judges else scores

    @cached_property
    def items(self) -> pd.DataFrame:
        """Return one row per item (`score_items`), computed when first needed."""
        return score_items(self.scores)


def describe_composite(weights: Weights) -> str:
    """Describe the composite, which is a weighted mean of criteria, in words."""
    if len({*weights.values()}) == 1:
        return f"the mean of {join_with_and(map(find_criterion_title, weights))}"
    weighed = [f"{find_criterion_title(name)} ({weight:g})" for name, weight in weights.items()]
    return f"the weighted mean of {join_with_and(weighed)}"


def add_composite_scores(scores: pd.DataFrame, weights: Weights) -> pd.DataFrame:
    """Add the composite to raters' scores as a new criterion, for raters who judged all of the criteria.

    The composite is the weighted mean of one rater's scores of one pair, each from −1 to 1.

    Args:
        scores: One row per rater, pair and criterion.
        weights: The weight of each criterion, above 0, in any unit.
    """
    group = scores[scores["criterion"].isin(weights)]
    weight = group["criterion"].astype(object).map(weights).astype(float)
    rows = _sum_scores_by_group(
        group, _RATED, score=weight / math.fsum(weights.values()) * compute_mean_scores(group)
    )
    rows = rows[rows["size"] == len(weights)]
    return _append_score_rows(scores, rows, rows["score"], criterion=COMPOSITE)


def add_panel_scores(scores: pd.DataFrame, rule: PanelRule) -> tuple[pd.DataFrame, tuple[JudgePanel, ...]]:
    """Add the panel to raters' scores as a new judge. Simulated judges form a separate panel.

    The score of a judge on a pair is the mean of the verdicts in all orders and samples, from −1 to 1. The
    sign of the score is the judge's vote. If a verdict changes with the order, the vote is a tie. The panel
    scores only pairs that every judge has judged. A single simulated judge beside real judges is in no panel.

    Raises:
        StudyError: There are fewer than two judges, or a judge has the name of the panel.
    """
    formed: list[JudgePanel] = []
    table = scores
    for kind, group in scores[scores["rater_kind"].isin(PEOPLE_OF)].groupby("rater_kind", sort=True):
        members = sorted(map(str, group["rater"].unique()))
        votes = compute_mean_scores(group)
        name = f"{PANEL_OF} {len(members)} judges ({rule})"
        if len(members) < FEWEST_JUDGES:
            if kind in SIMULATED:
                continue  # one simulated judge beside real judges needs no panel
            raise StudyError(TOO_FEW_JUDGES)
        if name in members:
            raise StudyError(f"a judge and the panel are both called {name!r}; give the judge another name")
        rows = _sum_scores_by_group(
            group,
            _JUDGED,
            score=votes / len(members),
            for_b=votes < 0,
            tied=votes == 0,
            for_a=votes > 0,
        )
        is_whole = rows["size"] == len(members)
        rows = rows[is_whole]
        net = rows["score"]
        if rule == "majority":
            labels = find_majority_labels(rows[["for_b", "tied", "for_a"]].to_numpy())
            net = pd.Series(labels - 1, rows.index)
        table = _append_score_rows(table, rows, net, rater=name, judge=name)
        without = int((~is_whole).sum())
        formed.append(JudgePanel(rater_kind=str(kind), name=name, members=tuple(members), without=without))
    if not formed:
        raise StudyError(TOO_FEW_JUDGES)
    return table, tuple(formed)


def find_majority_labels(counts: Floats) -> Integers:
    """Return the most frequent label of each item, or a tie (1) if two are equal; `counts` is [items, 3]."""
    is_single = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) == 1
    return np.where(is_single, counts.argmax(axis=1), 1)


def compute_mean_scores(scores: pd.DataFrame) -> pd.Series:
    """Return the mean of each rater's verdicts on a pair over all showings, from −1 to 1."""
    return scores["net"] / scores["showings"]


def _sum_scores_by_group(scores: pd.DataFrame, keys: list[str], **parts: pd.Series) -> pd.DataFrame:
    """Return a row per group of scores: its unit, number of scores, and sums of verdicts and `parts`."""
    groups = scores.assign(size=1, **parts).groupby(keys, sort=True)
    sums = groups[["size", "verdicts", *parts]].sum()
    return sums.assign(unit=groups["unit"].first()).reset_index()


def _append_score_rows(
    scores: pd.DataFrame, rows: pd.DataFrame, net: pd.Series, **names: str
) -> pd.DataFrame:
    """Append the rows of a composite or a panel to raters' scores, with `net` as the score of each row."""
    new = rows.assign(net=net.where(net.abs() > ROUNDING, 0.0), showings=1, **names)
    columns = [name for name in scores.columns if name in new.columns]
    return pd.concat([scores, new[columns]], ignore_index=True)


def add_composite_results(results: Planned) -> Planned:
    """Add a result on the composite for each comparison in a family of results."""
    return (*dict.fromkeys((a, b, COMPOSITE) for a, b, _ in results), *results)


def sort_verdicts(frame: pd.DataFrame) -> pd.DataFrame:
    """Sort the rows, so that no sum depends on their original order.

    The index keeps the original order. A sequential test needs it if verdicts have no time.
    """
    codes = [pd.factorize(frame[name], sort=True)[0] for name in _ORDER if name in frame.columns]
    return frame.iloc[np.lexsort(codes[::-1])]


def score_raters(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rater and pair of an oriented table, sorted by the keys.

    A verdict for method_a counts +1, a verdict for method_b −1, and a tie 0. `net` is the sum of these
    numbers over the `showings` of the pair. A rater who saw a pair more than once, such as a judge in both
    orders, has one score, net / showings. A verdict that changes with the order is thus a tie. `judge` is the
    name of a judge, and empty for people. `unit` is the number of the prompt, or of the pair if the prompt is
    unknown. `item` is the number of the item, in the order of the items' keys. `verdicts` is the number of
    verdicts.
    """
    keys = [*ITEM, "rater"]
    judged = add_unit_column(frame)
    index, first = find_item_numbers(judged.assign(item=judged.groupby(keys, sort=True).ngroup()))
    showings = np.bincount(index)
    net = np.bincount(index, weights=convert_methods_to_signs(frame, "verdict")).astype(np.int64)
    scores = judged[[*keys, "unit"]].iloc[first].reset_index(drop=True)
    return _add_item_numbers(scores.assign(net=net, showings=showings, verdicts=showings))


def convert_methods_to_signs(frame: pd.DataFrame, column: str) -> Integers:
    """Return 1 for method_a, −1 for method_b and 0 for other values of a column."""
    is_a, is_b = ((frame[column] == frame[method]).to_numpy(dtype=np.int64) for method in CELL[:2])
    return is_a - is_b


def _add_item_numbers(scores: pd.DataFrame) -> pd.DataFrame:
    """Add the number of the item to each score. Items are numbered in the order of their keys."""
    return scores.assign(item=scores.groupby(ITEM, sort=True).ngroup())


def add_judge_column(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column `judge` to a table of verdicts: the name of a judge, and empty for people."""
    raters = frame["rater"].cat
    judges = raters.set_categories(["", *raters.categories])
    return frame.assign(judge=judges.where(frame["rater_kind"].isin(PEOPLE_OF), ""))


def add_unit_column(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `judge` and `unit` to a table of verdicts.

    A unit is a number ≥ 0 for a prompt, and a number < 0 for a pair without a prompt.
    """
    ranks = pd.factorize(frame["pair_id"], sort=True)[0]
    units = ranks - int(ranks.max(initial=-1)) - 1
    if PROMPT in frame.columns and frame[PROMPT].notna().any():
        prompts = frame.groupby(["dataset", PROMPT], sort=True).ngroup().to_numpy()
        units = np.where(prompts >= 0, prompts, units)
    return add_judge_column(frame).assign(unit=units)


def group_by_raters(table: pd.DataFrame, *columns: str) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """Yield the rows of each kind of raters and each combination of values in `columns`, people first."""
    groups = table.groupby(["rater_kind", *columns], sort=True)
    named = {tuple(map(str, key)): rows for key, rows in groups}
    for key in sorted(named, key=lambda key: (KIND_PLACE[key[0]], key)):
        yield key, named[key]


def group_by_result(table: pd.DataFrame) -> Iterator[tuple[ResultKey, pd.DataFrame]]:
    """Yield each result (`CELL`) with its rows. People come first, then judges, sorted by the columns."""
    for key, rows in group_by_raters(table, "judge", "method_a", "method_b", "criterion"):
        kind, judge, a, b, criterion = key
        yield ResultKey(a, b, kind, judge, criterion), rows


def pair_people_with_judges(scores: pd.DataFrame) -> Iterator[tuple[ResultKey, pd.DataFrame, pd.DataFrame]]:
    """Yield, for each judge's result that people also rated: its key, people's scores, the judge's scores."""
    if not (scores["judge"] != "").any():
        return
    cells = dict(group_by_result(scores))
    for key, judged in cells.items():
        people = cells.get(key.of_people)
        if people is not None:
            yield key, people, judged


def group_connected_methods(pairs: Iterable[Couple]) -> list[tuple[str, ...]]:
    """Return the groups of methods that are connected by comparisons. Each group is sorted.

    >>> group_connected_methods([("b", "a"), ("x", "y"), ("c", "b")])
    [('a', 'b', 'c'), ('x', 'y')]
    """
    group_of: dict[str, set[str]] = {}
    for a, b in pairs:
        joined = group_of.get(a, {a}) | group_of.get(b, {b})
        group_of |= dict.fromkeys(joined, joined)
    return sorted({tuple(sorted(group)) for group in group_of.values()})


def score_items(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per item of raters' scores, with the number of `raters` and the win `share`.

    The share is (1 + mean score) / 2, so a tie counts half. All raters of an item have the same weight.
    """
    index, first = find_item_numbers(scores)
    raters = np.bincount(index)
    total = np.bincount(index, weights=compute_mean_scores(scores))
    total = np.where(np.abs(total) < ROUNDING, 0.0, total)
    mean = total / raters
    items = scores[[*ITEM, "unit"]].iloc[first].reset_index(drop=True)
    return items.assign(raters=raters, share=0.5 + mean / 2)


def find_item_numbers(scores: pd.DataFrame) -> tuple[Integers, Integers]:
    """Return the item number of each row, in the order of the items' keys, and the first row of each item."""
    _, first, index = np.unique(scores["item"].to_numpy(), return_index=True, return_inverse=True)
    return index, first


def count_wins_ties_losses(scores: pd.DataFrame) -> tuple[int, int, int]:
    """Return the numbers of wins, ties and losses of method_a."""
    losses, ties, wins = np.bincount(convert_scores_to_labels(scores), minlength=3).tolist()
    return wins, ties, losses


def count_verdicts_by_item(scores: pd.DataFrame) -> Integers:
    """Count the raters of each item for method_a, for a tie, and for method_b, [items, 3]."""
    item, first = find_item_numbers(scores)
    counts = np.bincount(3 * item + 2 - convert_scores_to_labels(scores), minlength=3 * len(first))
    return counts.astype(np.int64).reshape(-1, 3)


def convert_scores_to_labels(scores: pd.DataFrame) -> Integers:
    """Return 0 for a score in favour of method_b, 1 for a tie and 2 for method_a."""
    return np.asarray(np.sign(scores["net"].to_numpy()) + 1, dtype=np.int64)


@record
class UnitScores:
    """The independent units of a result: prompts if they are known, otherwise pairs.

    Attributes:
        name: `prompt` or `pair`.
        codes: The number of each item's unit, [items]. Units are numbered in the order of their first items.
        strata: The number of each unit's dataset, [units]; all 0 if a dataset has only one unit.
    """

    name: Literal["prompt", "pair"]
    codes: Integers
    strata: Integers

    @classmethod
    def from_items(cls, items: pd.DataFrame) -> Self:
        """Create the units from a table of items, which must be sorted by item number."""
        codes, units = pd.factorize(items["unit"].to_numpy())
        strata = np.zeros(len(units), dtype=np.int64)
        strata[codes] = pd.factorize(items["dataset"], sort=True)[0]
        is_lonely = len(units) > 1 and np.bincount(strata).min() < 2
        has_prompts = (items["unit"] >= 0).any()
        return cls(
            name="prompt" if has_prompts else "pair",
            codes=codes,
            strata=np.zeros_like(strata) if is_lonely else strata,
        )

    @property
    def n(self) -> int:
        """Return the number of units."""
        return len(self.strata)

    def sum_columns(self, *columns: ArrayLike) -> Floats:
        """Sum columns of the items by unit, [units, columns]."""
        return sum_columns_by_unit(self.codes, *columns)
