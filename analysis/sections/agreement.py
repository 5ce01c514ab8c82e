"""Agreement between raters of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.agreement import AgreementRow
from analysis.agreement_figure import dots
from analysis.columns import full_table
from analysis.core.agreement_coefficients import Coefficient
from analysis.drawing import Drawing
from analysis.pairwise import FineRow
from analysis.render import Table
from analysis.section import Section
from analysis.sections import agreement_fine
from analysis.words import RATERS, number, percent, title
from guard_eval.escaping import NOTHING, Cell

NOTE = (
    "Raw agreement: how often two raters of a pair say the same. κ corrects it for what chance would give; "
    "where one verdict dominates it is low even if raters mostly agree, so read both. α counts a tie as "
    "half-way between the methods; AC1 suffers less where one verdict dominates. Intervals are linearised, "
    "over pairs."
)

PARADOX = "raters mostly agree, and κ is low because one verdict dominates."

COLUMNS: dict[str, Callable[[AgreementRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
    "items": lambda row: row.items,
    "raters": lambda row: row.raters,
    "items_rated_twice": lambda row: row.agreement.n,
    "ratings": lambda row: row.agreement.ratings,
    "raw_agreement": lambda row: row.agreement.raw,
    "chance_agreement": lambda row: row.agreement.expected,
    "fleiss_kappa": lambda row: row.agreement.kappa,
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
}


def section(
    rows: Sequence[AgreementRow], *, name_methods: bool, fine: Sequence[FineRow] = ()
) -> Section | None:
    """Return raw agreement and its coefficients; None where there is no row.

    Args:
        rows: What `agreement_rows` returns.
        name_methods: Whether there is more than one comparison, so that each must be named.
        fine: What `fine_rows` returns of the same verdicts.
    """
    if not rows:
        return None
    fine = tuple(fine)
    parts: tuple[Table | Drawing, ...] = (
        agreement_table(tuple(rows), name_methods=name_methods),
        *dots(rows, name_methods=name_methods),
        *agreement_fine.parts(fine, name_methods=name_methods),
    )
    exports = {"agreement": agreement_fine.beside(full_table(COLUMNS, rows), rows, fine)}
    if any(row.pairs for row in fine):
        exports["agreement_of_two"] = full_table(agreement_fine.PAIRS, agreement_fine.pairs_of(fine))
    return Section(anchor="agreement", title="Agreement", parts=parts, exports=exports)


def agreement_table(rows: tuple[AgreementRow, ...], *, name_methods: bool = True) -> Table:
    """Return raw agreement and Fleiss' κ; the note says why κ is missing where it is."""
    cells = []
    for row in rows:
        result = row.agreement
        kappa = "undefined" if result.kappa is None else number(result.kappa)
        interval = (
            NOTHING
            if result.low is None or result.high is None
            else f"{number(result.low)} to {number(result.high)}"
        )
        methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
        left = (*methods, title(row.criterion), RATERS[row.rater_kind])
        others = tuple(_with_limits(one) for one in (row.alpha, row.ac1))
        cells.append((*left, row.raters, result.n, percent(result.raw), kappa, interval, *others))
    names = (*(("Comparison",) if name_methods else ()), "Criterion", "Judged by")
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


def _with_limits(result: Coefficient) -> str:
    if result.value is None:
        return "undefined"
    if result.low is None or result.high is None:
        return number(result.value)
    return f"{number(result.value)} ({number(result.low)} to {number(result.high)})"
