"""What a pilot says for the planning of a study: how often raters tie, and how far they agree."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.results.agreement import agreement_rows
from analysis.results.cells import CellRow
from analysis.stats.agreement import Coefficient
from analysis.verdicts.scores import ScoredVerdicts, by_cell
from guard_eval.errors import StudyError
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import one_line
from guard_eval.reporting.words import KIND_PLACE, title


@dataclass(frozen=True, kw_only=True, slots=True)
class PilotRow(CellRow):
    """One comparison on one criterion by one kind of rater, in a pilot.

    The pilot's win share is left out on purpose: to plan for the difference that was seen is to plan for what
    chance made of it. Plan for the smallest that is worth finding.

    Attributes:
        items: Items.
        units: Prompts among them where they are known, else as many as items.
        raters: Raters.
        ties: Share of ties among the raters' scores of pairs.
        kappa: Fleiss' κ.
    """

    items: int
    units: int
    raters: int
    ties: float
    kappa: Coefficient

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
    ties = {cell: float((scores["net"] == 0).mean()) for cell, scores in by_cell(scored.by_kind)}
    return tuple(
        PilotRow(
            method_a=row.method_a,
            method_b=row.method_b,
            criterion=row.criterion,
            rater_kind=row.rater_kind,
            items=row.items,
            units=row.units,
            raters=len(row.raters),
            ties=share,
            kappa=row.agreement,
        )
        for row, share in zip(agreement_rows(scored), ties.values(), strict=True)
    )


def most_demanding(rows: tuple[PilotRow, ...], *, agreement: float) -> PilotRow:
    """Return the row that takes the most items: the fewer ties and the more agreement, the more items.

    With several raters an item's mean varies as (1 − ties) × (1 + (raters − 1) × agreement) / raters; five
    raters are taken, and `agreement` where a row has none.
    """

    def variance(row: PilotRow) -> float:
        kappa = agreement if row.kappa.value is None else row.kappa.value
        return (1 - row.ties) * (1 + 4 * max(0.0, kappa))

    return max(rows, key=variance)
