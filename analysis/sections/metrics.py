"""Automatic metrics beside the verdicts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import pandas as pd

from analysis.columns import frame_table
from analysis.context import Context, Metrics
from analysis.render import Table
from analysis.section import Section
from analysis.words import number, title
from guard_eval.escaping import NOTHING

INTERVALS = "In brackets: intervals over prompts, 95 % unless the study's settings say otherwise."


def section(context: Context, *, simulated: bool) -> Section | None:
    """Return the metrics of the study, where they were measured."""
    metrics = context.metrics
    if metrics is None:
        return None
    return Section(
        anchor="metrics",
        title="Metrics",
        parts=(metrics_table(metrics),),
        exports={"metrics": frame_table(metrics.table, simulated=simulated)},
    )


def metrics_table(metrics: Metrics) -> Table:
    """Return the metrics as measured, two decimals, with their intervals; words on the left."""
    table = metrics.table
    words = [name for name in ("dataset", "strategy") if name in table.columns]
    figures = [
        name for name in table.columns if name not in words and pd.api.types.is_numeric_dtype(table[name])
    ]
    rows = [
        (*(str(row[name]) for name in words), *(_figure(metrics, row, str(name)) for name in figures))
        for row in table.to_dict("records")
    ]
    notes = (INTERVALS, *metrics.notes) if metrics.intervals else metrics.notes
    return Table(
        columns=(*(title(name).capitalize() for name in words), *(title(str(name)) for name in figures)),
        rows=tuple(rows),
        caption="Automatic metrics",
        note=" ".join(notes),
        text_columns=len(words),
    )


def _figure(metrics: Metrics, row: Mapping[Hashable, object], name: str) -> str:
    value = row[name]
    if not isinstance(value, int | float) or pd.isna(value):
        return NOTHING
    whole = pd.api.types.is_integer_dtype(metrics.table[name])
    known = metrics.intervals.get((str(row.get("dataset")), str(row.get("strategy")), name))
    limits = f" ({number(known[0])} to {number(known[1])})" if known else ""
    return number(value, 0 if whole else 2) + limits
