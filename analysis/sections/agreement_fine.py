"""Agreement in detail: on each verdict, and of each two raters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from statistics import median

from analysis.agreement import AgreementRow
from analysis.columns import full_table
from analysis.pairwise import FineRow, PairOfRaters
from analysis.render import Table
from analysis.words import RATERS, number, title
from guard_eval.escaping import NOTHING, Cell

MATRIX_RATERS = 8
"""Up to so many raters their κ are shown two by two."""
MATRICES = 6
"""Such tables in a report; every κ is in agreement_of_two.csv."""

VERDICTS_NOTE = (
    "Fleiss' κ of each verdict against the two others: whether raters agree on calling a pair a tie, or on a "
    "method's being better. AC2, with ordinal weights, counts a tie beside a method as partial agreement."
)
TWO_NOTE = (
    "Cohen's κ of each two raters on the pairs that both rated. One rater apart from all others pulls down "
    "every κ he has a part in. κ is undefined, and not counted, where two gave one verdict throughout. All "
    "of them, with intervals, are in agreement_of_two.csv."
)
MATRIX_NOTE = "Below the diagonal: Cohen's κ. Above it: how many pairs both rated."

DETAIL: dict[str, Callable[[FineRow], Cell]] = {
    "gwet_ac2_ordinal": lambda row: row.ac2.value,
    "ac2_low": lambda row: row.ac2.low,
    "ac2_high": lambda row: row.ac2.high,
    "kappa_method_a": lambda row: row.categories[0].kappa,
    "kappa_method_a_low": lambda row: row.categories[0].low,
    "kappa_method_a_high": lambda row: row.categories[0].high,
    "kappa_tie": lambda row: row.categories[1].kappa,
    "kappa_tie_low": lambda row: row.categories[1].low,
    "kappa_tie_high": lambda row: row.categories[1].high,
    "kappa_method_b": lambda row: row.categories[2].kappa,
    "kappa_method_b_low": lambda row: row.categories[2].low,
    "kappa_method_b_high": lambda row: row.categories[2].high,
    "two_raters_median_kappa": lambda row: median(row.kappas) if row.kappas else None,
    "two_raters_lowest_kappa": lambda row: row.kappas[0] if row.kappas else None,
    "two_raters_highest_kappa": lambda row: row.kappas[-1] if row.kappas else None,
    "no_two_raters_because": lambda row: row.reason,
}

PAIRS: dict[str, Callable[[tuple[FineRow, PairOfRaters]], Cell]] = {
    "simulated": lambda one: one[0].rater_kind == "simulated",
    "rater_kind": lambda one: one[0].rater_kind,
    "method_a": lambda one: one[0].method_a,
    "method_b": lambda one: one[0].method_b,
    "criterion": lambda one: one[0].criterion,
    "rater_1": lambda one: one[1].first,
    "rater_2": lambda one: one[1].second,
    "pairs_both_rated": lambda one: one[1].kappa.n,
    "raw_agreement": lambda one: one[1].kappa.raw,
    "chance_agreement": lambda one: one[1].kappa.expected,
    "cohen_kappa": lambda one: one[1].kappa.value,
    "low": lambda one: one[1].kappa.low,
    "high": lambda one: one[1].kappa.high,
    "level": lambda one: one[1].kappa.level,
    "method": lambda one: one[1].kappa.method,
    "undefined_because": lambda one: one[1].kappa.reason,
    "warnings": lambda one: "; ".join(one[1].kappa.warnings),
}


def parts(rows: tuple[FineRow, ...], *, name_methods: bool) -> tuple[Table, ...]:
    """Return the tables that the rows give: none of one rater, matrices of a few."""
    several = tuple(row for row in rows if row.pairs)
    tables = [verdict_table(rows, name_methods=name_methods)] if any(row.ac2.n for row in rows) else []
    if several:
        tables.append(two_table(several, name_methods=name_methods))
    small = (row for row in several if 3 <= len(row.raters) <= MATRIX_RATERS)
    tables += [matrix(row, name_methods=name_methods) for row in islice(small, MATRICES)]
    return tuple(tables)


def verdict_table(rows: tuple[FineRow, ...], *, name_methods: bool) -> Table:
    """Return κ of each verdict, and AC2."""
    names = _names(name_methods=name_methods)
    first = rows[0]
    a, b = ("first", "second") if name_methods else (first.method_a, first.method_b)
    return Table(
        columns=(*names, f"κ of {a} better", "κ of a tie", f"κ of {b} better", "Gwet's AC2, ordinal"),
        rows=tuple(
            (
                *_left(row, name_methods=name_methods),
                *(_with_limits(one.kappa, one.low, one.high) for one in row.categories),
                _with_limits(row.ac2.value, row.ac2.low, row.ac2.high),
            )
            for row in rows
        ),
        caption="Agreement on each verdict",
        note=" ".join((VERDICTS_NOTE, *_why_undefined(rows))),
        text_columns=len(names),
    )


def two_table(rows: tuple[FineRow, ...], *, name_methods: bool) -> Table:
    """Return the spread of Cohen's κ over each two raters."""
    names = (*_names(name_methods=name_methods), "Lowest of", "Highest of")
    return Table(
        columns=(*names, "Combinations", "Median κ", "Lowest", "Highest"),
        rows=tuple(_spread(row, name_methods=name_methods) for row in rows),
        caption="Agreement of each two raters",
        note=TWO_NOTE,
        text_columns=len(names),
    )


