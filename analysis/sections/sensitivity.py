"""The same verdicts, analysed in other ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.columns import full_table
from analysis.render import Table
from analysis.section import Section
from analysis.sensitivity import DEFAULT, SensitivityRow
from analysis.words import RATERS, p_value, percent, title
from guard_eval.escaping import Cell

NOTE = (
    "Each comparison over all datasets, analysed in other ways. None is corrected for the number of tests: "
    "the table shows whether a conclusion hangs on the choice of analysis, and is no second set of "
    "conclusions. Pooling takes ratings of a pair for independent, which they are not."
)

COLUMNS: dict[str, Callable[[SensitivityRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
    "analysis": lambda row: row.analysis,
    "win_share": lambda row: row.share,
    "p": lambda row: row.test.p_value,
    "statistic": lambda row: row.test.statistic,
    "n": lambda row: row.test.n,
    "test": lambda row: row.test.method,
    "note": lambda row: row.note,
    "warnings": lambda row: "; ".join(row.test.warnings),
}


def section(rows: Sequence[SensitivityRow], *, name_methods: bool) -> Section:
    """Return whether the conclusions survive other analyses."""
    return Section(
        anchor="sensitivity",
        title="Sensitivity",
        parts=(sensitivity_table(tuple(rows), name_methods=name_methods),),
        exports={"sensitivity": full_table(COLUMNS, rows)},
    )


def sensitivity_table(rows: tuple[SensitivityRow, ...], *, name_methods: bool = True) -> Table:
    """Return each comparison in each way, the default in bold."""
    names = (*(("Comparison",) if name_methods else ()), "Criterion", "Judged by", "Analysis", "Remark")
    cells = []
    for row in rows:
        methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
        left = (*methods, title(row.criterion), RATERS[row.rater_kind], row.analysis, row.note)
        cells.append((*left, percent(row.share), p_value(row.test.p_value), row.test.n))
    return Table(
        columns=(*names, "Win share", "p", "n"),
        rows=tuple(cells),
        caption="The same verdicts, analysed in other ways",
        note=NOTE,
        text_columns=len(names),
        strong=frozenset(number for number, row in enumerate(rows) if row.analysis == DEFAULT),
    )
