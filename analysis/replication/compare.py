"""Compare our figures with the paper's, in the layout of the paper's table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Table

MARKS = {
    "inside": ("=", "the paper's figure is within our interval"),
    "same": ("≡", "the same as printed"),
    "above": (">", "ours is higher, the paper's is outside our interval"),
    "below": ("<", "ours is lower, the paper's is outside our interval"),
    "differs": ("≠", "not the same"),
    "no interval": ("?", "no interval"),
}
"""The sign and the meaning of each state. Figures without a run or from another setting have no sign."""

KEYS = ["dataset", "strategy", "versus", "metric"]
"""The columns that identify a figure, together with the model."""
_OURS = [*KEYS, "ours", "low", "high", "n", "is_exact"]


def compare_figures_with_paper(
    paper_figures: pd.DataFrame, our_figures: pd.DataFrame, differences: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the paper's figures with ours, the state of each figure, and our figure as text (`cell`).

    A printed figure is rounded. The figure counts as inside our interval if any number that rounds to this
    figure is inside.

    Args:
        paper_figures: The paper's figures (`published`).
        our_figures: Our figures (`analysis.replication.measured`).
        differences: The differences from the paper's setting. If there are any, no figure is compared.
    """
    compared = paper_figures.merge(our_figures[_OURS].astype({"n": "Int64"}), how="left", on=KEYS)
    value, low, high = (compared[name].astype(float) for name in ("ours", "low", "high"))
    number = compared["number"]
    half_unit = compared["half_unit"]
    states = {
        "not run": value.isna(),
        "other setting": pd.Series(bool(differences), index=compared.index),
        # 47.5 may be printed as 47 or as 48
        "same": low.isna() & ((value - number).abs() <= half_unit * (1 + 1e-9)),
        "differs": low.isna() & compared["is_exact"].eq(other=True),
        "no interval": low.isna(),
        "above": low > number + half_unit,
        "below": high < number - half_unit,
    }
    compared["state"] = np.select(list(states.values()), list(states), default="inside")
    return compared.assign(cell=[_format_figure(figure) for _, figure in compared.iterrows()])


def _format_figure(figure: pd.Series) -> str:
    """Format one of our figures with its mark and limits, with as many decimals as the paper's figure."""
    ours = figure["ours"]
    if pd.isna(ours):
        return NOTHING
    decimals = max(figure["decimals"], 1 if "." in figure["metric"] else 2)
    text = f"{ours:.{decimals}f}"
    if figure["metric"].endswith(".agree"):
        text = "yes" if ours else "no"
    mark, _ = MARKS.get(figure["state"], ("", ""))
    limits = ""
    if not pd.isna(figure["low"]):
        limits = f"[{figure['low']:.{decimals}f}, {figure['high']:.{decimals}f}]"
    return " ".join(filter(None, (text, mark, limits)))


def make_comparison_tables(compared: pd.DataFrame) -> tuple[Table, ...]:
    """Make a table of the paper's figures and ours for each group of the paper's columns.

    Rows and columns without any of our figures are left out.
    """
    block = compared["block"].where(compared["block"] == "", compared["block"] + ", ")
    compared = compared.assign(row=block + compared["row"])
    tables = []
    nothing = (NOTHING, NOTHING)
    for group, figures in compared[compared["ours"].notna()].groupby("group", sort=False):
        columns = figures["column"].unique()
        cells = {(figure.row, figure.column): (figure.value, figure.cell) for figure in figures.itertuples()}
        rows = [
            (row, *(text for column in columns for text in cells.get((row, column), nothing)))
            for row in figures["row"].unique()
        ]
        heads = (head for column in columns for head in (f"{column}, paper", "ours"))
        caption = str(group) or "Paper and ours"
        tables.append(Table(columns=("", *heads), rows=tuple(rows), caption=caption))
    return tuple(tables)


def explain_comparison_marks(compared: pd.DataFrame) -> str:
    """Explain the marks in the table, and count the paper's figures inside our intervals."""
    tested = compared[compared["state"].isin(["inside", "above", "below"])]
    count = (
        f"{(tested['state'] == 'inside').sum()} of {len(tested)} of the paper's figures lie within our "
        "intervals"
    )
    marks = "; ".join(" ".join(MARKS[state]) for state in compared["state"].unique() if state in MARKS)
    return ". ".join(filter(None, (count if len(tested) else "", marks)))
