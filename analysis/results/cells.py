"""What results have in common: the cell they are of, its place in the plan, and counts of verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from analysis.verdicts.scores import Cell, Planned
from guard_eval.records import SIMULATED
from guard_eval.reporting.words import KIND_PLACE
from guard_eval.rubric import COMPOSITE


@dataclass(frozen=True, kw_only=True, slots=True)
class CellRow:
    """A result of one comparison on one criterion by people, or by one judge.

    Attributes:
        method_a: The method whose share is given.
        method_b: The other.
        criterion: The quality judged.
        rater_kind: Who judged; kinds are never pooled.
        judge: Which judge, or which declared panel of judges; empty for people, and where judges are compared
            with each other.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str
    judge: str = ""

    @property
    def who(self) -> tuple[str, str]:
        """Return whose verdicts these are: the kind, and the judge's name."""
        return (self.rater_kind, self.judge)

    @property
    def simulated(self) -> bool:
        """Return whether the raters are simulations."""
        return self.rater_kind in SIMULATED

    @property
    def cell(self) -> tuple[str, str, str]:
        """Return the comparison and criterion, as a plan names them."""
        return (self.method_a, self.method_b, self.criterion)


def cell_fields(cell: Cell) -> dict[str, Any]:
    """Return the fields of a cell (`by_cell`) for the constructor of its row."""
    return cell._asdict()


Place = tuple[int, str, int, str, str, bool, str]


def cell_order(planned: Planned | None) -> Callable[[CellRow], Place]:
    """Return a sort key of rows: by who judged, the planned cells first and in the plan's order."""
    place = {cell: number for number, cell in enumerate(planned or ())}

    def key(row: CellRow) -> Place:
        in_plan = place.get(row.cell, len(place))
        kind, criterion = KIND_PLACE[row.rater_kind], first_composite(row.criterion)
        return kind, row.judge, in_plan, row.method_a, row.method_b, *criterion

    return key


def first_composite(criterion: str) -> tuple[bool, str]:
    """Return a sort key of criteria that puts the composite before them."""
    return criterion != COMPOSITE, criterion


def families(rows: Iterable[tuple[int, CellRow]], planned: Planned | None) -> list[list[int]]:
    """Return the places of rows whose tests are corrected together: a list for people, one for each judge.

    Args:
        rows: Each row with its place.
        planned: The family declared beforehand; `None` takes every row.
    """
    of: dict[tuple[str, str], list[int]] = {}
    for place, row in rows:
        if planned is None or row.cell in planned:
            of.setdefault(row.who, []).append(place)
    return list(of.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictCounts:
    """Scores (rater × pair) for method_a, of one half, and for method_b."""

    wins: int
    ties: int
    losses: int

    @property
    def n(self) -> int:
        """Return how many scores are counted."""
        return self.wins + self.ties + self.losses

    @property
    def leader(self) -> int:
        """Return 1 where method_a has the larger share, −1 where method_b has, 0 where they are level."""
        return (self.wins > self.losses) - (self.wins < self.losses)

    def __add__(self, other: VerdictCounts) -> VerdictCounts:
        """Return both together."""
        return VerdictCounts(
            wins=self.wins + other.wins, ties=self.ties + other.ties, losses=self.losses + other.losses
        )


NO_VERDICTS = VerdictCounts(wins=0, ties=0, losses=0)
