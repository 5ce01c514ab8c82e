"""Preference for the text shown first."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.reports.columns import CELL_COLUMNS, cell_table, interval_name
from analysis.reports.section import Section
from analysis.results.bias import OrderRow, PositionRow
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import judged_by, limits, number, p_value, percent, title

NOTE = (
    "Of non-tied verdicts; 50 % is no preference. Intervals are Wilson's for the number of verdicts that "
    "those of a unit (named under Methods) are worth, since they hang together. Same method first: how "
    "often the comparison's first method had the first place; away from 50 % place and method mix. "
    "Flipped: of the pairs that one rater judged in both orders, those where the verdict went to the "
    "other method when the order was turned. A judge's samples in one order count once."
)

ORDER_NOTE = (
    "The win share of the first-named method when it was shown first and when it was shown second, over "
    "pairs; their mean is the share with each order weighing the same. The interval is a t interval over "
    "the unit named under Methods, and p tests that mean against one half, uncorrected: "
    "it shows whether a conclusion hangs on the order."
)

COLUMNS: Columns[PositionRow] = {
    "simulated": lambda row: row.rater_kind in SIMULATED,
    "rater_kind": lambda row: row.rater_kind,
    "judge": lambda row: row.judge,
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

ORDER_COLUMNS: Columns[OrderRow] = {
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
    """Return the preference for a place, or that the places are unknown."""
    if not rows:
        unknown = "The verdicts do not say which text was shown first."
        return Section(anchor="position", title="Position", paragraphs=(unknown,))
    parts = [_position_table(rows)]
    exports = {"position": table_of(rows, COLUMNS)}
    if orders:
        parts.append(_order_table(orders, name_methods=name_methods))
        exports["position_adjusted"] = table_of(orders, ORDER_COLUMNS)
    return Section(anchor="position", title="Position", folded=True, parts=tuple(parts), exports=exports)


def _position_table(rows: Sequence[PositionRow]) -> Table:
    return table_of(
        rows,
        {
            "Criterion": lambda row: title(row.criterion),
            "Judged by": lambda row: judged_by(row.rater_kind, row.judge),
            "For the first": lambda row: row.first,
            "For the second": lambda row: row.second,
            "Ties": lambda row: row.ties,
            "Share for the first": lambda row: percent(row.share.estimate),
            interval_name(rows[0].share.level): lambda row: limits(row.share),
            "Same method first": lambda row: percent(row.a_first),
            "Flipped with the order": _flips,
        },
        caption="Preference for the text shown first",
        note=NOTE,
        text_columns=2,
    )


def _flips(row: PositionRow) -> str:
    if not row.both_orders:
        return NOTHING
    return f"{row.flipped} of {row.both_orders}: {percent(row.flips.estimate)} ({limits(row.flips)})"


def _order_table(rows: Sequence[OrderRow], *, name_methods: bool) -> Table:
    return cell_table(
        rows,
        {
            "Shown first": lambda row: percent(row.result.first),
            "Shown second": lambda row: percent(row.result.second),
            "Worth of the first place": lambda row: _points(row.result.effect.estimate),
            "Win share, adjusted": lambda row: percent(row.result.adjusted.estimate),
            interval_name(rows[0].result.adjusted.level): lambda row: limits(row.result.adjusted),
            "p": lambda row: p_value(row.result.test.p_value),
        },
        name_methods=name_methods,
        caption=f"Win share{'' if name_methods else f' of {rows[0].method_a}'} by order, and with each order "
        "weighing the same",
        note=ORDER_NOTE,
    )


def _points(share: float | None) -> str:
    return NOTHING if share is None else f"{number(share, 1, scale=100)} points"
