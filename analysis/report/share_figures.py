"""Figures of win shares: a forest plot of shares with intervals, and stacked bars of verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from analysis.results.shares import ShareRow
from guard_eval.reporting.drawing import INK, Drawing, in_rows, short
from guard_eval.reporting.figure_style import BETWEEN, FIRST, SECOND
from guard_eval.reporting.words import ALL, RATERS, limits, percent, title


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
        axes.set_xlabel(f"win share of {short(first.method_a)}, %\n(below 50: {short(first.method_b)} ahead)")
        axes.grid(visible=True, axis="x", color=INK, alpha=0.12, linewidth=0.6)

    heading = f"Win share of {first.method_a} against {first.method_b}, judged by {RATERS[first.rater_kind]}"
    lines = "; ".join(
        f"{_label(row)}: {percent(row.share.estimate)}, interval {limits(row.share)}" for row in rows
    )
    return _drawn(
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
        (f"{short(first.method_a)} better", FIRST, [row.wins for row in rows]),
        ("tie", BETWEEN, [row.ties for row in rows]),
        (f"{short(first.method_b)} better", SECOND, [row.losses for row in rows]),
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
    return _drawn(
        draw, rows, name=name, heading=heading, description=f"For {first.method_a}: {lines}.", legend=True
    )


def _label(row: ShareRow) -> str:
    return f"{title(row.criterion)} · {row.dataset or ALL}"


def _drawn(
    draw: Callable[[Axes], None],
    rows: Sequence[ShareRow],
    *,
    name: str,
    heading: str,
    description: str,
    legend: bool = False,
) -> Drawing:
    return in_rows(
        draw,
        [_label(row) for row in rows],
        name=name,
        heading=heading,
        description=description,
        strong={place for place, row in enumerate(rows) if row.dataset is None},
        legend=legend,
        simulated=rows[0].simulated,
    )
