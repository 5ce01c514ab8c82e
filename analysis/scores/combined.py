"""Combine scores: a composite of several criteria, and a panel of several judges. Find declared results.

Criteria and judges are combined only if the tables `[composite]` and `[panel]` declare the rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from guard_eval.errors import StudyError
from guard_eval.estimate import Floats, Integers
from guard_eval.frozen import record
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import find_criterion_title, join_with_and
from guard_eval.rubric import COMPOSITE, Weights
from guard_eval.study.test_plan import PanelRule

PANEL_OF = "panel of"
"""The beginning of the name of each panel."""
FEWEST_JUDGES = 2
TOO_FEW_JUDGES = (
    "a panel needs two judges or more that have judged the pairs; remove the setting panel, or let another "
    "judge judge the pairs"
)
ROUNDING = 1e-12
"""A mean score with a smaller absolute value is a rounding error and counts as 0."""
_RATED = ["method_a", "method_b", "rater_kind", "judge", "dataset", "pair_id", "rater"]
"""The columns that identify one rater's scores of one pair. A composite combines these scores."""
_JUDGED = ["method_a", "method_b", "rater_kind", "criterion", "dataset", "pair_id"]
"""The columns that identify the scores of one pair on one criterion. A panel combines these scores."""


def describe_composite(weights: Weights) -> str:
    """Describe the composite, which is a weighted mean of criteria, in words."""
    if len({*weights.values()}) == 1:
        return f"the mean of {join_with_and([*map(find_criterion_title, weights)])}"
    weighed = [f"{find_criterion_title(name)} ({weight:g})" for name, weight in weights.items()]
    return f"the weighted mean of {join_with_and(weighed)}"


def check_composite_verdicts(weights: Weights, verdicts: pd.DataFrame) -> None:
    """Check that a validated table has verdicts for the composite of these criteria.

    Raises:
        StudyError: A criterion has the name of the composite, or no rater has judged a pair on all of the
            criteria.
    """
    criteria = sorted(map(str, verdicts["criterion"].unique()))
    if COMPOSITE in criteria:
        raise StudyError(
            f"a criterion of the table and the declared composite are both called {COMPOSITE!r}; give "
            "the criterion another name"
        )
    judged = verdicts[verdicts["criterion"].isin(weights)]
    rated = judged.groupby(["method_a", "method_b", "pair_id", "rater"], sort=False)["criterion"]
    if not rated.nunique().eq(len(weights)).any():
        raise StudyError(
            f"composite: no rater has judged a pair on all of {join_with_and(list(weights))}; leave "
            f"out some of these criteria, or choose from: {', '.join(criteria)}"
        )


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
        name = f"{PANEL_OF} {len(members)} judges, {rule}"
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


def add_composite_results(results: Sequence[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Add a result on the composite for each comparison in a family of results."""
    return (*dict.fromkeys((a, b, COMPOSITE) for a, b, _ in results), *results)


def find_declared_results(
    verdicts: pd.DataFrame, entries: Sequence[str] | None, composite: Weights | None
) -> tuple[tuple[str, str, str], ...] | None:
    """Return the declared family of results with composites, or None if no family was declared.

    Raises:
        StudyError: The table lacks the results of an entry, or the verdicts for the composite.
    """
    if composite is not None:
        check_composite_verdicts(composite, verdicts)
    named = None if entries is None else find_named_results(verdicts, entries)
    return named if named is None or composite is None else add_composite_results(named)


def find_named_results(
    verdicts: pd.DataFrame, result_names: Sequence[str]
) -> tuple[tuple[str, str, str], ...]:
    """Find the results that the entries name, without repeats: (method_a, method_b, criterion).

    Args:
        verdicts: A validated table.
        result_names: Each entry is a criterion, `A against B` or `A against B: CRITERION`.

    Raises:
        StudyError: The table lacks the results of an entry.
    """
    compared = verdicts[["criterion", "method_a", "method_b"]].drop_duplicates()
    named: dict[str, list[tuple[str, str, str]]] = {}
    for c, a, b in sorted(compared.astype(str).itertuples(index=False, name=None)):
        named.setdefault(c, []).append((a, b, c))
        for first, second in ((a, b), (b, a)):
            comparison = f"{first} against {second}"
            for words in (comparison, f"{comparison}: {c}"):
                named.setdefault(words, []).append((first, second, c))
    result: dict[tuple[str, str, str], None] = {}
    way_round: dict[frozenset[str], tuple[str, str]] = {}  # each comparison keeps its first order of methods
    for entry in result_names:
        if entry not in named:
            raise StudyError(
                f"the family contains {entry!r}, which the table does not compare; write CRITERION, METHOD "
                f"against METHOD or METHOD against METHOD: CRITERION, such as {next(reversed(named))}"
            )
        for a, b, c in named[entry]:
            first, second = way_round.setdefault(frozenset((a, b)), (a, b))
            result[first, second, c] = None
    return tuple(result)
