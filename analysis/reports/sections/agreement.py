"""Agreement between raters of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from statistics import median

from matplotlib.axes import Axes

from analysis.reports.columns import CELL_COLUMNS, cell_table, defined, interval_name, with_limits
from analysis.reports.section import Section
from analysis.results.agreement import AgreementRow, PairOfRaters
from analysis.stats.agreement import Coefficient
from analysis.stats.intraclass import Intraclass
from guard_eval.reporting.drawing import GUIDE, INK, Drawing, in_rows, interval_line
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.figure_style import FIRST, SECOND
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import RATERS, capital, number, number_limits, percent, sentence, title

MATRIX_RATERS = 8
"""Up to so many raters their κ are shown two by two."""
MATRICES = 6
"""Such tables in a report; every κ is in agreement_of_two.csv."""
MOST_ROWS = 30
"""Rows that a figure can hold; with more there is none."""

NOTE = (
    "Raw agreement: how often two raters of a pair say the same. κ corrects it for what chance would give; "
    "where one verdict dominates it is low even if raters mostly agree, so read both. α counts a tie as "
    "half-way between the methods; AC1 suffers less where one verdict dominates. Intervals are linearised, "
    "over the unit named under Methods."
)

PARADOX = "raters mostly agree, and κ is low because one verdict dominates."

COLUMNS: Columns[AgreementRow] = {
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
    "krippendorff_alpha_nominal": lambda row: row.nominal.value,
    "alpha_nominal_low": lambda row: row.nominal.low,
    "alpha_nominal_high": lambda row: row.nominal.high,
    "krippendorff_alpha_interval": lambda row: row.interval.value,
    "alpha_interval_low": lambda row: row.interval.low,
    "alpha_interval_high": lambda row: row.interval.high,
    "icc_one_way": lambda row: row.intraclass.one_way,
    "icc_low": lambda row: row.intraclass.low,
    "icc_high": lambda row: row.intraclass.high,
    "icc_agreement": lambda row: row.intraclass.agreement,
    "icc_consistency": lambda row: row.intraclass.consistency,
    "design_effect": lambda row: row.intraclass.design_effect,
    "design_effect_kish": lambda row: row.intraclass.kish,
    "ratings_worth": lambda row: row.intraclass.worth,
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
SCORES_NOTE = (
    "ICC: correlation of the scores −1, 0 and 1 of a pair: of any two ratings (1), with raters as a sample "
    "(2,1), and with what raters differ by throughout taken out (3,1); its interval is a jackknife's. Design "
    "effect: the variance of the mean of all ratings over that of as many independent ones; ratings over it "
    "is how many independent ratings they are worth."
)
TWO_NOTE = (
    "Cohen's κ of each two raters on the pairs that both rated. One rater apart from all others pulls down "
    "every κ that it is part of. κ is undefined, and not counted, where two gave one verdict throughout. All "
    "of them, with intervals, are in agreement_of_two.csv."
)
MATRIX_NOTE = "Below the diagonal: Cohen's κ. Above it: how many pairs both rated."

PAIRS: Columns[tuple[AgreementRow, PairOfRaters]] = {
    "simulated": lambda one: one[0].simulated,
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
    several = [row for row in rows if row.pairs]
    parts: list[Table | Drawing] = [
        agreement_table(rows, name_methods=name_methods),
        *_figure(rows, name_methods=name_methods),
    ]
    exports = {"agreement": table_of(rows, COLUMNS)}
    if any(row.ac2.n for row in rows):
        parts.append(_verdict_table(rows, name_methods=name_methods))
        parts.append(_score_table(rows, name_methods=name_methods))
    if several:
        parts.append(_two_table(several, name_methods=name_methods))
        exports["agreement_of_two"] = table_of(((row, pair) for row in several for pair in row.pairs), PAIRS)
    small = (row for row in several if 3 <= len(row.raters) <= MATRIX_RATERS)
    parts += [matrix(row, name_methods=name_methods) for row in islice(small, MATRICES)]
    return Section(anchor="agreement", title="Agreement", folded=True, parts=tuple(parts), exports=exports)


def agreement_table(rows: Sequence[AgreementRow], *, name_methods: bool = True) -> Table:
    """Return raw agreement and Fleiss' κ; the note says why κ is missing where it is."""
    reasons = sorted({row.agreement.reason for row in rows if row.agreement.reason})
    warnings = sorted({text for row in rows for text in row.agreement.warnings})
    remarks = [
        *(f"κ is undefined where {reason}." for reason in reasons),
        *map(sentence, warnings),
        *(
            f"{capital(title(row.criterion))}, {RATERS[row.rater_kind]}: {PARADOX}"
            for row in rows
            if row.paradox
        ),
    ]
    return cell_table(
        rows,
        {
            "Raters": lambda row: len(row.raters),
            "Pairs rated twice": lambda row: row.agreement.n,
            "Raw agreement": lambda row: percent(row.agreement.raw),
            "Fleiss' κ": lambda row: defined(row.agreement.value),
            interval_name(rows[0].agreement.level): lambda row: number_limits(row.agreement),
            "Krippendorff's α, ordinal": lambda row: with_limits(row.alpha),
            "Gwet's AC1": lambda row: with_limits(row.ac1),
        },
        name_methods=name_methods,
        caption="Agreement between raters of one kind",
        note=" ".join((NOTE, *remarks)),
    )


