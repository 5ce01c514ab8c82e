"""The same verdicts, analysed in other ways: whether the conclusions survive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.reports.columns import CELL_COLUMNS, cell_table, interval_name
from analysis.reports.section import Section
from analysis.results.sensitivity import SensitivityRow
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import limits, p_of, p_value, percent, rate, why_none

NOTE = (
    "Each comparison over all datasets, analysed in other ways. None is corrected for the number of tests: "
    "the table shows whether a conclusion hangs on the choice of analysis, and is no second set of "
    "conclusions. Item means with a sign-flip test are about other pairs judged by these raters; items and "
    "raters as samples are also about other raters like these. Pooling takes ratings of a pair for "
    "independent, which they are not. GEE: models of single ratings with the unit of the tests as "
    "clusters and, where the data allow, a term for each rater, so that the share is that of this panel of "
    "raters; their errors are those of large samples of items."
)
SURVIVAL_NOTE = (
    "Below: analyses other than the default with p below {alpha}, of those that have a test. Their p-values "
    "are not corrected; the default's is not either, here. Other side: analyses whose share is for the other "
    "method than the default's."
)

COLUMNS: Columns[SensitivityRow] = {
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


def section(rows: Sequence[SensitivityRow], *, name_methods: bool, alpha: float = 0.05) -> Section | None:
    """Return whether the conclusions survive other analyses; None where no comparison is shown in full."""
    if not rows:
        return None
    level = next((row.interval.level for row in rows if row.interval is not None), 0.95)
    every = cell_table(
        rows,
        {
            "Analysis": lambda row: row.analysis,
            "Remark": lambda row: row.note,
            "Win share": lambda row: percent(row.share),
            interval_name(level): lambda row: limits(row.interval),
            "p": lambda row: p_of(row.test),
            "n": lambda row: row.test.n,
        },
        name_methods=name_methods,
        caption="The same verdicts, analysed in other ways",
        note=NOTE + why_none(row.test for row in rows),
        words=2,
        strong=lambda row: row.default,
    )
    every = replace(
        every, folded=True, instead="The table is in csv/sensitivity.csv." if len(rows) > 200 else ""
    )
    return Section(
        anchor="sensitivity",
        title="Sensitivity",
        folded=name_methods,
        parts=(survival_table(rows, name_methods=name_methods, alpha=alpha), every),
        exports={"sensitivity": table_of(rows, COLUMNS)},
    )


def survival_table(rows: Sequence[SensitivityRow], *, name_methods: bool, alpha: float = 0.05) -> Table:
    """Return, for each comparison and criterion, the default beside the spread of all other analyses."""

    def others(default: SensitivityRow) -> list[SensitivityRow]:
        return [row for row in rows if not row.default and (row.who, row.cell) == (default.who, default.cell)]

    def tested(default: SensitivityRow) -> list[tuple[float, str]]:
        return [(row.test.p_value, row.analysis) for row in others(default) if row.test.p_value is not None]

    def worst(default: SensitivityRow) -> tuple[float | None, str]:
        return max(tested(default), key=lambda one: one[0], default=(None, NOTHING))

    def below(default: SensitivityRow) -> str:
        found = tested(default)
        return f"{sum(p < alpha for p, _ in found)} of {len(found)}"

    return cell_table(
        [row for row in rows if row.default],
        {
            "Where p is largest": lambda row: worst(row)[1],
            "Win share": lambda row: percent(row.share),
            "p (default)": lambda row: p_of(row.test),
            "Below": below,
            "Largest p": lambda row: p_value(worst(row)[0]),
            "Other side": lambda row: sum(_crosses(row, other) for other in others(row)),
        },
        name_methods=name_methods,
        caption="Does the conclusion survive other analyses?",
        note=SURVIVAL_NOTE.format(alpha=rate(alpha)),
        words=1,
    )


def _crosses(default: SensitivityRow, row: SensitivityRow) -> bool:
    """Return whether an analysis puts the other method ahead; half-way is neither side."""
    if default.share is None or row.share is None:
        return False
    return (default.share - 0.5) * (row.share - 0.5) < -1e-12
