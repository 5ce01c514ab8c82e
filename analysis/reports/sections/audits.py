"""What the audits found in the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.reports.section import Section
from analysis.results.audits import Finding
from guard_eval.reporting.tables import table_of

SHOWN = 8
"""Findings of one kind in the page's table."""
NOTE = "In bold: warnings. Nothing was left out of the results because of an audit."

CLEAN = (
    "The audits found nothing: criteria that measure the same thing, unbalanced sides, repeated verdicts, "
    "uneven overlap, raters who never vary."
)


def section(findings: Sequence[Finding], *, simulated: bool) -> Section:
    """Return what was found, warnings first, or what was searched for."""
    if not findings:
        return Section(anchor="audits", title="Audits", paragraphs=(CLEAN,), folded=True)
    of_kind = Counter[str]()
    shown = []
    for one in findings:
        of_kind[one.kind] += 1
        if of_kind[one.kind] <= SHOWN:
            shown.append(one)
    more = len(findings) - len(shown)
    rest = f" {more} more, of the same kinds, are in audits.csv." if more else ""
    table = table_of(
        shown,
        {
            "Found": lambda one: one.kind,
            "Where": lambda one: one.where,
            "What": lambda one: one.what,
        },
        caption="What the audits found",
        note=NOTE + rest,
        text_columns=3,
        strong=lambda one: one.severity == "warning",
    )
    export = table_of(
        findings,
        {
            "simulated": lambda _: simulated,
            "severity": lambda one: one.severity,
            "kind": lambda one: one.kind,
            "where": lambda one: one.where,
            "what": lambda one: one.what,
        },
    )
    folded = all(one.severity != "warning" for one in findings)
    return Section(anchor="audits", title="Audits", parts=(table,), folded=folded, exports={"audits": export})
