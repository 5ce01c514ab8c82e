"""Preference for the longer text, and win shares at equal length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.report.columns import CELL_COLUMNS, full_table, left_cells, left_names
from analysis.report.section import Section
from analysis.results.length import LengthRow
from analysis.stats.intervals import Interval
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import limits, number, p_value, percent

NOTE = (
    "Of non-tied scores on pairs of unequal length; Wilson's interval takes scores as independent. Length "
    "ratio: the first-named method's text over the other's, geometric mean. Where one method writes longer, "
    "this share mixes length and method; the slope below does not. τ-b: Kendall's rank correlation of a "
    "pair's win share with its length ratio."
)

ADJUSTED_NOTE = (
    "A linear model of pairs' win shares on the logarithm of the length ratio, within datasets, with HC3 "
    "errors (CR3 over prompts that have several pairs). At equal length: "
    "its prediction where both texts are equally long. Per doubling: by how many "
    "points the share rises when the first-named method's text becomes twice as long beside the other. The "
    "first p tests the adjusted share against one half, the second the slope against none; both are "
    "uncorrected. Nobody "
    "set the lengths: a text may be preferred because it is longer, or be long because it is good, and the "
    "adjustment takes away both."
)

COLUMNS: dict[str, Callable[[LengthRow], Cell]] = {
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
    """Return what length does to the win shares; nothing where no lengths are known."""
    if not rows:
        return None
    return Section(
        anchor="length",
        title="Length",
        parts=(
            longer_table(tuple(rows), name_methods=name_methods),
            adjusted_table(tuple(rows), name_methods=name_methods),
        ),
        exports={"length": full_table(COLUMNS, rows)},
    )


def longer_table(rows: tuple[LengthRow, ...], *, name_methods: bool = True) -> Table:
    """Return how often the longer text was preferred."""
    names = left_names(name_methods=name_methods)
    return Table(
        columns=(
            *names,
            "Pairs",
            "Length ratio",
            "For the longer",
            "For the shorter",
            "Ties",
            "Share for the longer",
            f"{percent(rows[0].longer_share.level, 0)} interval",
            "τ-b",
        ),
        rows=tuple(
            (
                *left_cells(row, name_methods=name_methods),
                row.items,
                NOTHING if row.ratio is None else number(row.ratio),
                row.longer,
                row.shorter,
                row.ties,
                percent(row.longer_share.estimate),
                limits(row.longer_share),
                NOTHING if row.fit.correlation is None else number(row.fit.correlation),
            )
            for row in rows
        ),
        caption="Preference for the longer text",
        note=NOTE,
        text_columns=len(names),
    )


def adjusted_table(rows: tuple[LengthRow, ...], *, name_methods: bool = True) -> Table:
    """Return the win shares at equal length, and how they go with length."""
    names = left_names(name_methods=name_methods)
    interval = f"{percent(rows[0].fit.adjusted.level, 0)} interval"
    remarks = sorted({text for row in rows for text in (*row.warnings, *row.fit.adjusted.warnings)})
    return Table(
        columns=(
            *names,
            "Win share",
            "At equal length",
            interval,
            "p",
            "Points per doubling",
            f"{interval} of these",
            "p of these",
        ),
        rows=tuple(
            (
                *left_cells(row, name_methods=name_methods),
                percent(row.share),
                percent(row.fit.adjusted.estimate),
                limits(row.fit.adjusted),
                p_value(row.fit.share_test.p_value),
                NOTHING if row.fit.slope.estimate is None else number(100 * row.fit.slope.estimate, 1),
                _points(row.fit.slope),
                p_value(row.fit.slope_test.p_value),
            )
            for row in rows
        ),
        caption=f"Win share{'' if name_methods else f' of {rows[0].method_a}'} at equal length",
        note=" ".join((ADJUSTED_NOTE, *(f"Some rows: {text}." for text in remarks))),
        text_columns=len(names),
    )


def _points(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return NOTHING
    return f"{number(100 * interval.low, 1)} to {number(100 * interval.high, 1)}"
