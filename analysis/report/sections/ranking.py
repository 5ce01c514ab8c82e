"""Which of many methods is best: strengths, ranks and how sure they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from matplotlib.axes import Axes

from analysis.report.columns import full_table
from analysis.report.section import Section
from analysis.results.ranking import RankingRow
from analysis.stats.intervals import Interval
from analysis.stats.ranking_bootstrap import RankInterval
from guard_eval.reporting.drawing import INK, Drawing, in_rows
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.figure_style import FIRST
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import RATERS, limits, number, percent, title

MOST_FIGURES = 8
"""Figures of rankings in a report; the table has them all."""

WHAT = {
    "davidson": (
        "Davidson's model gives each method a strength, from all its comparisons and with ties as verdicts "
        "of their own: the odds that one method is preferred to another are e to the power of the difference "
        "of their strengths. It takes for granted that strengths add up: if A is as far ahead of B as B of "
        "C, it is twice as far ahead of C."
    ),
    "half-win": (
        "Bradley and Terry's model with each tie as half a win to both. Half wins shrink the strengths where "
        "there are many ties; Davidson's model does not."
    ),
}
NOTE = (
    "Strength: on a log scale, summing to 0. Expected share: against the average other method, ties split. "
    "Intervals, also of ranks, come from drawing {unit} anew, one method at a time: that several methods "
    "have the ranks shown all at once is less sure. Ranks that overlap are not told apart."
)

Place = tuple[RankingRow, int]
"""A ranking, and one method's place among its methods."""


def _estimate(row: RankingRow, place: int) -> tuple[Interval, Interval, RankInterval]:
    return row.ranking.strengths[place], row.ranking.shares[place], row.ranking.ranks[place]


COLUMNS: dict[str, Callable[[Place], Cell]] = {
    "simulated": lambda one: one[0].rater_kind == "simulated",
    "rater_kind": lambda one: one[0].rater_kind,
    "criterion": lambda one: one[0].criterion,
    "method": lambda one: one[0].ranking.estimate.methods[one[1]],
    "rank": lambda one: one[0].ranking.ranks[one[1]].estimate,
    "rank_best": lambda one: one[0].ranking.ranks[one[1]].low,
    "rank_worst": lambda one: one[0].ranking.ranks[one[1]].high,
    "strength": lambda one: one[0].ranking.strengths[one[1]].estimate,
    "strength_low": lambda one: one[0].ranking.strengths[one[1]].low,
    "strength_high": lambda one: one[0].ranking.strengths[one[1]].high,
    "expected_share": lambda one: one[0].ranking.shares[one[1]].estimate,
    "expected_share_low": lambda one: one[0].ranking.shares[one[1]].low,
    "expected_share_high": lambda one: one[0].ranking.shares[one[1]].high,
    "level": lambda one: one[0].ranking.level,
    "log_nu": lambda one: one[0].ranking.estimate.log_nu,
    "ties_of_equals": lambda one: one[0].tied,
    "comparisons": lambda one: one[0].ranking.estimate.n,
    "items": lambda one: one[0].ranking.n,
    "item": lambda one: one[0].unit,
    "model": lambda one: one[0].ranking.estimate.method,
    "interval": lambda one: one[0].ranking.method,
    "draws_without_strengths": lambda one: one[0].ranking.undefined,
    "strength_half_win_bradley_terry": lambda one: (
        None if one[0].half_wins is None else one[0].half_wins[one[1]]
    ),
    "undefined_because": lambda one: one[0].ranking.estimate.reason,
    "warnings": lambda one: "; ".join(one[0].warnings),
}


def section(rows: Sequence[RankingRow]) -> Section | None:
    """Return the rankings; None where no more than two methods are compared."""
    if not rows:
        return None
    return Section(
        anchor="ranking",
        title="Ranking",
        paragraphs=(WHAT[rows[0].model],),
        parts=(ranking_table(rows), *_figures(rows)),
        exports={"ranking": full_table(COLUMNS, _places(rows))},
    )


