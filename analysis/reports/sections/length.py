"""Preference for the longer text, and win shares at equal length."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.reports.columns import CELL_COLUMNS, cell_table, interval_name
from analysis.reports.section import Section
from analysis.results.bias import LengthRow
from guard_eval.reporting.tables import Columns, table_of
from guard_eval.reporting.words import limits, number, number_limits, p_value, percent

NOTE = (
    "Of non-tied scores on pairs of unequal length; Wilson's interval for the number of scores that those"
    " of a unit (named under Methods) are worth, since they hang together. Length ratio: the first-named "
    "method's text over the other's, geometric mean. Where one method writes longer, this share mixes "
    "length and method; the slope below does not. τ-b: Kendall's rank correlation of a pair's win share "
    "with its length ratio."
)

ADJUSTED_NOTE = (
    "A linear model of pairs' win shares on the logarithm of the length ratio, within datasets, with HC3 "
    "errors (CR3 where a unit has several pairs). At equal length: "
    "its prediction where both texts are equally long. Per doubling: by how many "
    "points the share rises when the first-named method's text becomes twice as long beside the other. The "
    "first p tests the adjusted share against one half, the second the slope against none; both are "
    "uncorrected. Nobody "
    "set the lengths: a text may be preferred because it is longer, or be long because it is good, and the "
    "adjustment takes away both."
)

COLUMNS: Columns[LengthRow] = {
    **CELL_COLUMNS,
    "items": lambda row: row.items,
    "length_ratio": lambda row: row.ratio,
    "for_longer": lambda row: row.longer,
    "for_shorter": lambda row: row.shorter,
    "ties": lambda row: row.ties,
    "share_longer": lambda row: row.longer_share.estimate,
    "longer_low": lambda row: row.longer_share.low,
    "longer_high": lambda row: row.longer_share.high,
    "kendall_tau_b": lambda row: row.fit.correlation,
    "win_share": lambda row: row.share,
    "win_share_length_adjusted": lambda row: row.fit.adjusted.estimate,
    "low": lambda row: row.fit.adjusted.low,
    "high": lambda row: row.fit.adjusted.high,
    "level": lambda row: row.fit.adjusted.level,
    "p": lambda row: row.fit.share_test.p_value,
    "slope_per_doubling": lambda row: row.fit.slope.estimate,
    "slope_low": lambda row: row.fit.slope.low,
    "slope_high": lambda row: row.fit.slope.high,
    "p_slope": lambda row: row.fit.slope_test.p_value,
    "method": lambda row: row.fit.adjusted.method,
    "warnings": lambda row: "; ".join((*row.warnings, *row.fit.adjusted.warnings)),
}


def section(rows: Sequence[LengthRow], *, name_methods: bool = True) -> Section | None:
    """Return how win shares depend on length; nothing where no lengths are known."""
    if not rows:
        return None
    longer = cell_table(
        rows,
        {
            "Pairs": lambda row: row.items,
            "Length ratio": lambda row: number(row.ratio),
            "For the longer": lambda row: row.longer,
            "For the shorter": lambda row: row.shorter,
            "Ties": lambda row: row.ties,
            "Share for the longer": lambda row: percent(row.longer_share.estimate),
            interval_name(rows[0].longer_share.level): lambda row: limits(row.longer_share),
            "τ-b": lambda row: number(row.fit.correlation),
        },
        name_methods=name_methods,
        caption="Preference for the longer text",
        note=NOTE,
    )
    interval = interval_name(rows[0].fit.adjusted.level)
    remarks = sorted({text for row in rows for text in (*row.warnings, *row.fit.adjusted.warnings)})
    adjusted = cell_table(
        rows,
        {
            "Win share": lambda row: percent(row.share),
            "At equal length": lambda row: percent(row.fit.adjusted.estimate),
            interval: lambda row: limits(row.fit.adjusted),
            "p": lambda row: p_value(row.fit.share_test.p_value),
            "Points per doubling": lambda row: number(row.fit.slope.estimate, 1, scale=100),
            f"{interval} of these": lambda row: number_limits(row.fit.slope, 1, scale=100),
            "p of these": lambda row: p_value(row.fit.slope_test.p_value),
        },
        name_methods=name_methods,
        caption=f"Win share{'' if name_methods else f' of {rows[0].method_a}'} at equal length",
        note=" ".join((ADJUSTED_NOTE, *(f"Some rows: {text}." for text in remarks))),
    )
    return Section(
        anchor="length",
        title="Length",
        folded=True,
        parts=(longer, adjusted),
        exports={"length": table_of(rows, COLUMNS)},
    )
