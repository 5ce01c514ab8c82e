"""A declared composite: one overall result across criteria, computed for each rater and pair.

Nothing puts criteria together unless it was declared how (`[composite]` in study.toml, or `--composite`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list, title
from guard_eval.rubric import COMPOSITE, check_weights

ROUNDING = 1e-12
"""A weighted mean below this one is 0."""
_RATED = ["method_a", "method_b", "rater_kind", "judge", "dataset", "pair_id", "rater"]
"""What a rater's scores of a pair on all criteria share."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Composite:
    """A weighted mean of criteria.

    A rater's composite of a pair is the weighted mean of that rater's scores of it, each from −1 to 1; where
    the rater did not judge one of the criteria there is none.

    Attributes:
        weights: The weight of each criterion, above 0, in any unit.
    """

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        try:
            check_weights(self.weights)
        except ValueError as error:
            raise StudyError(f"composite: {error}") from None

    def __str__(self) -> str:
        names = [title(name) for name in self.weights]
        if len(set(self.weights.values())) == 1:
            return f"the mean of {and_list(names)}"
        weighed = [f"{name} ({weight:g})" for name, weight in zip(names, self.weights.values(), strict=True)]
        return f"the weighted mean of {and_list(weighed)}"

    def check(self, verdicts: pd.DataFrame) -> None:
        """Refuse a composite that a validated table has no verdicts for.

        Raises:
            StudyError: A criterion has no verdict, one is called as the composite is, or no rater has judged
                a pair on all of the criteria.
        """
        known = sorted(map(str, verdicts["criterion"].unique()))
        if COMPOSITE in known:
            raise StudyError(
                f"a criterion of the table is called {COMPOSITE!r}, as the declared composite is; give the "
                "criterion another name"
            )
        if missing := [name for name in self.weights if name not in known]:
            raise StudyError(
                f"composite names {missing[0]!r}, on which there are no verdicts; name criteria of: "
                f"{', '.join(known)}"
            )
        judged = verdicts[verdicts["criterion"].isin(self.weights)]
        rated = judged.groupby(["method_a", "method_b", "pair_id", "rater"], sort=False)["criterion"]
        if rated.nunique().max() < len(self.weights):
            raise StudyError(
                f"composite: no rater has judged a pair on all of {and_list(list(self.weights))}, and a "
                "rater's composite needs all; leave some out"
            )


def with_composite(scores: pd.DataFrame, composite: Composite) -> pd.DataFrame:
    """Return `rater_scores` with the composite as one more criterion, if a rater judged all of its own.

    Its `net` is the weighted mean of the scores, of one showing.

    Args:
        scores: A row per rater, pair and criterion.
        composite: Criteria and weights.
    """
    group = scores[scores["criterion"].isin(composite.weights)]
    weight = group["criterion"].map(composite.weights) / math.fsum(composite.weights.values())
    parts = group.assign(net=weight * group["net"] / group["showings"], showings=1)
    rows = parts.groupby(_RATED, sort=True, as_index=False).agg(
        unit=("unit", "first"),
        net=("net", "sum"),
        showings=("showings", "first"),
        verdicts=("verdicts", "sum"),
        criteria=("criterion", "size"),
    )
    rows = rows[rows["criteria"] == len(composite.weights)].drop(columns="criteria")
    net = rows["net"].where(rows["net"].abs() > ROUNDING, 0.0)
    return pd.concat([scores, rows.assign(net=net, criterion=COMPOSITE)], ignore_index=True)
