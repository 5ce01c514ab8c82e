"""People's win share assisted by a judge, beside people alone and the judge alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.reports.columns import CELL_COLUMNS, comparisons, interval_name, left_columns
from analysis.reports.forest import ForestLine, forest
from analysis.reports.section import Section
from analysis.results.judges.assisted import AssistedRank, AssistedRow
from analysis.stats.intervals import Interval
from guard_eval.records import SIMULATED
from guard_eval.reporting.drawing import Drawing
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.figure_style import FIRST, SECOND
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import judge_name, limits, number, p_of, p_value, percent, sentence, title

JUDGES_SHOWN = 6
"""Judges in the page's table and figures; all of them are in assisted.csv."""

COLUMNS: Columns[AssistedRow] = {
    **CELL_COLUMNS,
    "judge": lambda row: row.judge,
    "people": lambda row: row.raters,
    "pairs_rated": lambda row: row.rated,
    "pairs_judged": lambda row: row.judged,
    "units_rated": lambda row: row.alone.n,
    "people_alone": lambda row: row.alone.estimate,
    "people_low": lambda row: row.alone.low,
    "people_high": lambda row: row.alone.high,
    "people_assisted": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.alone.level,
    "interval": lambda row: row.share.method,
    "judge_alone": lambda row: row.judged_alone.estimate,
    "judge_low": lambda row: row.judged_alone.low,
    "judge_high": lambda row: row.judged_alone.high,
    "p_assisted": lambda row: row.test.p_value,
    "p_holm": lambda row: row.adjusted,
    "test": lambda row: row.test.method,
    "lambda": lambda row: row.weight,
    "r": lambda row: row.correlation,
    "ratings": lambda row: row.ratings,
    "ratings_gained": lambda row: row.gained,
    "warnings": lambda row: "; ".join(row.share.warnings),
}

METHOD = (
    "People rated a part of the pairs that a judge judged. “People, assisted by” a judge is still "
    "people's win share: their share on the pairs they rated, plus λ times the difference between the "
    "judge's share on all its pairs and its share on theirs (prediction-powered inference, PPI++: "
    "Angelopoulos, Duchi and Zrnic 2023). It speaks of pairs like those the judge judged, and of the "
    "raters who took part."
)
NOT_DECLARED = "It is no part of the answer above, which rests on people alone."
LIMITS = (
    "A judge helps as far as it correlates with people within a dataset (r), and no further: with r = .5 "
    "the interval is at best 13 % narrower, with .8 40 %, however many pairs it judges. A judge that "
    "leans to one side, or that has nothing to do with people, does not move the share, and leaves the "
    "interval about as wide as it was. All of this rests on people's pairs being a random part within "
    "each dataset"
)
SIMULATED_NOTE = "The lines marked SIMULATED are of made-up people and a made-up judge: they show the method."
NOTE = (
    "Gained: how many more ratings people alone would have had to give for an interval as narrow; below 0 "
    "where tuning λ costs more than the judge gives. p: t test that people's share is one half; Holm: "
    "over the results of one judge."
)


