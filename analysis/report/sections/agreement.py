"""Agreement between raters of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median

from analysis.report.agreement_figure import dots
from analysis.report.columns import CELL_COLUMNS, full_table, left_cells, left_names, with_limits
from analysis.report.section import Section
from analysis.results.agreement import AgreementRow, PairOfRaters
from guard_eval.reporting.drawing import Drawing
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import RATERS, number, percent, title

MATRIX_RATERS = 8
"""Up to so many raters their κ are shown two by two."""
MATRICES = 6
"""Such tables in a report; every κ is in agreement_of_two.csv."""

NOTE = (
    "Raw agreement: how often two raters of a pair say the same. κ corrects it for what chance would give; "
    "where one verdict dominates it is low even if raters mostly agree, so read both. α counts a tie as "
    "half-way between the methods; AC1 suffers less where one verdict dominates. Intervals are linearised, "
    "over prompts where they are known, else pairs."
)

PARADOX = "raters mostly agree, and κ is low because one verdict dominates."

COLUMNS: dict[str, Callable[[AgreementRow], Cell]] = {
    **CELL_COLUMNS,
    "items": lambda row: row.items,
    "raters": lambda row: len(row.raters),
    "items_rated_twice": lambda row: row.agreement.n,
    "ratings": lambda row: row.agreement.ratings,
    "raw_agreement": lambda row: row.agreement.raw,
    "chance_agreement": lambda row: row.agreement.expected,
    "fleiss_kappa": lambda row: row.agreement.value,
    "low": lambda row: row.agreement.low,
    "high": lambda row: row.agreement.high,
    "level": lambda row: row.agreement.level,
    "standard_error": lambda row: row.agreement.standard_error,
    "method": lambda row: row.agreement.method,
    "krippendorff_alpha_ordinal": lambda row: row.alpha.value,
    "alpha_low": lambda row: row.alpha.low,
    "alpha_high": lambda row: row.alpha.high,
    "gwet_ac1": lambda row: row.ac1.value,
    "ac1_low": lambda row: row.ac1.low,
    "ac1_high": lambda row: row.ac1.high,
    "prevalence_paradox": lambda row: row.paradox,
    "undefined_because": lambda row: row.agreement.reason,
    "warnings": lambda row: "; ".join(row.agreement.warnings),
    "gwet_ac2_ordinal": lambda row: row.ac2.value,
    "ac2_low": lambda row: row.ac2.low,
    "ac2_high": lambda row: row.ac2.high,
    "kappa_method_a": lambda row: row.categories[0].value,
    "kappa_method_a_low": lambda row: row.categories[0].low,
    "kappa_method_a_high": lambda row: row.categories[0].high,
    "kappa_tie": lambda row: row.categories[1].value,
    "kappa_tie_low": lambda row: row.categories[1].low,
    "kappa_tie_high": lambda row: row.categories[1].high,
    "kappa_method_b": lambda row: row.categories[2].value,
    "kappa_method_b_low": lambda row: row.categories[2].low,
    "kappa_method_b_high": lambda row: row.categories[2].high,
    "two_raters_median_kappa": lambda row: median(row.kappas) if row.kappas else None,
    "two_raters_lowest_kappa": lambda row: row.kappas[0] if row.kappas else None,
    "two_raters_highest_kappa": lambda row: row.kappas[-1] if row.kappas else None,
    "no_two_raters_because": lambda row: row.no_pairs,
}
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

PAIRS: dict[str, Callable[[tuple[AgreementRow, PairOfRaters]], Cell]] = {
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


def section(rows: Sequence[AgreementRow], *, name_methods: bool) -> Section | None:
    """Return raw agreement, its coefficients and the agreement of each two raters; None without rows."""
    if not rows:
        return None
    rows = tuple(rows)
    several = tuple(row for row in rows if row.pairs)
    parts: list[Table | Drawing] = [
        agreement_table(rows, name_methods=name_methods),
        *dots(rows, name_methods=name_methods),
    ]
    exports = {"agreement": full_table(COLUMNS, rows)}
    if any(row.ac2.n for row in rows):
        parts.append(verdict_table(rows, name_methods=name_methods))
    if several:
        parts.append(two_table(several, name_methods=name_methods))
        each = ((row, pair) for row in several for pair in row.pairs)
        exports["agreement_of_two"] = full_table(PAIRS, each)
    small = (row for row in several if 3 <= len(row.raters) <= MATRIX_RATERS)
    parts += [matrix(row, name_methods=name_methods) for row in islice(small, MATRICES)]
    return Section(anchor="agreement", title="Agreement", parts=tuple(parts), exports=exports)


def agreement_table(rows: tuple[AgreementRow, ...], *, name_methods: bool = True) -> Table:
    """Return raw agreement and Fleiss' κ; the note says why κ is missing where it is."""
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        result = row.agreement
        kappa = with_limits(result.value, None, None)
        interval = (
            NOTHING
            if result.low is None or result.high is None
            else f"{number(result.low)} to {number(result.high)}"
        )
        left = left_cells(row, name_methods=name_methods)
        others = tuple(with_limits(one.value, one.low, one.high) for one in (row.alpha, row.ac1))
        cells.append((*left, len(row.raters), result.n, percent(result.raw), kappa, interval, *others))
    names = left_names(name_methods=name_methods)
    interval = f"{percent(rows[0].agreement.level, 0)} interval"
    reasons = sorted({row.agreement.reason for row in rows if row.agreement.reason})
    remarks = [f"κ is undefined where {reason}." for reason in reasons]
    remarks += [
        f"{text[0].upper()}{text[1:]}."
        for text in sorted({text for row in rows for text in row.agreement.warnings})
    ]
    remarks += [
        f"{title(row.criterion).capitalize()}, {RATERS[row.rater_kind]}: {PARADOX}"
        for row in rows
        if row.paradox
    ]
    return Table(
        columns=(
            *names,
            "Raters",
            "Pairs rated twice",
            "Raw agreement",
            "Fleiss' κ",
            interval,
            "Krippendorff's α, ordinal",
            "Gwet's AC1",
        ),
        rows=tuple(cells),
        caption="Agreement between raters of one kind",
        note=" ".join((NOTE, *remarks)),
        text_columns=len(names),
    )


