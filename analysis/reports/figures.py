"""Figures for papers and notebooks: win shares with intervals, and rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.reports.answer import is_simulated
from analysis.reports.columns import cell_columns, differs, group_name, possible_ranks
from analysis.reports.results import Results, Row, cell_of, grouped, rows_of
from guard_eval.reporting.drawing import FIRST, GUIDE, NARROW, WIDTH, Drawing, in_rows, interval_line, short
from guard_eval.reporting.words import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES = 30
"""Rows of a figure."""
SHORT_LABEL = 20
"""Letters of a label that leaves room for the figure in one column of a page."""


def drawings(results: Results) -> dict[str, Drawing]:
    """Return the figures by name: a ranking for each criterion, or the shares of each comparison."""
    if results.is_ranked:
        groups, name, draw = results.rankings, "ranking", ranking_figure
    else:
        comparisons = grouped(rows_of(results["win_shares"]), lambda row: cell_of(row)[:-1])
        groups, name, draw = list(comparisons.values()), "shares", share_figure
    return {f"{name}-{n}": draw(results, rows, f"{name}-{n}") for n, rows in enumerate(groups, start=1)}


def main_figure(results: Results) -> Drawing:
    """Return the figure of a paper."""
    if results.is_ranked:
        return ranking_figure(results, results.rankings[0], "figure")
    return share_figure(results, results.answering, "figure")


def share_figure(results: Results, rows: Sequence[Row], name: str) -> Drawing:
    """Return win shares with their intervals, a line each; strong lines differ from one half."""
    shown = rows[:MAX_LINES]
    first, level = shown[0], 100 * results.evidence.level
    parts = cell_columns(shown, criterion=str)
    several = "Comparison" in parts
    labels = [" · ".join(str(show(row)) for show in parts.values()) for row in shown]
    strong = {index for index, row in enumerate(shown) if differs(row, results.context.plan.alpha)}
    names = ("the first-named", "the second") if several else (short(first.method_a), short(first.method_b))

    def draw(axes: Axes) -> None:
        for index, row in enumerate(shown):
            low, high = (None if end is None else 100 * end for end in (row.low, row.high))
            interval_line(axes, low, high, index, color=FIRST, width=2.6 if index in strong else 1.4)
            if row.win_share is not None:
                axes.plot([100 * row.win_share], [index], marker="D" if index in strong else "o", color=FIRST)
        axes.axvline(50, **GUIDE)
        axes.set_xlim(0, 100)
        axes.set_xlabel(f"win share of {names[0]}, %\n(below 50: {names[1]} ahead)", loc="right")

    against = "" if several else f" of {first.method_a} against {first.method_b}"
    marked = f"; diamonds: p at most {results.context.plan.alpha:g}" if strong else ""
    heading = f"Win shares{against}, with {level:g} % intervals; the dashed line is no preference{marked}"
    return in_rows(
        draw,
        labels,
        name=name,
        heading=heading,
        description=heading,
        strong=strong,
        lines=2,
        simulated=is_simulated(results),
        width=_width([*labels, *names]),
    )


def ranking_figure(results: Results, rows: Sequence[Row], name: str) -> Drawing:
    """Return expected win shares with intervals, the best on top, and the possible ranks."""
    shown, level = rows[:MAX_LINES], 100 * results.evidence.level

    def draw(axes: Axes) -> None:
        for index, row in enumerate(shown):
            low, high = (None if end is None else 100 * end for end in (row.share_low, row.share_high))
            interval_line(axes, low, high, index, color=FIRST, width=1.8)
            axes.plot([100 * row.expected_share], [index], marker="o", markersize=5, color=FIRST)
            axes.text(1.02, index, possible_ranks(row), transform=axes.get_yaxis_transform(), va="center")
        axes.axvline(50, **GUIDE)
        axes.set_xlabel("expected win share, %\n(on the right: possible ranks)", loc="right")

    labels = [row.method for row in shown]
    heading = (
        f"Expected win shares against the average other method on {title(shown[0].criterion)}, judged by "
        f"{group_name(shown[0])}, with {level:g} % intervals and possible ranks"
    )
    return in_rows(
        draw,
        labels,
        name=name,
        heading=heading,
        description=heading,
        lines=2,
        simulated=is_simulated(results),
        width=_width(labels),
    )


def _width(labels: Sequence[str]) -> float:
    """Return a figure's width: of one column if its labels leave room for the figure itself."""
    return NARROW if all(len(label) <= SHORT_LABEL for label in labels) else WIDTH
