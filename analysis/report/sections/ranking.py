"""Which of many methods is best: strengths, ranks and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from analysis.report.columns import interval_name
from analysis.report.section import Section
from analysis.results.ranking import RankingRow
from analysis.stats.intervals import Interval
from analysis.stats.ranks.bootstrap import RankInterval
from guard_eval.records import SIMULATED
from guard_eval.reporting.drawing import GUIDE, Drawing, in_rows, interval_line
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.figure_style import FIRST
from guard_eval.reporting.tables import Columns, table_of
from guard_eval.reporting.words import capital, judged_by, limits, number, number_limits, percent, title

MOST_FIGURES = 8
"""Figures of rankings in a report; the table has them all."""

MODEL = (
    "Davidson's model gives each method a strength, from all its comparisons and with ties as verdicts "
    "of their own: the odds that one method is preferred to another are e to the power of the difference "
    "of their strengths. It takes for granted that strengths add up: if A is as far ahead of B as B of "
    "C, it is twice as far ahead of C."
)
NOTE = (
    "Strength: on a log scale, summing to 0. Expected share: against the average other method, ties split. "
    "Intervals, also of ranks, come from drawing {unit} anew, one method at a time: that several methods "
    "have the ranks shown all at once is less sure. Ranks that overlap are not distinguished."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedMethod:
    """One method of a ranking."""

    row: RankingRow
    name: str
    strength: Interval
    share: Interval
    rank: RankInterval
    half_wins: float | None


def _ranked(row: RankingRow) -> list[RankedMethod]:
    """Return the methods of a ranking, the strongest first."""
    found = row.ranking
    return [
        RankedMethod(
            row=row,
            name=found.estimate.methods[place],
            strength=found.strengths[place],
            share=found.shares[place],
            rank=found.ranks[place],
            half_wins=None if row.half_wins is None else row.half_wins[place],
        )
        for place in row.order
    ]


COLUMNS: Columns[RankedMethod] = {
    "simulated": lambda one: one.row.rater_kind in SIMULATED,
    "rater_kind": lambda one: one.row.rater_kind,
    "judge": lambda one: one.row.judge,
    "criterion": lambda one: one.row.criterion,
    "method": lambda one: one.name,
    "rank": lambda one: one.rank.estimate,
    "rank_best": lambda one: one.rank.low,
    "rank_worst": lambda one: one.rank.high,
    "strength": lambda one: one.strength.estimate,
    "strength_low": lambda one: one.strength.low,
    "strength_high": lambda one: one.strength.high,
    "expected_share": lambda one: one.share.estimate,
    "expected_share_low": lambda one: one.share.low,
    "expected_share_high": lambda one: one.share.high,
    "level": lambda one: one.row.ranking.level,
    "log_nu": lambda one: one.row.ranking.estimate.log_nu,
    "ties_of_equals": lambda one: one.row.tied,
    "comparisons": lambda one: one.row.ranking.estimate.n,
    "items": lambda one: one.row.ranking.n,
    "item": lambda one: one.row.unit,
    "model": lambda one: one.row.ranking.estimate.method,
    "interval": lambda one: one.row.ranking.method,
    "draws_without_strengths": lambda one: one.row.ranking.undefined,
    "strength_half_win_bradley_terry": lambda one: one.half_wins,
    "undefined_because": lambda one: one.row.ranking.estimate.reason,
    "warnings": lambda one: "; ".join(one.row.warnings),
}


def section(rows: Sequence[RankingRow]) -> Section | None:
    """Return the rankings; None where no more than two methods are compared."""
    if not rows:
        return None
    methods = [one for row in rows for one in _ranked(row)]
    level = interval_name(rows[0].ranking.level)
    table = table_of(
        methods,
        {
            "Criterion": lambda one: title(one.row.criterion),
            "Judged by": lambda one: judged_by(one.row.rater_kind, one.row.judge),
            "Method": lambda one: one.name,
            "Rank": lambda one: "undefined" if one.rank.estimate is None else one.rank.estimate,
            f"{level} of the rank": lambda one: _ranks(one.rank),
            "Strength": lambda one: number(one.strength.estimate),
            f"{level} of the strength": lambda one: number_limits(one.strength),
            "Expected share": lambda one: percent(one.share.estimate),
            f"{level} of the share": lambda one: limits(one.share),
        },
        caption="The methods by strength",
        note=" ".join(
            (NOTE.format(unit=" or ".join(sorted({row.unit for row in rows}))), *map(_remark, rows))
        ),
        text_columns=3,
    )
    known = [row for row in rows if row.ranking.estimate.strengths is not None]
    figures = [_figure(row, name=f"ranking-{number}") for number, row in enumerate(known[:MOST_FIGURES], 1)]
    return Section(
        anchor="ranking",
        title="Ranking",
        paragraphs=(MODEL,),
        parts=(table, *figures),
        exports={"ranking": table_of(methods, COLUMNS)},
    )


def _remark(row: RankingRow) -> str:
    found = row.ranking.estimate
    where = f"{capital(title(row.criterion))}, {judged_by(row.rater_kind, row.judge)}"
    of = f"{found.n:g} comparisons of {row.ranking.n} {row.unit}"
    if found.strengths is None:
        return f"{where}: {of}; strengths are undefined: {found.reason}."
    ties = f"; methods of equal strength tie in {percent(row.tied, 0)}" if row.tied is not None else ""
    return ". ".join((f"{where}: {of}{ties}", *row.warnings)) + "."


def _figure(row: RankingRow, *, name: str) -> Drawing:
    methods = _ranked(row)

    def draw(axes: Axes) -> None:
        for place, one in enumerate(methods):
            interval_line(axes, one.strength.low, one.strength.high, place, color=FIRST, width=1.8)
            assert one.strength.estimate is not None
            axes.plot([one.strength.estimate], [place], marker="o", markersize=6, color=FIRST)
            # Beside the frame, where no interval can reach.
            rank = f"{one.rank.estimate}"
            label = rank if one.rank.low == one.rank.high else f"{rank} ({_ranks(one.rank)})"
            axes.text(1.02, place, label, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        axes.axvline(0, **GUIDE)
        axes.set_xlabel("strength (0: the average); on the right the rank with its interval")

    described = "; ".join(
        f"{one.name}: rank {one.rank.estimate}, {_ranks(one.rank)}, "
        f"strength {number(one.strength.estimate)}, interval {number_limits(one.strength)}"
        for one in methods
    )
    return in_rows(
        draw,
        [one.name for one in methods],
        name=name,
        heading=f"Strengths on {title(row.criterion)}, judged by {judged_by(row.rater_kind, row.judge)}",
        description=f"{described}. The dashed line is the average strength.",
        simulated=row.rater_kind in SIMULATED,
    )


def _ranks(rank: RankInterval) -> str:
    if rank.low is None or rank.high is None:
        return NOTHING
    return f"{rank.low}" if rank.low == rank.high else f"{rank.low} to {rank.high}"
