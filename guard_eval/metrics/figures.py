"""Draw a figure for each metric, with all strategies and their intervals.

Labels name the strategies, so colours are not needed. Names come from files, so names are shown as plain
text, never as markup or a formula. The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from guard_eval.metrics.scores import (
    METRICS,
    Score,
    format_interval,
    format_level,
    format_value,
)
from guard_eval.records import HUMAN
from guard_eval.reporting.drawing import (
    FIRST,
    SECOND,
    Caption,
    Drawing,
    draw_interval,
    make_row_figure,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COMPARED = ("diversity", "mauve", "coherence", "bertscore")
"""The metrics that have a figure."""
TITLE_CHARACTERS = 66


def draw_metric_figures(scores: Sequence[Score]) -> Iterator[Drawing]:
    """Yield a figure of each compared metric. With several datasets, a figure shows means over datasets."""
    for metric in COMPARED:
        rows = [row for row in scores if row.metric == metric]
        if drawing := draw_scores_of_metric([row for row in rows if row.dataset == rows[-1].dataset]):
            yield drawing


def draw_scores_of_metric(rows: Sequence[Score]) -> Drawing | None:
    """Draw the scores of a metric, with the highest score at the top and a line at the human score.

    Args:
        rows: The scores of a metric on one dataset.

    Returns:
        The figure, or None if only the human references have a score.
    """
    points = [(row.value, row) for row in rows if row.value is not None]
    points.sort(key=lambda point: (-point[0], point[1].strategy))
    valued = [row for _, row in points]
    if {row.strategy for row in valued} <= {HUMAN}:
        return None
    name = valued[0].metric
    metric = METRICS[name]
    labels = [
        f"{row.strategy}: {format_value(name, row.value)} {format_interval(name, row.low, row.high)}".strip()
        for row in valued
    ]
    heading = f"{metric.title} · {valued[0].dataset}"
    note = f"In brackets: {format_level(valued[0].level)} intervals."

    def draw_scores(axes: Axes) -> None:
        for y, (value, row) in enumerate(points):
            color, marker = (SECOND, "D") if row.strategy == HUMAN else (FIRST, "o")
            draw_interval(axes, row.low, row.high, y, color=color, width=1.4)
            axes.plot([value], [y], marker=marker, markersize=5, color=color)
            if row.strategy == HUMAN:
                axes.axvline(value, color=SECOND, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlabel(metric.heading)
        axes.set_title(f"{shorten_label(heading, TITLE_CHARACTERS)}\n{note}", loc="left", fontsize=10)

    words = f"{'; '.join(labels)}. {note}"
    caption = Caption(name=name, heading=heading, description=words)
    return make_row_figure(draw_scores, labels, caption, lines=3)
