"""What results have in common: the cell they are of, and counts of verdicts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class CellRow:
    """A result of one comparison on one criterion by one kind of rater.

    Attributes:
        method_a: The method whose share is given.
        method_b: The other.
        criterion: The quality judged.
        rater_kind: Who judged; kinds are never pooled.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str

    @property
    def simulated(self) -> bool:
        """Return whether the raters are simulations."""
        return self.rater_kind == "simulated"

    @property
    def cell(self) -> tuple[str, str, str]:
        """Return the comparison and criterion, as a plan names them."""
        return (self.method_a, self.method_b, self.criterion)


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
