"""What a pilot says for the planning of a study: how often raters tie, and how far they agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.analyses.agreement import RatingCounts, fleiss_kappa
from analysis.analyses.evidence import UnitScores
from analysis.verdicts.scores import ScoredVerdicts, by_cell, item_numbers
from guard_eval.errors import StudyError
from guard_eval.estimate import Estimate
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import one_line
from guard_eval.reporting.words import KIND_PLACE, title


@dataclass(frozen=True, kw_only=True, slots=True)
class PilotRow:
    """One comparison on one criterion by one kind of rater, in a pilot.

    The pilot's win share is left out on purpose: to plan for the difference that was seen is to plan for what
    chance made of it. Plan for the smallest that is worth finding.

    Attributes:
        method_a: A method.
        method_b: The other.
        criterion: The quality judged.
        items: Items.
        units: Prompts among them where they are known, else as many as items.
        raters: Raters.
        ties: Share of ties among the raters' scores of pairs.
        kappa: Fleiss' κ.
    """

    method_a: str
    method_b: str
    criterion: str
    items: int
    units: int
    raters: int
    ties: float
    kappa: Estimate

    @property
    def name(self) -> str:
        """Return what it is about, in words."""
        return one_line(f"{title(self.criterion)}, {self.method_a} against {self.method_b}")


def pilot_rows(verdicts: pd.DataFrame) -> tuple[PilotRow, ...]:
    """Return the rows of a validated table of verdicts: people's if there are any, else models'.

    Raises:
        StudyError: Only simulated raters have rated.
    """
    frame = verdicts[~verdicts["rater_kind"].isin(SIMULATED)]
    if frame.empty:
        raise StudyError("all raters of the pilot are simulated and say nothing of people or judges")
    kind = min(frame["rater_kind"].unique(), key=KIND_PLACE.__getitem__)
    scored = ScoredVerdicts.of(frame[frame["rater_kind"] == kind])
    rows = []
    for cell, scores in by_cell(scored.by_kind):
        item, first = item_numbers(scores)
        by_unit = UnitScores.of(scores.iloc[first])
        verdict = 1 - np.sign(scores["net"].to_numpy())
        counts = np.bincount(3 * item + verdict, minlength=3 * len(first)).reshape(-1, 3)
        rows.append(
            PilotRow(
                method_a=cell.method_a,
                method_b=cell.method_b,
                criterion=cell.criterion,
                items=len(first),
                units=by_unit.n,
                raters=scores["rater"].nunique(),
                ties=float((scores["net"] == 0).mean()),
                kappa=fleiss_kappa(RatingCounts.of(counts, by_unit.place)),
            )
        )
    return tuple(rows)


def most_demanding(rows: tuple[PilotRow, ...], *, agreement: float) -> PilotRow:
    """Return the row that takes the most items: the fewer ties and the more agreement, the more items.

    With several raters an item's mean varies as (1 − ties) × (1 + (raters − 1) × agreement) / raters; five
    raters are taken, and `agreement` where a row has none.
    """

    def variance(row: PilotRow) -> float:
        kappa = agreement if row.kappa.value is None else row.kappa.value
        return (1 - row.ties) * (1 + 4 * max(0.0, kappa))

    return max(rows, key=variance)
