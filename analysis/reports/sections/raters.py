"""Raters one by one."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.reports.section import Section
from analysis.results.raters import RaterRow
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Columns, table_of
from guard_eval.reporting.words import RATERS, limits, number, percent

SHOWN = 40
"""Raters in the report's table; all of them are in raters.csv."""

NOTE = (
    "Others say the same: of all other raters of the same pairs and criteria, how many gave the same "
    "verdict; chance alone makes some of them. For the first: share of non-tied verdicts for the text "
    "shown first, with an interval over the unit named under Methods. Seconds: median. A rater apart from"
    " the rest is a reason to look, not to leave out."
)

COLUMNS: Columns[RaterRow] = {
    "simulated": lambda row: row.rater_kind in SIMULATED,
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
    """Return a row for each rater, up to `SHOWN` of them."""
    left_out = f" {len(rows) - SHOWN} more stand in raters.csv." if len(rows) > SHOWN else ""
    table = table_of(
        rows[:SHOWN],
        {
            "Rater": lambda row: row.rater,
            "Judged by": lambda row: RATERS[row.rater_kind],
            "Pairs": lambda row: row.pairs,
            "Verdicts": lambda row: row.verdicts,
            "Ties": lambda row: percent(row.ties),
            "Others say the same": lambda row: percent(row.agreement),
            "For the first": _first,
            "Seconds": lambda row: number(row.seconds, 1),
        },
        caption="Raters one by one",
        note=NOTE + left_out,
        text_columns=2,
    )
    return Section(
        anchor="raters",
        title="Raters",
        folded=True,
        parts=(table,),
        exports={"raters": table_of(rows, COLUMNS)},
    )


def _first(row: RaterRow) -> str:
    return NOTHING if row.first is None else f"{percent(row.first.estimate)} ({limits(row.first)})"
