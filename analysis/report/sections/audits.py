"""What the audits found in the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.report.columns import full_table
from analysis.report.section import Section
from analysis.results.audits import Finding
from guard_eval.reporting.escaping import Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import title

NOTE = "In bold: warnings. Nothing was left out of the results because of an audit."

CLEAN = (
    "The audits found nothing: criteria that measure the same thing, unbalanced sides, repeated verdicts, "
    "uneven overlap, raters who never vary."
)

COLUMNS: dict[str, Callable[[Finding], Cell]] = {
    "severity": lambda row: row.severity,
    "kind": lambda row: row.kind,
    "where": lambda row: row.where,
    "what": lambda row: row.what,
}


def section(findings: Sequence[Finding], *, simulated: bool) -> Section:
    """Return what was found, or what was looked for."""
    if not findings:
        return Section(anchor="audits", title="Audits", paragraphs=(CLEAN,))
    columns: dict[str, Callable[[Finding], Cell]] = {"simulated": lambda _: simulated, **COLUMNS}
    return Section(
        anchor="audits",
        title="Audits",
        parts=(audit_table(tuple(findings)),),
        exports={"audits": full_table(columns, findings)},
    )


def audit_table(findings: tuple[Finding, ...]) -> Table:
    """Return what the audits found, warnings first."""
    return Table(
        columns=("Found", "Where", "What"),
        rows=tuple((title(one.kind), one.where, one.what) for one in findings),
        caption="What the audits found",
        note=NOTE,
        text_columns=3,
        strong=frozenset(number for number, one in enumerate(findings) if one.severity == "warning"),
    )