def matrix(row: FineRow, *, name_methods: bool) -> Table:
    """Return Cohen's κ of each two of a few raters."""
    found = {(pair.first, pair.second): pair.kappa for pair in row.pairs}
    lines = []
    for place, rater in enumerate(row.raters):
        cells: list[Cell] = [rater]
        for other_place, other in enumerate(row.raters):
            kappa = found.get((min(rater, other), max(rater, other)))
            if place == other_place:
                cells.append("")
            elif place < other_place:
                cells.append(0 if kappa is None else kappa.n)
            else:
                cells.append(NOTHING if kappa is None else _with_limits(kappa.value, None, None))
        lines.append(tuple(cells))
    comparison = f"{row.method_a} against {row.method_b}, " if name_methods else ""
    return Table(
        columns=("Rater", *row.raters),
        rows=tuple(lines),
        caption=f"Two by two: {comparison}{title(row.criterion)}, {RATERS[row.rater_kind]}",
        note=MATRIX_NOTE,
    )


def pairs_of(rows: Sequence[FineRow]) -> Iterator[tuple[FineRow, PairOfRaters]]:
    """Return each two raters with the row they belong to."""
    return ((row, pair) for row in rows for pair in row.pairs)


def beside(table: Table, rows: Sequence[AgreementRow], fine: Sequence[FineRow]) -> Table:
    """Return the export of `rows` with the details of the same comparison, criterion and kind beside it."""
    if not fine:
        return table
    detail = {_key(row): cells for row, cells in zip(fine, full_table(DETAIL, fine).rows, strict=True)}
    return Table(
        columns=(*table.columns, *DETAIL),
        rows=tuple((*cells, *detail[_key(row)]) for row, cells in zip(rows, table.rows, strict=True)),
        caption=table.caption,
    )


def _key(row: AgreementRow | FineRow) -> tuple[str, str, str, str]:
    return (row.method_a, row.method_b, row.criterion, row.rater_kind)


def _names(*, name_methods: bool) -> tuple[str, ...]:
    return (*(("Comparison",) if name_methods else ()), "Criterion", "Judged by")


def _left(row: FineRow, *, name_methods: bool) -> tuple[str, ...]:
    methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
    return (*methods, title(row.criterion), RATERS[row.rater_kind])


def _spread(row: FineRow, *, name_methods: bool) -> tuple[Cell, ...]:
    left = _left(row, name_methods=name_methods)
    defined = [(pair.kappa.value, pair) for pair in row.pairs if pair.kappa.value is not None]
    if not defined:
        return (*left, NOTHING, NOTHING, len(row.pairs), "undefined", NOTHING, NOTHING)
    lowest, least = min(defined, key=lambda one: one[0])
    highest, most = max(defined, key=lambda one: one[0])
    return (
        *left,
        f"{least.first}, {least.second}",
        f"{most.first}, {most.second}",
        len(row.pairs),
        number(median(row.kappas)),
        number(lowest),
        number(highest),
    )


def _why_undefined(rows: Sequence[FineRow]) -> tuple[str, ...]:
    reasons = sorted({one.reason for row in rows for one in row.categories if one.kappa is None})
    same = "all verdicts are the same, so chance agreement is complete"
    return tuple(
        f"κ of a verdict is undefined where {'nobody, or everybody, gave it' if why == same else why}."
        for why in reasons
    )


def _with_limits(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "undefined"
    if low is None or high is None:
        return number(value)
    return f"{number(value)} ({number(low)} to {number(high)})"
