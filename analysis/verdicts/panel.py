"""A declared panel: several judges as one, whose score of a pair follows from theirs by a rule.

Judges are one row each; nothing pools them unless a study declares that it will (`[panel]` in study.toml).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE_OF

PanelRule = Literal["majority", "mean"]
PANEL_OF = "panel of"
"""A panel's name begins so."""
FEWEST = 2
"""Judges of a panel."""
_ITEM = ["method_a", "method_b", "rater_kind", "criterion", "dataset", "pair_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgePanel:
    """Judges who count as one.

    Each member first has one score of a pair, from −1 to 1: the mean of its verdicts in all orders and
    samples. The panel has a score of the pairs that every member has judged.

    Attributes:
        rule: `majority`: each member votes with the sign of its score, so that a verdict that flips with the
            order is a vote for a tie; the panel says what more members say than anything else, and ties where
            two say are level. `mean`: the mean of the members' scores.
        members: The judges by name; `None` for all who judged.
    """

    rule: PanelRule
    members: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.rule not in get_args(PanelRule):
            known = ", ".join(get_args(PanelRule))
            raise StudyError(f"the panel's rule {self.rule!r} is unknown; write one of: {known}")
        if self.members is not None and len(set(self.members)) < max(FEWEST, len(self.members)):
            raise StudyError(
                f"the panel's members are {', '.join(self.members) or 'none'}; name two judges or more, each "
                "once"
            )

    def name_of(self, members: int) -> str:
        """Return the panel's name as a rater, which says that it is one and by which rule."""
        return f"{PANEL_OF} {members} judges, {self.rule}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FormedPanel:
    """A panel as it has judged.

    Attributes:
        rater_kind: The kind of its judges.
        name: Its name as a judge.
        rule: Its rule.
        members: Its judges.
        without: Pairs, counted on each criterion, that some members judged and others did not.
    """

    rater_kind: str
    name: str
    rule: PanelRule
    members: tuple[str, ...]
    without: int

    def verdicts(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return its members' verdicts, which are no verdicts of the panel."""
        return frame[frame["rater"].isin(self.members) & (frame["rater_kind"] == self.rater_kind)]


def with_panel(scores: pd.DataFrame, panel: JudgePanel) -> tuple[pd.DataFrame, tuple[FormedPanel, ...]]:
    """Return `rater_scores` with the panel as one more judge, simulated judges forming one of their own.

    Args:
        scores: A row per rater and pair.
        panel: Who is in it, and by which rule.

    Raises:
        StudyError: A member has judged nothing, or there are fewer than two.
    """
    machines = scores[scores["rater_kind"].isin(PEOPLE_OF)]
    result: list[pd.DataFrame] = []
    formed: list[FormedPanel] = []
    for kind, group in machines.groupby("rater_kind", sort=True):
        judges = sorted(group["rater"].unique())
        members = judges if panel.members is None else [name for name in panel.members if name in judges]
        if panel.members is not None and not members:
            continue
        if missing := [name for name in panel.members or () if name not in members]:
            raise StudyError(
                f"the panel names {', '.join(missing)}, who judged nothing; the judges are: "
                f"{', '.join(judges)}"
            )
        if len(members) < FEWEST:
            raise StudyError(
                f"a panel takes two judges or more, and {', '.join(members)} alone has judged; leave the "
                "panel out, or let another judge judge the pairs"
            )
        name = panel.name_of(len(members))
        if name in judges:
            raise StudyError(f"a judge is called {name!r}, as the panel is; give the judge another name")
        rows, without = _panel_rows(group[group["rater"].isin(members)], panel.rule, len(members), name)
        result.append(rows)
        formed.append(
            FormedPanel(
                rater_kind=str(kind), name=name, rule=panel.rule, members=tuple(members), without=without
            )
        )
    if not result:
        raise StudyError("a panel is of judges, and no judge has judged; leave the panel out")
    return pd.concat([scores, *result], ignore_index=True), tuple(formed)


def _panel_rows(scores: pd.DataFrame, rule: PanelRule, members: int, name: str) -> tuple[pd.DataFrame, int]:
    """Return the panel's row for each pair and criterion that all members judged, and how many others are."""
    mean = scores["net"] / scores["showings"]
    votes = {"for_b": mean < 0, "tied": mean == 0, "for_a": mean > 0}
    rows = (
        scores.assign(net=mean, **votes)
        .groupby(_ITEM, sort=True, as_index=False)
        .agg(
            unit=("unit", "first"),
            net=("net", "mean"),
            verdicts=("verdicts", "sum"),
            members=("rater", "size"),
            **{vote: (vote, "sum") for vote in votes},
        )
    )
    if rule == "majority":
        counts = rows[list(votes)].to_numpy()
        decided = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) == 1
        rows["net"] = np.where(decided, counts.argmax(axis=1) - 1, 0)
    else:
        rows["net"] = rows["net"].where(rows["net"].abs() > 1e-12, 0.0)
    complete = rows["members"] == members
    kept = rows[complete].drop(columns=["members", *votes])
    return kept.assign(rater=name, judge=name, showings=1), int((~complete).sum())
