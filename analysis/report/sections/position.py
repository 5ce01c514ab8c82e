"""Preference for the text shown first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.report.columns import CELL_COLUMNS, full_table, left_cells, left_names
from analysis.report.section import Section
from analysis.results.position import OrderRow, PositionRow
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import RATERS, limits, number, p_value, percent, title

NOTE = (
    "Of non-tied verdicts; 50 % is no preference. Wilson's intervals take verdicts as independent. Same "
    "method first: how often the comparison's first method had the first place; away from 50 % place and "
    "method mix. Flipped: of the pairs that one rater judged in both orders, those where the verdict went to "
    "the other method when the order was turned."
)

ORDER_NOTE = (
    "The win share of the first-named method when it was shown first and when it was shown second, over "
    "pairs; their mean is the share with each order weighing the same. The interval is a t interval over "
    "prompts where they are known, else pairs, and "
    "p tests that mean against one half, uncorrected: it shows whether a conclusion hangs on the "
    "order."
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
    "flip_rate": lambda row: row.flips.estimate,
    "flip_low": lambda row: row.flips.low,
    "flip_high": lambda row: row.flips.high,
    "changed": lambda row: row.changed,
    "warnings": lambda row: "; ".join((*row.warnings, *row.share.warnings)),
}

ORDER_COLUMNS: dict[str, Callable[[OrderRow], Cell]] = {
    **CELL_COLUMNS,
    "win_share_when_first": lambda row: row.result.first,
    "win_share_when_second": lambda row: row.result.second,
    "win_share_position_adjusted": lambda row: row.result.adjusted.estimate,
    "low": lambda row: row.result.adjusted.low,
    "high": lambda row: row.result.adjusted.high,
    "level": lambda row: row.result.adjusted.level,
    "interval": lambda row: row.result.adjusted.method,
    "p": lambda row: row.result.test.p_value,
    "test": lambda row: row.result.test.method,
    "effect_of_first_place": lambda row: row.result.effect.estimate,
    "effect_low": lambda row: row.result.effect.low,
    "effect_high": lambda row: row.result.effect.high,
    "items_in_the_rarer_order": lambda row: row.result.adjusted.n,
    "items_in_both_orders": lambda row: row.result.both,
    "warnings": lambda row: "; ".join(row.result.adjusted.warnings),
}


def section(
    rows: Sequence[PositionRow], orders: Sequence[OrderRow] = (), *, name_methods: bool = True
) -> Section:
    """Return the preference for a place, or that nobody knows what stood where."""
    if not rows:
        unknown = "The verdicts do not say which text was shown first."
        return Section(anchor="position", title="Position", paragraphs=(unknown,))
    parts = [position_table(tuple(rows))]
    exports = {"position": full_table(COLUMNS, rows)}
    if orders:
        parts.append(order_table(tuple(orders), name_methods=name_methods))
        exports["position_adjusted"] = full_table(ORDER_COLUMNS, orders)
    return Section(anchor="position", title="Position", parts=tuple(parts), exports=exports)


def position_table(rows: tuple[PositionRow, ...]) -> Table:
    """Return the preference for the text shown first, and the flips."""
    columns = ("Criterion", "Judged by", "For the first", "For the second", "Ties", "Share for the first")
    return Table(
        columns=(
            *columns,
            f"{percent(rows[0].share.level, 0)} interval",
            "Same method first",
            "Flipped with the order",
        ),
        rows=tuple(
            (
                title(row.criterion),
                RATERS[row.rater_kind],
                row.first,
                row.second,
                row.ties,
                percent(row.share.estimate),
                limits(row.share),
                percent(row.a_first),
                _flips(row),
            )
            for row in rows
        ),
        caption="Preference for the text shown first",
        note=NOTE,
        text_columns=2,
    )


def _flips(row: PositionRow) -> str:
    if not row.both_orders:
        return NOTHING
    return f"{row.flipped} of {row.both_orders}: {percent(row.flips.estimate)} ({limits(row.flips)})"


def order_table(rows: tuple[OrderRow, ...], *, name_methods: bool = True) -> Table:
    """Return the shares by order, and with each order weighing the same."""
    names = left_names(name_methods=name_methods)
    return Table(
        columns=(
            *names,
            "Shown first",
            "Shown second",
            "Worth of the first place",
            "Win share, adjusted",
            f"{percent(rows[0].result.adjusted.level, 0)} interval",
            "p",
        ),
        rows=tuple(
            (
                *left_cells(row, name_methods=name_methods),
                percent(row.result.first),
                percent(row.result.second),
                _points(row.result.effect.estimate),
                percent(row.result.adjusted.estimate),
                limits(row.result.adjusted),
                p_value(row.result.test.p_value),
            )
            for row in rows
        ),
        caption=f"Win share{'' if name_methods else f' of {rows[0].method_a}'} by order, and with each order "
        "weighing the same",
        note=ORDER_NOTE,
        text_columns=len(names),
    )


def _points(share: float | None) -> str:
    return NOTHING if share is None else f"{number(100 * share, 1)} points"