RANK_NOTE = (
    "Win share: the mean of people's assisted shares against the others, each comparison weighing the same. "
    "Rank: with a chance of {level} all true ranks of a criterion lie in these sets at once (Mogstad, "
    "Romano, Shaikh and Wilhelm 2024, with Bonferroni); methods whose sets do not overlap differ."
)
RANK_COLUMNS: Columns[AssistedRank] = {
    "simulated": lambda row: row.rater_kind in SIMULATED,
    "criterion": lambda row: row.criterion,
    "judge": lambda row: row.judge,
    "method": lambda row: row.method,
    "win_share": lambda row: row.share,
    "rank_low": lambda row: row.low,
    "rank_high": lambda row: row.high,
    "level": lambda row: row.level,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareLine:
    """One of the three lines of a result."""

    row: AssistedRow
    name: str
    pairs: int
    share: Interval

    @property
    def is_assisted(self) -> bool:
        """Return whether it is the line of people and judge."""
        return self.share is self.row.share


def section(
    rows: Sequence[AssistedRow],
    ranks: Sequence[AssistedRank] = (),
    *,
    name_methods: bool,
    random: bool,
    declared: str | None = None,
) -> Section | None:
    """Return people alone, people assisted, and the judge alone; nothing where no judge judged more pairs.

    Args:
        rows: Of `assisted_lines`.
        ranks: Of `assisted_ranks`.
        name_methods: Whether the comparison must be named.
        random: Whether people's pairs are known to be a random part.
        declared: The judge who assists in the answer, where one was declared beforehand.
    """
    if not rows:
        return None
    names = list(dict.fromkeys((row.rater_kind, row.judge) for row in rows))
    shown = [row for row in rows if (row.rater_kind, row.judge) in names[:JUDGES_SHOWN]]
    found = [row for row in shown if row.share.estimate is not None]
    drawn = (
        "; here they were drawn so" if random else ", which the verdicts do not contradict and cannot show"
    )
    refused = [f"No assisted share for {row.share.warnings[0]}." for row in shown if row not in found]
    warnings = sorted({sentence(text) for row in found for text in row.share.warnings})
    if len(names) > JUDGES_SHOWN:
        warnings.append(
            f"The first {JUDGES_SHOWN} of {len(names)} judges are shown; all are in assisted.csv."
        )
    if any(row.simulated for row in shown):
        warnings.insert(0, SIMULATED_NOTE)
    answer = NOT_DECLARED if declared is None else f"The answer above takes that of {declared}, as declared."
    parts: tuple[Table | Drawing, ...] = (
        (
            _table(found, name_methods=name_methods),
            *(
                _forest(members, name=f"assisted-{number}")
                for number, members in comparisons(found, judges_apart=False)
            ),
        )
        if found
        else ()
    )
    exports = {"assisted": table_of(rows, COLUMNS)}
    if ranks:
        parts = (
            *parts,
            _rank_table([row for row in ranks if (row.rater_kind, row.judge) in names[:JUDGES_SHOWN]]),
        )
        exports["assisted_ranks"] = table_of(ranks, RANK_COLUMNS)
    return Section(
        anchor="assisted",
        title="People, assisted by a judge",
        paragraphs=(f"{METHOD} {answer}", f"{LIMITS}{drawn}.", *dict.fromkeys(refused), *warnings),
        parts=parts,
        exports=exports,
    )


def _rank_table(ranks: Sequence[AssistedRank]) -> Table:
    """Return the ranks of methods by people assisted by each judge."""
    columns: Columns[AssistedRank] = {
        "Criterion": lambda row: title(row.criterion),
        "Assisted by": lambda row: judge_name(row.judge, row.rater_kind),
        "Method": lambda row: row.method,
        "Win share": lambda row: percent(row.share),
        "Rank": lambda row: f"{row.low}" if row.low == row.high else f"{row.low} to {row.high}",
    }
    return table_of(
        ranks,
        columns,
        caption="Ranks by people, assisted by a judge",
        note=RANK_NOTE.format(level=percent(ranks[0].level, 0)),
        text_columns=3,
    )


def _lines(rows: Sequence[AssistedRow]) -> list[ShareLine]:
    lines = []
    for row in rows:
        judge = judge_name(row.judge, row.rater_kind)
        people = "SIMULATED people" if row.simulated else "people"
        lines += [
            ShareLine(row=row, name=f"{people} alone", pairs=row.rated, share=row.alone),
            ShareLine(row=row, name=f"{people}, assisted by {judge}", pairs=row.judged, share=row.share),
            ShareLine(row=row, name=f"{judge} alone", pairs=row.judged, share=row.judged_alone),
        ]
    return lines


def _table(rows: Sequence[AssistedRow], *, name_methods: bool) -> Table:
    first = rows[0]
    left: Columns[ShareLine] = {
        name: lambda line, cell=cell: cell(line.row)  # type: ignore[misc]
        for name, cell in left_columns(name_methods=name_methods).items()
    }

    def only_assisted(line: ShareLine, text: str) -> Cell:
        return text if line.is_assisted else NOTHING

    return table_of(
        _lines(rows),
        {
            **left,
            "Whose share": lambda line: line.name,
            "Pairs": lambda line: line.pairs,
            "Win share": lambda line: percent(line.share.estimate),
            interval_name(first.alone.level): lambda line: limits(line.share),
            "p": lambda line: only_assisted(line, p_of(line.row.test)),
            "Holm": lambda line: only_assisted(line, p_value(line.row.adjusted)),
            "λ": lambda line: only_assisted(line, number(line.row.weight)),
            "r": lambda line: only_assisted(line, number(line.row.correlation)),
            "Gained": lambda line: only_assisted(line, number(line.row.gained, 0)),
        },
        caption="Win shares of people, of people assisted by a judge, and of the judge"
        + ("" if name_methods else f": {first.method_a} against {first.method_b}"),
        note=NOTE,
        text_columns=len(left) + 1,
        strong=lambda line: line.is_assisted,
    )


def _forest(rows: Sequence[AssistedRow], *, name: str) -> Drawing:
    """Return the three shares of each result with their intervals."""
    a, b = rows[0].method_a, rows[0].method_b
    return forest(
        [
            ForestLine(
                label=f"{title(line.row.criterion)}: {line.name}",
                share=line.share,
                strong=line.is_assisted,
                color=SECOND if line.share is line.row.judged_alone else FIRST,
            )
            for line in _lines(rows)
        ],
        methods=(a, b),
        name=name,
        heading=f"Win share of {a} against {b}: people, assisted people, judge",
        breaks=2,
        simulated=rows[0].simulated,
    )