def verdict_table(rows: tuple[AgreementRow, ...], *, name_methods: bool) -> Table:
    """Return κ of each verdict, and AC2."""
    names = left_names(name_methods=name_methods)
    first = rows[0]
    a, b = ("first", "second") if name_methods else (first.method_a, first.method_b)
    return Table(
        columns=(*names, f"κ of {a} better", "κ of a tie", f"κ of {b} better", "Gwet's AC2, ordinal"),
        rows=tuple(
            (
                *left_cells(row, name_methods=name_methods),
                *(with_limits(one.value, one.low, one.high) for one in row.categories),
                with_limits(row.ac2.value, row.ac2.low, row.ac2.high),
            )
            for row in rows
        ),
        caption="Agreement on each verdict",
        note=" ".join((VERDICTS_NOTE, *_why_undefined(rows))),
        text_columns=len(names),
    )


def two_table(rows: tuple[AgreementRow, ...], *, name_methods: bool) -> Table:
    """Return the spread of Cohen's κ over each two raters."""
    names = (*left_names(name_methods=name_methods), "Lowest of", "Highest of")
    return Table(
        columns=(*names, "Combinations", "Median κ", "Lowest", "Highest"),
        rows=tuple(_spread(row, name_methods=name_methods) for row in rows),
        caption="Agreement of each two raters",
        note=TWO_NOTE,
        text_columns=len(names),
    )


def matrix(row: AgreementRow, *, name_methods: bool) -> Table:
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
                cells.append(NOTHING if kappa is None else with_limits(kappa.value, None, None))
        lines.append(tuple(cells))
    comparison = f"{row.method_a} against {row.method_b}, " if name_methods else ""
    return Table(
        columns=("Rater", *row.raters),
        rows=tuple(lines),
        caption=f"Two by two: {comparison}{title(row.criterion)}, {RATERS[row.rater_kind]}",
        note=MATRIX_NOTE,
    )


def _spread(row: AgreementRow, *, name_methods: bool) -> tuple[Cell, ...]:
    left = left_cells(row, name_methods=name_methods)
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


def _why_undefined(rows: Sequence[AgreementRow]) -> tuple[str, ...]:
    reasons = sorted({one.reason for row in rows for one in row.categories if one.value is None})
    same = "all verdicts are the same, so chance agreement is complete"
    return tuple(
        f"κ of a verdict is undefined where {'nobody, or everybody, gave it' if why == same else why}."
        for why in reasons
    )
