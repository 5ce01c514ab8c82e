"""Preference for the text shown first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.bias import PositionRow
from analysis.columns import full_table
from analysis.render import Table
from analysis.section import Section
from analysis.words import RATERS, limits, percent, title
from guard_eval.escaping import NOTHING, Cell

NOTE = (
    "Of non-tied verdicts; 50 % is no preference. Wilson's interval takes verdicts as independent. Same "
    "method first: how often the comparison's first method had the first place; away from 50 % place and "
    "method mix."
)

COLUMNS: dict[str, Callable[[PositionRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "criterion": lambda row: row.criterion,
    "for_first": lambda row: row.first,
    "for_second": lambda row: row.second,
    "ties": lambda row: row.ties,
    "share_first": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.share.level,
    "interval": lambda row: row.share.method,
    "same_method_first": lambda row: row.a_first,
    "pairs_in_both_orders": lambda row: row.both_orders,
    "flipped": lambda row: row.flipped,
    "warnings": lambda row: "; ".join((*row.warnings, *row.share.warnings)),
}


def section(rows: Sequence[PositionRow]) -> Section:
    """Return the preference for a place, or that nobody knows what stood where."""
    if not rows:
        unknown = "The verdicts do not say which text was shown first."
        return Section(anchor="position", title="Position", paragraphs=(unknown,))
    return Section(
        anchor="position",
        title="Position",
        parts=(position_table(tuple(rows)),),
        exports={"position": full_table(COLUMNS, rows)},
    )


def position_table(rows: tuple[PositionRow, ...]) -> Table:
    """Return the preference for the text shown first."""
    cells = []
    for row in rows:
        flips = f"{row.flipped} of {row.both_orders}" if row.both_orders else NOTHING
        counts = (row.first, row.second, row.ties, percent(row.share.estimate), limits(row.share))
        cells.append((title(row.criterion), RATERS[row.rater_kind], *counts, percent(row.a_first), flips))
    columns = ("Criterion", "Judged by", "For the first", "For the second", "Ties", "Share for the first")
    return Table(
        columns=(
            *columns,
            f"{percent(rows[0].share.level, 0)} interval",
            "Same method first",
            "Flipped with the order",
        ),
        rows=tuple(cells),
        caption="Preference for the text shown first",
        note=NOTE,
        text_columns=2,
    )
