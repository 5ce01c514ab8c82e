"""Automatic metrics beside the verdicts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pandas as pd

from analysis.reports.columns import frame_table
from analysis.reports.context import Context, MeasuredMetrics
from analysis.reports.section import Section
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import capital, number, percent, spaced

WIDTH = 4
"""Metrics beside each other: with their intervals, more would not fit a page."""


def section(context: Context, *, simulated: bool) -> Section | None:
    """Return the metrics of the study, where they were measured."""
    metrics = context.metrics
    if metrics is None:
        return None
    return Section(
        anchor="metrics",
        title="Metrics",
        folded=True,
        parts=metrics_tables(metrics),
        exports={"metrics": frame_table(metrics.table, simulated=simulated)},
    )


def metrics_tables(metrics: MeasuredMetrics) -> tuple[Table, ...]:
    """Return the metrics as measured, two decimals, with their intervals, in tables that fit a page."""
    table = metrics.table
    words = [name for name in ("dataset", "strategy") if name in table.columns]
    figures = [
        str(name)
        for name in table.columns
        if name not in (*words, "texts") and pd.api.types.is_numeric_dtype(table[name])
    ]
    level = f"In brackets: {percent(metrics.level, 0)} intervals over prompts."
    notes = (level, *metrics.notes) if metrics.intervals else metrics.notes
    parts = [figures[start : start + WIDTH] for start in range(0, len(figures), WIDTH)] or [[]]
    return tuple(
        _table(
            metrics,
            words,
            names,
            caption="Automatic metrics" + (", continued" if number else ""),
            note=" ".join(notes) if number == len(parts) - 1 else "",
        )
        for number, names in enumerate(parts)
    )


def _table(
    metrics: MeasuredMetrics, words: list[str], names: list[str], *, caption: str, note: str = ""
) -> Table:
    shown = [*(["texts"] if "texts" in metrics.table.columns else []), *names]
    rows = [
        (*(str(row[name]) for name in words), *(_figure(metrics, row, name) for name in shown))
        for row in metrics.table.to_dict("records")
    ]
    return Table(
        columns=(*(capital(spaced(name)) for name in words), *(spaced(name) for name in shown)),
        rows=tuple(rows),
        caption=caption,
        note=note,
        text_columns=len(words),
    )


def _figure(metrics: MeasuredMetrics, row: Mapping[Hashable, object], name: str) -> str:
    value = row[name]
    if not isinstance(value, int | float) or pd.isna(value):
        return NOTHING
    whole = pd.api.types.is_integer_dtype(metrics.table[name])
    known = metrics.intervals.get((str(row.get("dataset")), str(row.get("strategy")), name))
    limits = f" ({number(known[0])} to {number(known[1])})" if known else ""
    return number(value, 0 if whole else 2) + limits
