"""Would all raters of the same kind say what these raters say?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from analysis.evidence import Evidence
from analysis.sections.section import Csv, Section, name_result, table_section
from analysis.sections.sensitivity import RANDOM, SensitivityRow, sensitivity, share_cells
from analysis.sections.shares import coverage
from guard_eval.reporting.words import and_list, plural, share_limits, title

AS_A_SAMPLE = (
    "Here raters are a sample: how they differ is part of the error. More raters help more than more "
    "pairs do."
)
MAX_NAMED = 3
"""Results whose limits the answer gives."""


def section(evidence: Evidence) -> Section | None:
    """Ask whether other raters would say the same."""
    return table_section(
        [row for row in evidence.rows(sensitivity) if row.analysis == RANDOM],
        name_result,
        share_cells,
        csv="sensitivity",
        caption="For all raters of the same kind",
        anchor="other-raters",
        question="Would other raters say the same?",
        answer=partial(_answer, evidence),
        notes=(AS_A_SAMPLE,),
    )


def _answer(evidence: Evidence, rows: Sequence[SensitivityRow]) -> str:
    estimated = [row for row in rows if row.win_share.low is not None]
    if not estimated:
        return f"Unknown: {rows[0].note}"
    first = estimated[0].method_a
    is_single = len({row.methods for row in estimated}) == 1

    def name(row: SensitivityRow) -> str:
        against = "" if is_single else f" of {row.method_a} against {row.method_b}"
        return f"{title(row.criterion)}{against}"

    sure = [name(row) for row in estimated if row.is_significant(evidence.plan.alpha)]
    raters = max(row.raters for row in evidence.rows(coverage) if not row.judge)
    shares = [f"{name(row)} {share_limits(row.win_share, 0)}\u00a0%" for row in estimated[:MAX_NAMED]]
    lead = f"Yes on {and_list(sure[:MAX_NAMED])}" if sure else f"Unknown with {plural(raters, 'rater')}"
    return f"{lead}: {and_list(shares)}{f' for {first}' if is_single else ''}"


CSV: Csv = {}
