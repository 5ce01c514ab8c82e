"""The same verdicts, analysed in other ways: whether the conclusions survive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from analysis.report.columns import CELL_COLUMNS, full_table, left_cells, left_names
from analysis.report.section import Section
from analysis.results.sensitivity import DEFAULT, SensitivityRow
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import limits, p_of, p_value, percent, why_none

NOTE = (
    "Each comparison over all datasets, analysed in other ways. None is corrected for the number of tests: "
    "the table shows whether a conclusion hangs on the choice of analysis, and is no second set of "
    "conclusions. Pooling takes ratings of a pair for independent, which they are not. GEE: models of single "
    "ratings with items (prompts, where known) as clusters and, "
    "where the data allow, a term for each rater, so that the share is "
    "that of this panel of raters; their errors are those of large samples of items."
)
SURVIVAL_NOTE = (
    "Below: analyses other than the default with p below {alpha}, of those that have a test. Their p-values "
    "are not corrected; the default's is not either, here. Other side: analyses whose share is for the other "
    "method than the default's."
)

COLUMNS: dict[str, Callable[[SensitivityRow], Cell]] = {
    **CELL_COLUMNS,
    "analysis": lambda row: row.analysis,
    "win_share": lambda row: row.share,
    "low": lambda row: None if row.interval is None else row.interval.low,
    "high": lambda row: None if row.interval is None else row.interval.high,
    "level": lambda row: None if row.interval is None else row.interval.level,
    "interval": lambda row: None if row.interval is None else row.interval.method,
    "clopper_pearson_low": lambda row: None if row.exact is None else row.exact.low,
    "clopper_pearson_high": lambda row: None if row.exact is None else row.exact.high,
    "p": lambda row: row.test.p_value,
    "statistic": lambda row: row.test.statistic,
    "n": lambda row: row.test.n,
    "test": lambda row: row.test.method,
    "note": lambda row: row.note,
    "warnings": lambda row: "; ".join(row.test.warnings),
}


def section(rows: Sequence[SensitivityRow], *, name_methods: bool, alpha: float = 0.05) -> Section:
    """Return whether the conclusions survive other analyses."""
    return Section(
        anchor="sensitivity",
        title="Sensitivity",
        parts=(
            survival_table(tuple(rows), name_methods=name_methods, alpha=alpha),
            sensitivity_table(tuple(rows), name_methods=name_methods),
        ),
        exports={"sensitivity": full_table(COLUMNS, rows)},
    )


def survival_table(
    rows: tuple[SensitivityRow, ...], *, name_methods: bool = True, alpha: float = 0.05
) -> Table:
    """Return, for each comparison and criterion, the default beside the spread of all other analyses."""
    names = (*left_names(name_methods=name_methods), "Where p is largest")
    cells: list[tuple[Cell, ...]] = []
    for _, group in groupby(rows, key=_cell):
        members = tuple(group)
        first = members[0]
        others = [row for row in members if row.analysis != DEFAULT]
        tested = [(row.test.p_value, row) for row in others if row.test.p_value is not None]
        worst = max(tested, key=lambda one: one[0])[1].analysis if tested else NOTHING
        below = sum(p < alpha for p, _ in tested)
        own = next(row for row in members if row.analysis == DEFAULT)
        crossing = sum(_crosses(own, row) for row in others)
        cells.append(
            (
                *left_cells(first, name_methods=name_methods),
                worst,
                percent(own.share),
                p_of(own.test),
                f"{below} of {len(tested)}",
                p_value(max((p for p, _ in tested), default=None)),
                crossing,
            )
        )
    return Table(
        columns=(*names, "Win share", "p by item (default)", "Below", "Largest p", "Other side"),
        rows=tuple(cells),
        caption="Does the conclusion survive other analyses?",
        note=SURVIVAL_NOTE.format(alpha=f"{alpha:g}"),
        text_columns=len(names),
    )


def sensitivity_table(rows: tuple[SensitivityRow, ...], *, name_methods: bool = True) -> Table:
    """Return each comparison in each way, the default in bold."""
    names = (*left_names(name_methods=name_methods), "Analysis", "Remark")
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        left = (*left_cells(row, name_methods=name_methods), row.analysis, row.note)
        interval = NOTHING if row.interval is None else limits(row.interval)
        cells.append((*left, percent(row.share), interval, p_of(row.test), row.test.n))
    level = next((row.interval.level for row in rows if row.interval is not None), 0.95)
    return Table(
        columns=(*names, "Win share", f"{percent(level, 0)} interval", "p", "n"),
        rows=tuple(cells),
        caption="The same verdicts, analysed in other ways",
        note=NOTE + why_none(row.test for row in rows),
        text_columns=len(names),
        strong=frozenset(number for number, row in enumerate(rows) if row.analysis == DEFAULT),
    )


def _crosses(default: SensitivityRow, row: SensitivityRow) -> bool:
    """Return whether an analysis puts the other method ahead; half-way is nobody's side."""
    if default.share is None or row.share is None:
        return False
    return (default.share - 0.5) * (row.share - 0.5) < -1e-12


def _cell(row: SensitivityRow) -> tuple[str, str, str, str]:
    return (row.rater_kind, row.method_a, row.method_b, row.criterion)