def _verdict_table(rows: Sequence[AgreementRow], *, name_methods: bool) -> Table:
    """Return κ of each verdict, and AC2."""
    a, b = ("first", "second") if name_methods else (rows[0].method_a, rows[0].method_b)
    return cell_table(
        rows,
        {
            f"κ of {a} better": lambda row: with_limits(row.categories[0]),
            "κ of a tie": lambda row: with_limits(row.categories[1]),
            f"κ of {b} better": lambda row: with_limits(row.categories[2]),
            "Gwet's AC2, ordinal": lambda row: with_limits(row.ac2),
        },
        name_methods=name_methods,
        caption="Agreement on each verdict",
        note=" ".join((VERDICTS_NOTE, *_why_undefined(rows))),
    )


def _score_table(rows: Sequence[AgreementRow], *, name_methods: bool) -> Table:
    """Return α of other metrics, intraclass correlations and the design effect."""
    reasons = sorted({row.intraclass.reason for row in rows if row.intraclass.reason})
    return cell_table(
        rows,
        {
            "α, nominal": lambda row: with_limits(row.nominal),
            "α, interval": lambda row: with_limits(row.interval),
            "ICC(1)": lambda row: _of_ratings(row.intraclass),
            "ICC(2,1)": lambda row: number(row.intraclass.agreement),
            "ICC(3,1)": lambda row: number(row.intraclass.consistency),
            "Design effect": lambda row: number(row.intraclass.design_effect),
            "Ratings worth": lambda row: number(row.intraclass.worth, 0),
        },
        name_methods=name_methods,
        caption="Agreement of scores, and what the ratings are worth",
        note=" ".join((SCORES_NOTE, *(f"ICC(1) is undefined where {reason}." for reason in reasons))),
    )


def _of_ratings(found: Intraclass) -> str:
    if found.one_way is None:
        return "undefined"
    interval = number_limits(found)
    return number(found.one_way) if interval == NOTHING else f"{number(found.one_way)} ({interval})"


