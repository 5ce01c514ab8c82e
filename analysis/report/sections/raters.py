"""Raters one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.report.columns import full_table
from analysis.report.section import Section
from analysis.results.raters import RaterRow
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import RATERS, limits, number, percent

SHOWN = 40
"""Raters in the report's table; all of them are in raters.csv."""

NOTE = (
    "Others say the same: of all other raters of the same pairs and criteria, how many gave the same "
    "verdict; chance alone makes some of them. For the first: share of non-tied verdicts for the text shown "
    "first. Seconds: median. A rater apart from the rest is a reason to look, not to leave out."
)

COLUMNS: dict[str, Callable[[RaterRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "rater": lambda row: row.rater,
    "pairs": lambda row: row.pairs,
    "verdicts": lambda row: row.verdicts,
    "tie_rate": lambda row: row.ties,
    "agreement_with_others": lambda row: row.agreement,
    "compared": lambda row: row.compared,
    "share_first": lambda row: None if row.first is None else row.first.estimate,
    "first_low": lambda row: None if row.first is None else row.first.low,
    "first_high": lambda row: None if row.first is None else row.first.high,
    "median_seconds": lambda row: row.seconds,
}


def section(rows: Sequence[RaterRow]) -> Section:
    """Return a row for each rater."""
    return Section(
        anchor="raters",
        title="Raters",
        parts=(rater_table(tuple(rows)),),
        exports={"raters": full_table(COLUMNS, rows)},
    )


def rater_table(rows: tuple[RaterRow, ...]) -> Table:
    """Return one row for each rater, up to `SHOWN` of them."""
    shown = rows[:SHOWN]
    left_out = f" {len(rows) - len(shown)} more stand in raters.csv." if len(rows) > len(shown) else ""
    return Table(
        columns=(
            "Rater",
            "Judged by",
            "Pairs",
            "Verdicts",
            "Ties",
            "Others say the same",
            "For the first",
            "Seconds",
        ),
        rows=tuple(
            (
                row.rater,
                RATERS[row.rater_kind],
                row.pairs,
                row.verdicts,
                percent(row.ties),
                percent(row.agreement),
                NOTHING if row.first is None else f"{percent(row.first.estimate)} ({limits(row.first)})",
                NOTHING if row.seconds is None else number(row.seconds, 1),
            )
            for row in shown
        ),
        caption="Raters one by one",
        note=NOTE + left_out,
        text_columns=2,
    )
