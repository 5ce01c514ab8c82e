"""A forest plot of win shares: points with their intervals, and a line at 50 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from analysis.stats.intervals import Interval
from guard_eval.reporting.drawing import GUIDE, WIDTH, Drawing, in_rows, interval_line, short
from guard_eval.reporting.figure_style import FIRST
from guard_eval.reporting.words import limits, percent


@dataclass(frozen=True, kw_only=True, slots=True)
class ForestLine:
    """A line of the plot.

    Attributes:
        label: What the share is of.
        share: The share with its interval.
        pooled: What is drawn where the share is undefined.
        strong: Whether it stands out.
        color: Of the point and its interval.
    """

    label: str
    share: Interval
    pooled: float = 0.0
    strong: bool
    color: str = FIRST


def forest(
    lines: Sequence[ForestLine],
    *,
    methods: tuple[str, str],
    name: str,
    heading: str,
    simulated: bool,
    breaks: int = 1,
    width: float = WIDTH,
) -> Drawing:
    """Return the plot of one comparison, `width` inches wide; a long label may break into `breaks` lines."""
    a, b = (short(method) for method in methods)

    def draw(axes: Axes) -> None:
        for place, line in enumerate(lines):
            low, high = (None if end is None else 100 * end for end in (line.share.low, line.share.high))
            interval_line(axes, low, high, place, color=line.color, width=2.6 if line.strong else 1.4)
            share = 100 * (line.pooled if line.share.estimate is None else line.share.estimate)
            marker, size = ("D", 7) if line.strong else ("o", 5)
            axes.plot([share], [place], marker=marker, markersize=size, color=line.color)
        axes.axvline(50, **GUIDE)
        axes.set_xlim(0, 100)
        axes.set_xlabel(
            f"win share of {a}, %\n(below 50: {b} ahead)", loc="center" if width == WIDTH else "right"
        )

    shares = "; ".join(
        f"{line.label}: {percent(line.share.estimate)}, interval {limits(line.share)}" for line in lines
    )
    return in_rows(
        draw,
        [line.label for line in lines],
        name=name,
        heading=heading,
        description=f"{shares}. The dashed line is 50 %, no preference.",
        strong={place for place, line in enumerate(lines) if line.strong},
        lines=breaks,
        simulated=simulated,
        width=width,
    )
