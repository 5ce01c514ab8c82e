"""Equivalence: whether a win share lies within a declared margin of one half, beside whether it differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analysis.results.cells import CellRow, families
from analysis.results.shares import CORRECTIONS, Correction, ShareRow
from analysis.stats.correction import holm
from analysis.stats.equivalence import HALF, check_margin, error_beyond, tost
from analysis.stats.intervals import Interval, t_interval
from guard_eval.errors import StudyError

Conclusion = Literal["equivalent", "different", "different but negligible", "undecided"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EquivalenceRow(CellRow):
    """What one comparison on one criterion, over all datasets, says of a margin.

    Attributes:
        margin: The largest distance of the share from one half that does not matter.
        share: Win share of method_a with its interval at level 1 − 2α; of the same unit, and for the same
            raters, as in `share_rows`.
        p_value: Of the two one-sided t tests that the share is beyond the margin; `None` without an error.
        adjusted: The same corrected over the family; `None` outside it.
        correction: The correction's name.
        family: How many tests the family has; 0 outside it.
        alpha: The error rate.
        differs: Whether the report's own test finds a difference from one half.
        reason: Why there is no test, or empty.
    """

    margin: float
    share: Interval
    p_value: float | None = None
    adjusted: float | None = None
    correction: str = "Holm"
    family: int = 0
    alpha: float
    differs: bool
    reason: str = ""

    @property
    def equivalent(self) -> bool:
        """Return whether the share is shown to lie within the margin."""
        p = self.adjusted if self.family else self.p_value
        return p is not None and p <= self.alpha

    @property
    def conclusion(self) -> Conclusion:
        """Return both findings in words.

        A difference can be certain and too small to matter; and where neither is shown, nothing is.
        """
        if self.differs:
            return "different but negligible" if self.equivalent else "different"
        return "equivalent" if self.equivalent else "undecided"


def equivalence_rows(
    rows: Sequence[ShareRow], *, margin: float, alpha: float = 0.05, correction: Correction = "holm"
) -> tuple[EquivalenceRow, ...]:
    """Return, for every result over all datasets, whether its share lies within the margin of one half.

    Estimate, error and degrees of freedom are those of the share's own t interval, but that the error is no
    smaller than a share beyond the margin would have it (`error_beyond`). The p-values are corrected
    over the family of `share_rows`, as a family of their own: a share cannot both be one half and lie beyond
    the margin, so that of each result at most one of the two hypotheses is true.

    Args:
        rows: `share_rows` of a table.
        margin: The largest distance of a share from one half that does not matter.
        alpha: The error rate of `rows`.
        correction: That of `rows`; in place of max-T, which is of sign flips, Holm's is made.

    Raises:
        StudyError: The margin is none, or intervals and tests hold at all times and have no fixed error.
    """
    try:
        check_margin(margin)
    except ValueError as error:
        raise StudyError(f"{error}; give one such as 0.05") from error
    if not 0 < alpha < HALF:
        raise StudyError(f"equivalence needs an error rate below 0.5; {alpha:g} is not")
    totals = [row for row in rows if row.dataset is None]
    if any(row.anytime or row.assisted_by for row in totals):
        raise StudyError(
            "equivalence is tested for people or judges alone and a fixed number of items; leave the margin "
            "out, or sequential and assisted_by"
        )
    out = [_row(row, margin, alpha) for row in totals]
    inside = [(place, row) for place, row in enumerate(totals) if row.family]
    for places in families(inside, None):
        corrected = CORRECTIONS.get(correction, holm)([out[place].p_value for place in places])
        for place, value in zip(places, corrected.p_values, strict=True):
            out[place] = replace(out[place], adjusted=value, correction=corrected.method, family=corrected.n)
    return tuple(out)


def _row(row: ShareRow, margin: float, alpha: float) -> EquivalenceRow:
    whole = replace(row.share, low=None, high=None, level=1 - 2 * alpha)
    p = row.deciding
    found = EquivalenceRow(
        method_a=row.method_a,
        method_b=row.method_b,
        criterion=row.criterion,
        rater_kind=row.rater_kind,
        judge=row.judge,
        margin=margin,
        share=whole,
        alpha=alpha,
        differs=p is not None and p <= alpha,
    )
    if whole.estimate is None or whole.error is None or whole.freedom is None:
        why = "; ".join(row.share.warnings) or "the share has no standard error"
        return replace(found, reason=why)
    counts = row.wins, row.ties, row.losses
    error = float(error_beyond(whole.error, counts, row.units, margin=margin, sums=row.sums))
    return replace(
        found,
        share=t_interval(whole, error, whole.freedom, lowest=0.0, highest=1.0),
        p_value=float(tost(whole.estimate, error, whole.freedom, margin=margin)),
    )
