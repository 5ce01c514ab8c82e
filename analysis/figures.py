"""Figures of win shares as SVG (for pages, light and dark) and PDF (for LaTeX), the same bytes every time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.shares import ShareRow
from analysis.words import ALL, RATERS, limits, percent, title
from guard_eval.escaping import Raw, one_line
from guard_eval.figure_style import BETWEEN, FIRST, SECOND, as_pdf, as_svg, described, style

INK = "#010203"
"""Text and axes; in SVG it becomes `currentColor`, so that they follow the page's theme."""
WIDTH, ROW = 6.6, 0.29
"""Inches: a figure's width, and the height of one of its rows."""
LONGEST = 34
"""Characters of a label; a longer name is cut."""
LINES = "stroke-linejoin: round; stroke-linecap: butt"


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawing:
    """A figure with its text alternative.

    Attributes:
        name: Its file's name without ending, unique in a report.
        title: What it shows, in a line.
        description: The same in words, for who cannot see it.
        svg: For a page: inline, `currentColor`, role="img".
        pdf: For LaTeX.
    """

    name: str
    title: str
    description: str
    svg: Raw
    pdf: bytes


def forest(rows: Sequence[ShareRow], *, name: str) -> Drawing:
    """Return win shares with their intervals and a line at 50 %, for one comparison and one kind of rater."""
    first = rows[0]

    def draw(axes: Axes) -> None:
        for place, row in enumerate(rows):
            total = row.dataset is None
            share = 100 * (row.pooled if row.share.estimate is None else row.share.estimate)
            if row.share.low is not None and row.share.high is not None:
                ends = [100 * row.share.low, 100 * row.share.high]
                axes.plot(
                    ends, [place, place], color=FIRST, linewidth=2.6 if total else 1.4, solid_capstyle="butt"
                )
            axes.plot(
                [share], [place], marker="D" if total else "o", markersize=7 if total else 5, color=FIRST
            )
        axes.axvline(50, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlim(0, 100)
        axes.set_xlabel(
            f"win share of {_short(first.method_a)}, %\n(below 50: {_short(first.method_b)} ahead)"
        )
        axes.grid(visible=True, axis="x", color=INK, alpha=0.12, linewidth=0.6)

    heading = f"Win share of {first.method_a} against {first.method_b}, judged by {RATERS[first.rater_kind]}"
    lines = "; ".join(
        f"{_label(row)}: {percent(row.share.estimate)}, interval {limits(row.share)}" for row in rows
    )
    return _draw(
        draw,
        rows,
        name=name,
        heading=heading,
        description=f"{lines}. The dashed line is 50 %, no preference.",
    )


def bars(rows: Sequence[ShareRow], *, name: str) -> Drawing:
    """Return wins, ties and losses as stacked bars, for one comparison and one kind of rater."""
    first = rows[0]
    parts = (
        (f"{_short(first.method_a)} better", FIRST, [row.wins for row in rows]),
        ("tie", BETWEEN, [row.ties for row in rows]),
        (f"{_short(first.method_b)} better", SECOND, [row.losses for row in rows]),
    )

    def draw(axes: Axes) -> None:
        left = [0.0] * len(rows)
        for label, colour, counts in parts:
            widths = [100 * count / row.n for count, row in zip(counts, rows, strict=True)]
            axes.barh(range(len(rows)), widths, left=left, height=0.66, color=colour, label=label)
            for place, (start, width) in enumerate(zip(left, widths, strict=True)):
                if width >= 5:
                    axes.text(
                        start + width / 2,
                        place,
                        f"{width:.0f}",
                        ha="center",
                        va="center",
                        color="#111111",
                        fontsize=8.5,
                    )
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_xlim(0, 100)
        axes.set_xlabel("% of ratings")
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=9, handlelength=1
        )

    heading = f"Verdicts on {first.method_a} and {first.method_b}, by {RATERS[first.rater_kind]}"
    lines = "; ".join(f"{_label(row)}: {row.wins} wins, {row.ties} ties, {row.losses} losses" for row in rows)
    return _draw(
        draw, rows, name=name, heading=heading, description=f"For {first.method_a}: {lines}.", legend=True
    )


def _label(row: ShareRow) -> str:
    return f"{title(row.criterion)} · {row.dataset or ALL}"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _draw(
    draw: Callable[[Axes], None],
    rows: Sequence[ShareRow],
    *,
    name: str,
    heading: str,
    description: str,
    legend: bool = False,
) -> Drawing:
    """Set the frame all figures share, and return the figure in both formats."""
    with style(ink=INK, frame=INK, ground="none", salt=name):
        figure = Figure(figsize=(WIDTH, ROW * len(rows) + (1.0 if legend else 0.9)), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_yticks(range(len(rows)), [_short(_label(row)) for row in rows])
        for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
            tick.set_fontweight("bold" if row.dataset is None else "normal")
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        if rows[0].simulated:
            mark = axes.text(0.5, 0.5, "SIMULATED", transform=axes.transAxes, fontsize=30, fontweight="bold")
            mark.set(alpha=0.16, horizontalalignment="center", verticalalignment="center", zorder=5)
        svg, pdf = as_svg(figure), as_pdf(figure)
    image = _inline(svg, name=name, heading=heading, description=description)
    return Drawing(name=name, title=heading, description=description, svg=image, pdf=pdf)


def _inline(svg: str, *, name: str, heading: str, description: str) -> Raw:
    """Turn matplotlib's file into an element of a page: themed, labelled, its ids its own."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace(INK, "currentColor")
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    # matplotlib styles `*`, which inline would be the whole page.
    body = re.sub(r"<style.*?</style>", "", body, count=1, flags=re.DOTALL)
    opening = body[: body.index(">") + 1]
    size = re.search(r'viewBox="[^"]+"', opening)
    assert size is not None
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    whole = f'<svg {spaces} {size[0]} style="{LINES}">{body[len(opening) :].strip()}'
    return Raw(described(whole, heading, description, name=name))


def standalone(drawing: Drawing) -> str:
    """Return the SVG as a file of its own, whose ink follows the viewer's theme."""
    style = "<style>svg{color:#1c1e21}@media (prefers-color-scheme:dark){svg{color:#e6e6e3}}</style>"
    head, rest = drawing.svg.split(">", 1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>{style}{rest}\n'
