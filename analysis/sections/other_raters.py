"""Would all raters of the same kind say what these raters say?"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.evidence import Evidence
from analysis.sections.section import Csv, Section, name_result, row_table, share_limits
from analysis.sections.sensitivity import RANDOM, SensitivityRow, sensitivity, share_cells
from analysis.sections.shares import coverage
from guard_eval.reporting.words import and_list, plural, title

AS_A_SAMPLE = (
    "Here raters are a sample: how they differ is part of the error. More raters help more than more "
    "pairs do."
)
MAX_NAMED = 3
"""Results whose limits the answer gives."""


def section(evidence: Evidence) -> Section | None:
    """Ask whether other raters would say the same."""
    rows = [row for row in evidence.rows(sensitivity) if row.analysis == RANDOM]
    if not rows:
        return None
    table = row_table(
        rows, name_result, share_cells, csv="sensitivity", caption="For all raters of the same kind"
    )
    return Section(
        anchor="other-raters",
        question="Would other raters say the same?",
        answer=_answer(evidence, rows),
        notes=(AS_A_SAMPLE,),
        tables=table,
    )


def _answer(evidence: Evidence, rows: Sequence[SensitivityRow]) -> str:
    known = [row for row in rows if row.win_share.low is not None]
    if not known:
        return f"Unknown: {rows[0].note}"
    is_single = len({row.methods for row in known}) == 1

    def name(row: SensitivityRow) -> str:
        against = "" if is_single else f" of {row.method_a} against {row.method_b}"
        return f"{title(row.criterion)}{against}"

    sure = [name(row) for row in known if row.is_significant(evidence.plan.alpha)]
    raters = max(row.raters for row in evidence.rows(coverage) if not row.judge)
    parts = [f"{name(row)} {share_limits(row.win_share, 0)}\u00a0%" for row in known[:MAX_NAMED]]
    lead = f"Yes on {and_list(sure[:MAX_NAMED])}" if sure else f"Unknown with {plural(raters, 'rater')}"
    whose = f" for {known[0].method_a}" if is_single else ""
    return f"{lead}: {and_list(parts)}{whose}"


CSV: Csv = {}