def _two_table(rows: Sequence[AgreementRow], *, name_methods: bool) -> Table:
    """Return the spread of Cohen's κ over each two raters."""

    def raters(row: AgreementRow, sign: int) -> str:
        """Return the two raters of the lowest κ times `sign`, the first of several."""
        known = [(sign * pair.kappa.value, pair) for pair in row.pairs if pair.kappa.value is not None]
        if not known:
            return NOTHING
        pair = min(known, key=lambda one: one[0])[1]
        return f"{pair.first}, {pair.second}"

    return cell_table(
        rows,
        {
            "Lowest of": lambda row: raters(row, 1),
            "Highest of": lambda row: raters(row, -1),
            "Combinations": lambda row: len(row.pairs),
            "Median κ": lambda row: number(median(row.kappas)) if row.kappas else "undefined",
            "Lowest": lambda row: number(row.kappas[0]) if row.kappas else NOTHING,
            "Highest": lambda row: number(row.kappas[-1]) if row.kappas else NOTHING,
        },
        name_methods=name_methods,
        caption="Agreement of each two raters",
        note=TWO_NOTE,
        words=2,
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
                cells.append(NOTHING if kappa is None else defined(kappa.value))
        lines.append(tuple(cells))
    comparison = f"{row.method_a} against {row.method_b}, " if name_methods else ""
    return Table(
        columns=("Rater", *row.raters),
        rows=tuple(lines),
        caption=f"Two by two: {comparison}{title(row.criterion)}, {RATERS[row.rater_kind]}",
        note=MATRIX_NOTE,
    )


def _why_undefined(rows: Sequence[AgreementRow]) -> tuple[str, ...]:
    reasons = sorted({one.reason for row in rows for one in row.categories if one.value is None})
    same = "all verdicts are the same, so chance agreement is complete"
    return tuple(
        f"κ of a verdict is undefined where {'no rater, or every rater, gave it' if why == same else why}."
        for why in reasons
    )


SERIES: tuple[tuple[str, str, str, float, Callable[[AgreementRow], Coefficient]], ...] = (
    ("Fleiss' κ", "o", FIRST, -0.22, lambda row: row.agreement),
    ("Krippendorff's α", "s", SECOND, 0.0, lambda row: row.alpha),
    ("Gwet's AC1", "^", INK, 0.22, lambda row: row.ac1),
)
"""Name, marker, colour, how far off the row's middle, and the coefficient."""


def _figure(rows: Sequence[AgreementRow], *, name_methods: bool) -> tuple[Drawing, ...]:
    """Return the figure, or nothing where no coefficient is defined or there are too many rows for one."""
    shown = [row for row in rows if any(of(row).value is not None for *_, of in SERIES)]
    if not shown or len(shown) > MOST_ROWS:
        return ()
    found = [of(row) for *_, of in SERIES for row in shown]

    def draw(axes: Axes) -> None:
        for name, marker, colour, off, of in SERIES:
            for place, one in enumerate(map(of, shown)):
                interval_line(axes, one.low, one.high, place + off, color=colour, width=1.4)
            known = [
                (one.value, place + off) for place, one in enumerate(map(of, shown)) if one.value is not None
            ]
            if known:
                x, y = zip(*known, strict=True)
                axes.plot(x, y, marker=marker, markersize=5, color=colour, linestyle="", label=name)
        axes.axvline(0, **GUIDE)
        ends = [
            end for one in found if one.value is not None for end in (one.value, one.low) if end is not None
        ]
        axes.set_xlim(min(-0.1, *ends) - 0.02, 1.02)
        axes.set_xlabel("agreement beyond chance (0: as by chance, 1: complete)")

    labels = [_row_name(row, name_methods=name_methods) for row in shown]
    described = "; ".join(f"{label}: {_values(row)}" for label, row in zip(labels, shown, strict=True))
    return (
        in_rows(
            draw,
            labels,
            name="agreement-1",
            heading="Agreement between raters of one kind, corrected for chance",
            description=f"{described}. The dashed line is agreement as by chance.",
            legend=True,
            simulated=any(row.simulated for row in shown),
        ),
    )


def _row_name(row: AgreementRow, *, name_methods: bool) -> str:
    methods = f" · {row.method_a}/{row.method_b}" if name_methods else ""
    return f"{title(row.criterion)} · {RATERS[row.rater_kind]}{methods}"


def _values(row: AgreementRow) -> str:
    return ", ".join(f"{name} {with_limits(of(row))}" for name, *_, of in SERIES)