def ranking_table(rows: Sequence[RankingRow]) -> Table:
    """Return strength, expected share and rank of every method, the strongest of each criterion first."""
    level = f"{percent(rows[0].ranking.level, 0)} interval"
    return Table(
        columns=(
            *("Criterion", "Judged by", "Method", "Rank", f"{level} of the rank"),
            *("Strength", f"{level} of the strength", "Expected share", f"{level} of the share"),
        ),
        rows=tuple(_cells(row, place) for row, place in _places(rows)),
        caption="The methods by strength",
        note=" ".join(
            (
                NOTE.format(unit=" or ".join(sorted({row.unit for row in rows}))),
                *(_remark(row) for row in rows),
            )
        ),
        text_columns=3,
    )


def _places(rows: Sequence[RankingRow]) -> Iterator[Place]:
    return ((row, place) for row in rows for place in row.order)


def _cells(row: RankingRow, place: int) -> tuple[Cell, ...]:
    strength, share, rank = _estimate(row, place)
    left = (title(row.criterion), RATERS[row.rater_kind], row.ranking.estimate.methods[place])
    if strength.estimate is None:
        return (*left, "undefined", *(NOTHING,) * 5)
    return (
        *left,
        rank.estimate,
        _ranks(rank),
        number(strength.estimate),
        _ends(strength),
        percent(share.estimate),
        limits(share),
    )


def _remark(row: RankingRow) -> str:
    found = row.ranking.estimate
    where = f"{title(row.criterion).capitalize()}, {RATERS[row.rater_kind]}"
    of = f"{found.n:g} comparisons of {row.ranking.n} {row.unit}"
    if found.strengths is None:
        return f"{where}: {of}; strengths are undefined: {found.reason}."
    ties = f"; methods of equal strength tie in {percent(row.tied, 0)}" if row.tied is not None else ""
    return ". ".join((f"{where}: {of}{ties}", *row.warnings)) + "."


def _figures(rows: Sequence[RankingRow]) -> tuple[Drawing, ...]:
    known = [row for row in rows if row.ranking.estimate.strengths is not None]
    return tuple(
        _figure(row, name=f"ranking-{number}") for number, row in enumerate(known[:MOST_FIGURES], start=1)
    )


def _figure(row: RankingRow, *, name: str) -> Drawing:
    found = [_estimate(row, place) for place in row.order]
    names = [row.ranking.estimate.methods[place] for place in row.order]

    def draw(axes: Axes) -> None:
        for place, (strength, _, rank) in enumerate(found):
            if strength.low is not None and strength.high is not None:
                ends = [strength.low, strength.high]
                axes.plot(ends, [place, place], color=FIRST, linewidth=1.8, solid_capstyle="butt")
            assert strength.estimate is not None
            axes.plot([strength.estimate], [place], marker="o", markersize=6, color=FIRST)
            # Beside the frame, where no interval can reach.
            label = f"{rank.estimate}" if rank.low == rank.high else f"{rank.estimate} ({_ranks(rank)})"
            axes.text(1.02, place, label, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set_xlabel("strength (0: the average); on the right the rank with its interval")
        axes.grid(visible=True, axis="x", color=INK, alpha=0.12, linewidth=0.6)

    described = "; ".join(
        f"{method}: rank {rank.estimate}, {_ranks(rank)}, strength {number(strength.estimate or 0.0)}, "
        f"interval {_ends(strength)}"
        for method, (strength, _, rank) in zip(names, found, strict=True)
    )
    return in_rows(
        draw,
        names,
        name=name,
        heading=f"Strengths on {title(row.criterion)}, judged by {RATERS[row.rater_kind]}",
        description=f"{described}. The dashed line is the average strength.",
        simulated=row.rater_kind == "simulated",
    )


def _ranks(rank: RankInterval) -> str:
    if rank.low is None or rank.high is None:
        return NOTHING
    return f"{rank.low}" if rank.low == rank.high else f"{rank.low} to {rank.high}"


def _ends(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return NOTHING
    return f"{number(interval.low)} to {number(interval.high)}"
