"""Automatic metrics beside the verdicts."""

from __future__ import annotations

import pandas as pd

from analysis.columns import frame_table
from analysis.context import Context
from analysis.render import Table
from analysis.section import Section
from analysis.words import number, title
from guard_eval.escaping import NOTHING


def section(context: Context, *, simulated: bool) -> Section | None:
    """Return the metrics of the study, where they were measured."""
    if context.metrics is None:
        return None
    return Section(
        anchor="metrics",
        title="Metrics",
        parts=(metrics_table(context.metrics, context.metrics_notes),),
        exports={"metrics": frame_table(context.metrics, simulated=simulated)},
    )


def metrics_table(metrics: pd.DataFrame, notes: tuple[str, ...]) -> Table:
    """Return the automatic metrics as measured, two decimals, words on the left."""
    words = [name for name in ("dataset", "strategy") if name in metrics.columns]
    figures = [
        name for name in metrics.columns if name not in words and pd.api.types.is_numeric_dtype(metrics[name])
    ]
    columns = [[str(value) for value in metrics[name]] for name in words]
    columns += [
        [_measure(value, whole=pd.api.types.is_integer_dtype(metrics[name])) for value in metrics[name]]
        for name in figures
    ]
    return Table(
        columns=(*(title(name).capitalize() for name in words), *(title(str(name)) for name in figures)),
        rows=tuple(zip(*columns, strict=True)),
        caption="Automatic metrics",
        note=" ".join(notes),
        text_columns=len(words),
    )


def _measure(value: float, *, whole: bool) -> str:
    return NOTHING if pd.isna(value) else number(value, 0 if whole else 2)
