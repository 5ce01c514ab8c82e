"""Figures for papers and notebooks: win shares with intervals, and rankings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from analysis.evidence import Evidence
from analysis.reports.sentences import has_simulated_verdicts
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.results.ranking import RankingRow, group_ranking_rows
from analysis.sections.results.shares import WinShareRow, measure_reported_shares
from analysis.sections.section import Cells, drop_labels_equal_in_all_rows, group_by, name_raters
from guard_eval.estimate import Estimate
from guard_eval.reporting.drawing import (
    FIRST,
    GUIDE,
    NARROW,
    WIDTH,
    Drawing,
    draw_interval,
    label_axis_in_percent,
    make_row_figure,
    shorten_label,
)
from guard_eval.reporting.words import find_criterion_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LINES = 30
"""The largest number of rows in a figure."""
SHORT_LABEL = 20
"""The largest number of letters of a label in a figure for one column of a page."""


def draw_figures(evidence: Evidence) -> dict[str, Drawing]:
    """Return the figures by name: one ranking per criterion, or the shares of each comparison."""
    if evidence.is_ranked:
        names = {f"ranking-{n}": rows for n, rows in enumerate(group_ranking_rows(evidence), start=1)}
        return {name: draw_ranking_figure(evidence, rows, name) for name, rows in names.items()}
    comparisons = group_by(evidence.rows(measure_reported_shares), lambda row: (row.rater_group, row.methods))
    shares = {f"shares-{n}": rows for n, rows in enumerate(comparisons.values(), start=1)}
    return {name: draw_share_figure(evidence, rows, name) for name, rows in shares.items()}


def draw_main_figure(evidence: Evidence) -> Drawing:
    """Return the one figure that a report writes for a manuscript."""
    if evidence.is_ranked:
        return draw_ranking_figure(evidence, group_ranking_rows(evidence)[0], "figure")
    return draw_share_figure(evidence, evidence.rows(select_rows_for_report_answer), "figure")


def make_share_row_labels(row: WinShareRow) -> Cells:
    """Return the labels of a win share in a paper: comparison, criterion, raters and dataset."""
    return {
        "Comparison": f"{row.method_a} against {row.method_b}",
        "Criterion": find_criterion_title(row.criterion),
        "Judged by": name_raters(row),
        "Dataset": row.dataset,
    }


def draw_share_figure(evidence: Evidence, rows: Sequence[WinShareRow], name: str) -> Drawing:
    """Draw a line for each win share with interval. Shares that differ from one half are emphasised."""
    rows = rows[:MAX_LINES]
    first = rows[0]
    alpha = evidence.plan.alpha
    words = drop_labels_equal_in_all_rows([make_share_row_labels(row) for row in rows])
    strong = {index for index, row in enumerate(rows) if row.is_significant(alpha)}
    ahead, behind, against = "the first-named", "the second", ""
    if "Comparison" not in words[0]:
        ahead, behind = shorten_label(first.method_a), shorten_label(first.method_b)
        against = f" of {first.method_a} against {first.method_b}"
    marked = f"; diamonds: p at most {alpha:g}" if strong else ""
    level = f"{100 * evidence.plan.level:g} %"
    return _draw_share_intervals(
        evidence,
        [row.win_share for row in rows],
        [" · ".join(map(str, cells.values())) for cells in words],
        name=name,
        heading=f"Win shares{against}, with {level} intervals; the dashed line is no preference{marked}",
        axis=f"win share of {ahead}, %\n(below 50: {behind} ahead)",
        names=(ahead, behind),
        strong=strong,
    )


def draw_ranking_figure(evidence: Evidence, rows: Sequence[RankingRow], name: str) -> Drawing:
    """Draw expected win shares with intervals, the best method on top, and the possible ranks."""
    rows = rows[:MAX_LINES]
    who = f"{find_criterion_title(rows[0].criterion)}, judged by {name_raters(rows[0])}"
    level = f"{100 * evidence.plan.level:g} %"
    return _draw_share_intervals(
        evidence,
        [row.expected_share for row in rows],
        [row.method for row in rows],
        name=name,
        heading=f"Expected win shares against the average other method on {who}, with {level} intervals and "
        "possible ranks",
        axis="expected win share, %\n(on the right: possible ranks)",
        remarks=[row.possible_ranks for row in rows],
    )


def _draw_share_intervals(
    evidence: Evidence,
    shares: Sequence[Estimate],
    labels: Sequence[str],
    *,
    name: str,
    heading: str,
    axis: str,
    names: Collection[str] = (),
    strong: Collection[int] = (),
    remarks: Sequence[str] = (),
) -> Drawing:
    """Draw a line for each share with interval.

    Args:
        evidence: The evidence.
        shares: The shares.
        labels: The labels of the shares.
        name: The figure's name.
        heading: The figure's title, which is also its text alternative.
        axis: The label of the axis.
        names: The methods whose names are filled into the label of the axis.
        strong: The lines to emphasise.
        remarks: A text on the right of each line.
    """

    def draw(axes: Axes) -> None:
        for index, share in enumerate(shares):
            is_strong = index in strong
            draw_interval(axes, share.low, share.high, index, color=FIRST, width=2.6 if is_strong else 1.6)
            if share.value is not None:
                axes.plot([share.value], [index], marker="D" if is_strong else "o", color=FIRST)
        for index, remark in enumerate(remarks):
            axes.text(1.02, index, remark, transform=axes.get_yaxis_transform(), va="center")
        axes.axvline(0.5, **GUIDE)
        if not remarks:  # the shares of a ranking lie close together
            axes.set_xlim(0, 1)
        label_axis_in_percent(axes)
        axes.set_xlabel(axis, loc="right")

    return make_row_figure(
        draw,
        labels,
        name=name,
        heading=heading,
        description=heading,
        strong=strong,
        lines=2,
        simulated=has_simulated_verdicts(evidence),
        # One column of a page is wide enough if the labels are short.
        width=NARROW if all(len(text) <= SHORT_LABEL for text in (*labels, *names)) else WIDTH,
    )
