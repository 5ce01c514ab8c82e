"""A declared composite: one overall result across criteria, computed for each rater and pair.

Nothing puts criteria together unless it was declared how (`[composite]` in study.toml, or `--composite`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from analysis.verdicts.encoding import combined, text_codes
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list, judged_by, plural, title
from guard_eval.rubric import COMPOSITE, check_weights

_FINEST = 2**30
"""Scores of many showings have no small common denominator: this grid is as good."""
_LARGEST = 2**20
"""Weights whose proportions take larger whole numbers are rounded, to a millionth of their sum."""
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

    @property
    def whole(self) -> dict[str, int]:
        """Return the weights as whole numbers of the same proportions."""
        exact = {name: Fraction(str(weight)) for name, weight in self.weights.items()}
        common = math.lcm(*(weight.denominator for weight in exact.values()))
        numbers = {name: int(weight * common) for name, weight in exact.items()}
        factor, total = math.gcd(*numbers.values()), sum(numbers.values())
        if total // factor <= _LARGEST:
            return {name: number // factor for name, number in numbers.items()}
        return {name: max(1, round(Fraction(number * _LARGEST, total))) for name, number in numbers.items()}

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
        keys = combined(
            *(text_codes(judged[name]).codes for name in ("method_a", "method_b", "pair_id", "rater"))
        )
        several = pd.DataFrame({"key": keys, "criterion": text_codes(judged["criterion"]).codes})
        if several.drop_duplicates()["key"].value_counts().max() < len(self.weights):
            raise StudyError(
                f"composite: no rater has judged a pair on all of {and_list(list(self.weights))}, and a "
                "rater's composite needs all; leave some out"
            )


def with_composite(scores: pd.DataFrame, composite: Composite) -> pd.DataFrame:
    """Return `rater_scores` with the composite as one more criterion, wherever a rater judged all of its own.

    Args:
        scores: A row per rater, pair and criterion.
        composite: Criteria and weights.
    """
    weights = composite.whole
    own = scores[scores["criterion"].isin(weights)]
    keys = combined(*(text_codes(own[name]).ranked().codes for name in _RATED))
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    size = len(first)
    complete = np.bincount(place, minlength=size) == len(weights)
    nets, showings = own["net"].to_numpy(), own["showings"].to_numpy()
    weight = own["criterion"].map(weights).to_numpy(dtype=np.int64)
    total = sum(weights.values())
    common = math.lcm(*np.unique(showings).tolist()) if size else 1
    if total * common <= _FINEST:
        parts = weight * nets * (common // showings)
    else:
        common = max(1, _FINEST // total)
        parts = np.round(weight * (nets / showings) * common).astype(np.int64)
    net, verdicts = np.zeros((2, size), dtype=np.int64)
    np.add.at(net, place, parts)
    np.add.at(verdicts, place, own["verdicts"].to_numpy())
    rows = own.iloc[first].reset_index(drop=True)
    item = combined(*(text_codes(rows[name]).ranked().codes for name in _RATED[:-1]))
    start = int(scores["item"].max()) + 1 if len(scores) else 0  # after the items of the criteria
    rows = rows.assign(
        criterion=COMPOSITE,
        net=net,
        showings=np.full(size, total * common),
        verdicts=verdicts,
        item=start + np.unique(item, return_inverse=True)[1],
    )
    whole: pd.DataFrame = rows[complete]
    return pd.concat([scores, whole], ignore_index=True)


def incomplete(scores: pd.DataFrame, composite: Composite) -> tuple[str, ...]:
    """Say, in a sentence each, who has no composite, and who lacks that of some pairs."""
    notes = []
    for (kind, judge), own in scores.groupby(["rater_kind", "judge"], sort=True):
        who = judged_by(str(kind), str(judge))
        judged = own.loc[own["criterion"].isin(composite.weights), "criterion"].value_counts()
        found = int((own["criterion"] == COMPOSITE).sum())
        missing = [title(name) for name in composite.weights if name not in judged.index]
        if missing:
            notes.append(f"There is no composite of {who}, who did not judge {and_list(missing)}.")
        elif found < judged.max():
            left = int(judged.max()) - found
            notes.append(
                f"Of {who}, {plural(left, 'rating')} of a pair on some of the criteria, and not on all, "
                f"{'takes' if left == 1 else 'take'} no part in it."
            )
    return tuple(notes)
