"""The results that the answer is about, tested in the way that was declared."""

from __future__ import annotations

from dataclasses import replace

from analysis.evidence import Evidence, honours
from analysis.sections.assisted import assisted
from analysis.sections.sequential import sequential
from analysis.sections.shares import WinShareRow, totals
from guard_eval.estimate import Estimate
from guard_eval.records import PEOPLE_OF


@honours(
    *("alpha", "correction", "weights", "sequential", "raters", "assisted_by", "panel", "composite"),
    unaffected=("margin",),
)
def answering(evidence: Evidence) -> list[WinShareRow]:
    """Return the rows over all datasets that the answer is about.

    If it was declared, a judge assists people, or tests and intervals stay valid at every look.
    """
    rows = evidence.rows(totals)
    if evidence.plan.sequential:
        early = {row.key: row for row in evidence.rows(sequential)}
        return [
            _tested(row, other.win_share, other.p, other.p_adjusted, other.method)
            if (other := early.get(row.key))
            else row
            for row in rows
        ]
    if evidence.plan.assisted_by is None:
        return rows
    assisting = {
        row.key._replace(rater_kind=PEOPLE_OF[row.rater_kind], judge=""): row
        for row in evidence.rows(assisted)
        if row.judge == evidence.plan.assisted_by and row.people_assisted.value is not None
    }
    return [
        _tested(row, other.people_assisted, other.p, other.p_adjusted, other.method)
        if (other := assisting.get(row.key))
        else row
        for row in rows
    ]


def _tested(
    row: WinShareRow, share: Estimate, p: float | None, p_adjusted: float | None, method: str
) -> WinShareRow:
    """Return a row with another share and test; how small its p can be is not known."""
    return replace(row, win_share=share, p=p, p_adjusted=p_adjusted, method=method, smallest_p=0.0)
