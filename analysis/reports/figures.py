"""Figures for papers and notebooks: win shares with intervals, and rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.evidence import Evidence
from analysis.reports.first_screen import is_simulated
from analysis.sections.answering import answering
from analysis.sections.ranking import RankingRow, rankings
from analysis.sections.section import Cells, different_labels, group_by, group_name
from analysis.sections.shares import WinShareRow, win_shares
from guard_eval.estimate import Estimate
from guard_eval.reporting.drawing import FIRST, GUIDE, NARROW, WIDTH, Drawing, in_rows, interval_line, short
from guard_eval.reporting.words import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES = 30
"""Rows of a figure."""
SHORT_LABEL = 20
"""Letters of a label that leaves room for the figure in one column of a page."""


def drawings(evidence: Evidence) -> dict[str, Drawing]:
    """Return the figures by name: a ranking for each criterion, or the shares of each comparison."""
    if evidence.is_ranked:
        names = {f"ranking-{n}": rows for n, rows in enumerate(rankings(evidence), start=1)}
        return {name: ranking_figure(evidence, rows, name) for name, rows in names.items()}
    comparisons = group_by(evidence.rows(win_shares), lambda row: (row.who, row.methods))
    shares = {f"shares-{n}": rows for n, rows in enumerate(comparisons.values(), start=1)}
    return {name: share_figure(evidence, rows, name) for name, rows in shares.items()}


def main_figure(evidence: Evidence) -> Drawing:
    """Return the figure of a paper."""
    if evidence.is_ranked:
        return ranking_figure(evidence, rankings(evidence)[0], "figure")
    return share_figure(evidence, evidence.rows(answering), "figure")


def name_share(row: WinShareRow) -> Cells:
    """Return the labels of a share in a paper, where criteria have no capital."""
    return {
        "Comparison": f"{row.method_a} against {row.method_b}",
        "Criterion": title(row.criterion),
        "Judged by": group_name(row),
        "Dataset": row.dataset,
    }


def share_figure(evidence: Evidence, rows: Sequence[WinShareRow], name: str) -> Drawing:
    """Return win shares with their intervals, a line each; strong lines differ from one half."""
    shown = rows[:MAX_LINES]
    first, alpha = shown[0], evidence.plan.alpha
    words = different_labels([name_share(row) for row in shown])
    labels = [" · ".join(str(cell) for cell in cells.values()) for cells in words]
    several = "Comparison" in words[0]
    strong = {index for index, row in enumerate(shown) if row.is_significant(alpha)}
    names = ("the first-named", "the second") if several else (short(first.method_a), short(first.method_b))

    def draw(axes: Axes) -> None:
        for index, row in enumerate(shown):
            share = row.win_share
            low, high = _in_percent(share)
            interval_line(axes, low, high, index, color=FIRST, width=2.6 if index in strong else 1.4)
            if share.value is not None:
                axes.plot([100 * share.value], [index], marker="D" if index in strong else "o", color=FIRST)
        axes.axvline(50, **GUIDE)
        axes.set_xlim(0, 100)
        axes.set_xlabel(f"win share of {names[0]}, %\n(below 50: {names[1]} ahead)", loc="right")

    against = "" if several else f" of {first.method_a} against {first.method_b}"
    marked = f"; diamonds: p at most {alpha:g}" if strong else ""
    level = 100 * evidence.plan.level
    heading = f"Win shares{against}, with {level:g} % intervals; the dashed line is no preference{marked}"
    return in_rows(
        draw,
        labels,
        name=name,
        heading=heading,
        description=heading,
        strong=strong,
        lines=2,
        simulated=is_simulated(evidence),
        width=_width([*labels, *names]),
    )


def ranking_figure(evidence: Evidence, rows: Sequence[RankingRow], name: str) -> Drawing:
    """Return expected win shares with intervals, the best on top, and the possible ranks."""
    shown, level = rows[:MAX_LINES], 100 * evidence.plan.level

    def draw(axes: Axes) -> None:
        for index, row in enumerate(shown):
            low, high = _in_percent(row.expected_share)
            interval_line(axes, low, high, index, color=FIRST, width=1.8)
            axes.plot([100 * row.share], [index], marker="o", markersize=5, color=FIRST)
            axes.text(1.02, index, row.possible_ranks, transform=axes.get_yaxis_transform(), va="center")
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
        simulated=is_simulated(evidence),
        width=_width(labels),
    )


def _in_percent(share: Estimate) -> tuple[float | None, float | None]:
    """Return the limits of a share in percent."""
    low = None if share.low is None else 100 * share.low
    high = None if share.high is None else 100 * share.high
    return low, high


def _width(labels: Sequence[str]) -> float:
    """Return a figure's width: of one column if its labels leave room for the figure itself."""
    return NARROW if all(len(label) <= SHORT_LABEL for label in labels) else WIDTH
