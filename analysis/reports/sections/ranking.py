"""Which of many methods is best: strengths, ranks and how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from analysis.reports.columns import interval_name
from analysis.reports.section import Section
from analysis.results.ranking import RankingRow
from analysis.stats.intervals import Interval
from analysis.stats.ranks.bootstrap import RankInterval
from guard_eval.records import SIMULATED
from guard_eval.reporting.drawing import GUIDE, Drawing, in_rows, interval_line
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.figure_style import FIRST
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import (
    capital,
    equals,
    judged_by,
    limits,
    number,
    number_limits,
    percent,
    title,
)

MOST_FIGURES = 6
"""Figures of rankings in a report; the tables have them all."""
TABLES_OPEN = 4
"""Tables that need not be opened."""

MODEL = (
    "Davidson's model gives each method a strength, from all its comparisons and with ties as verdicts "
    "of their own: the odds that one method is preferred to another are e to the power of the difference "
    "of their strengths. It takes for granted that strengths add up: if A is as far ahead of B as B of "
    "C, it is twice as far ahead of C."
)
NOTE = (
    "Ranks possible: with a chance of {level} all true ranks lie in these sets at once; methods whose sets "
    "do not overlap are told apart. Expected share: against the average other method, ties split. Strength: "
    "on a log scale, summing to 0."
)
METHOD = (
    "Ranks: {model} Sets of ranks follow from the differences of expected shares, with sandwich errors over "
    "{unit}, taken at strengths that are drawn towards their mean by as much of their spread as is error, "
    "and the largest of all differences by simulation (Mogstad, Romano, Shaikh and Wilhelm 2024). "
    "Intervals of strengths and shares come from resampling {unit}, one method at a time. Any difference: "
    "all comparisons on a criterion in one test, by sign flips of {unit}, with Holm over the criteria of "
    "people or one judge; it asks whether a method wins more than it loses over all its comparisons. To be "
    "preferred in a circle (A to B, B to C, C to A) is no difference to it, and shows in the comparisons."
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
    possible: tuple[int, int] | None
    place: int


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
            possible=row.sets[place] if row.sets else None,
            place=number,
        )
        for number, place in enumerate(row.order, start=1)
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
    "possible_best": lambda one: None if one.possible is None else one.possible[0],
    "possible_worst": lambda one: None if one.possible is None else one.possible[1],
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
    "p_any_difference": lambda one: one.row.difference.p_value,
    "p_any_difference_holm": lambda one: one.row.adjusted,
    "any_difference_test": lambda one: one.row.difference.method,
    "undefined_because": lambda one: one.row.ranking.estimate.reason,
    "warnings": lambda one: "; ".join(one.row.warnings),
}


def section(rows: Sequence[RankingRow]) -> Section | None:
    """Return the rankings; None where no more than two methods are compared."""
    if not rows:
        return None
    known = [row for row in rows if row.ranking.estimate.strengths is not None]
    drawn = known[:MOST_FIGURES]
    parts: list[Table | Drawing] = []
    for place, row in enumerate(rows):
        if row in drawn:
            parts.append(_figure(row, name=f"ranking-{drawn.index(row) + 1}"))
        parts.append(_table(row, folded=place >= TABLES_OPEN))
    return Section(
        anchor="ranking",
        title="Ranking",
        paragraphs=(NOTE.format(level=percent(rows[0].ranking.level, 0)),),
        parts=tuple(parts),
        exports={"ranking": table_of([one for row in rows for one in _ranked(row)], COLUMNS)},
    )


def method(rows: Sequence[RankingRow]) -> tuple[str, ...]:
    """Return how ranks were found, for the account of methods; nothing without rows."""
    units = " or ".join(sorted({row.unit for row in rows}))
    return (METHOD.format(model=MODEL, unit=units),) if rows else ()


def _table(row: RankingRow, *, folded: bool) -> Table:
    """Return the methods of one ranking, the strongest first."""
    level = interval_name(row.ranking.level)
    return table_of(
        _ranked(row),
        {
            "Method": lambda one: one.name,
            "Rank": lambda one: one.place,
            "Ranks possible": lambda one: _ranks(one.possible),
            "Expected share": lambda one: percent(one.share.estimate),
            f"{level} of the share": lambda one: limits(one.share),
            "Strength": lambda one: number(one.strength.estimate),
            f"{level} of the strength": lambda one: number_limits(one.strength),
        },
        caption=f"The methods by strength on {title(row.criterion)}, judged by {judged_by(*row.who)}",
        note=_remark(row),
        folded=folded,
    )


def _remark(row: RankingRow) -> str:
    found = row.ranking.estimate
    where = f"{capital(title(row.criterion))}, {judged_by(row.rater_kind, row.judge)}"
    of = f"{found.n:g} comparisons of {row.ranking.n} {row.unit}"
    if found.strengths is None:
        warnings = ". ".join(dict.fromkeys(row.warnings))
        return f"{where}: {of}; strengths are undefined: {found.reason}. {warnings}."
    ties = f"; methods of equal strength tie in {percent(row.tied, 0)}" if row.tied is not None else ""
    p = f"any difference: {equals(row.adjusted)}"
    return ". ".join((f"{where}: {of}{ties}; {p}", *row.warnings)) + "."


def _figure(row: RankingRow, *, name: str) -> Drawing:
    methods = _ranked(row)

    def draw(axes: Axes) -> None:
        for place, one in enumerate(methods):
            interval_line(axes, one.strength.low, one.strength.high, place, color=FIRST, width=1.8)
            assert one.strength.estimate is not None
            axes.plot([one.strength.estimate], [place], marker="o", markersize=6, color=FIRST)
            # Beside the frame, where no interval can reach.
            label = f"{one.place}" if one.possible is None else _ranks(one.possible)
            axes.text(1.02, place, label, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)
        axes.axvline(0, **GUIDE)
        axes.set_xlabel("strength (0: the average); on the right the ranks possible")

    described = "; ".join(
        f"{one.name}: rank {one.place}, possible {_ranks(one.possible)}, "
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


def _ranks(possible: tuple[int, int] | None) -> str:
    if possible is None:
        return NOTHING
    low, high = possible
    return f"{low}" if low == high else f"{low} to {high}"
