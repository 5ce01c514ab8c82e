"""Result rows → the tables a report shows, with rounded figures."""

from __future__ import annotations

import pandas as pd

from analysis.agreement import AgreementRow
from analysis.audits import Finding
from analysis.bias import PositionRow
from analysis.core.agreement_coefficients import Coefficient
from analysis.raters import RaterRow
from analysis.render import Table
from analysis.sensitivity import DEFAULT, SensitivityRow
from analysis.shares import ShareRow
from analysis.words import ALL, RATERS, limits, number, p_value, percent, plural, title
from guard_eval.escaping import NOTHING, Cell

TESTS_NOTE = (
    "Win share: wins plus half the ties, averaged over pairs. p as in the paper: exact binomial on non-tied "
    "ratings, which treats ratings as independent; several ratings of one pair are not, and then it finds "
    "differences too often. p by item: exact sign-flip test on item means, which holds however ratings of a "
    "pair depend on each other."
)
AGREEMENT_NOTE = (
    "Raw agreement: how often two raters of a pair say the same. κ corrects it for what chance would give; "
    "where one verdict dominates it is low even if raters mostly agree, so read both. α counts a tie as "
    "half-way between the methods; AC1 suffers less where one verdict dominates. Intervals are linearised, "
    "over pairs."
)
SENSITIVITY_NOTE = (
    "Each comparison over all datasets, analysed in other ways. None is corrected for the number of tests: "
    "the table shows whether a conclusion hangs on the choice of analysis, and is no second set of "
    "conclusions. Pooling takes ratings of a pair for independent, which they are not."
)
RATERS_SHOWN = 40
"""Raters in the report's table; all of them are in raters.csv."""
RATERS_NOTE = (
    "Others say the same: of all other raters of the same pairs and criteria, how many gave the same "
    "verdict; chance alone makes some of them. For the first: share of non-tied verdicts for the text shown "
    "first. Seconds: median. A rater apart from the rest is a reason to look, not to leave out."
)
PARADOX = "raters mostly agree, and κ is low because one verdict dominates."
AUDIT_NOTE = "In bold: warnings. Nothing was left out of the results because of an audit."
POSITION_NOTE = (
    "Of non-tied verdicts; 50 % is no preference. Wilson's interval takes verdicts as independent. Same "
    "method first: how often the comparison's first method had the first place; away from 50 % place and "
    "method mix."
)


def share_table(rows: tuple[ShareRow, ...], *, name_methods: bool = True) -> Table:
    """Return wins, shares, intervals and both tests of one kind of rater."""
    first = rows[0]
    declared = any(row.declared for row in rows)
    family = max(row.family for row in rows)
    holm = (
        f"Holm: p by item, adjusted over {plural(family, 'result')} on all datasets"
        f"{', declared beforehand' if declared else ', which nobody declared beforehand'}; rows "
        "without it are exploratory."
    )
    left = ("Comparison", "Criterion", "Dataset") if name_methods else ("Criterion", "Dataset")
    figures = ("Wins", "Ties", "Losses", "Win share", f"{percent(first.level, 0)} interval")
    return Table(
        columns=(*left, *figures, "p as in the paper", "p by item", "Holm"),
        rows=tuple(_share_cells(row, name_methods=name_methods) for row in rows),
        caption=f"Win shares, judged by {RATERS[first.rater_kind]}"
        + ("" if name_methods else f": {first.method_a} against {first.method_b}"),
        note=holm,
        text_columns=len(left),
        strong=frozenset(number for number, row in enumerate(rows) if row.dataset is None),
    )


def _share_cells(row: ShareRow, *, name_methods: bool) -> tuple[Cell, ...]:
    methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
    return (
        *methods,
        title(row.criterion),
        row.dataset or ALL,
        row.wins,
        row.ties,
        row.losses,
        percent(row.share.estimate),
        limits(row.share),
        p_value(row.paper_test.p_value),
        p_value(row.test.p_value),
        p_value(row.adjusted) if row.adjusted is not None else NOTHING,
    )


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
        note=" ".join((AGREEMENT_NOTE, *remarks)),
        text_columns=len(names),
    )


def rater_table(rows: tuple[RaterRow, ...]) -> Table:
    """Return one row for each rater, up to `RATERS_SHOWN` of them."""
    shown = rows[:RATERS_SHOWN]
    left_out = f" {len(rows) - len(shown)} more stand in raters.csv." if len(rows) > len(shown) else ""
    return Table(
        columns=(
            "Rater",
            "Judged by",
            "Pairs",
            "Verdicts",
            "Ties",
            "Others say the same",
            "For the first",
            "Seconds",
        ),
        rows=tuple(
            (
                row.rater,
                RATERS[row.rater_kind],
                row.pairs,
                row.verdicts,
                percent(row.ties),
                percent(row.agreement),
                NOTHING if row.first is None else f"{percent(row.first.estimate)} ({limits(row.first)})",
                NOTHING if row.seconds is None else number(row.seconds, 1),
            )
            for row in shown
        ),
        caption="Raters one by one",
        note=RATERS_NOTE + left_out,
        text_columns=2,
    )


def _with_limits(result: Coefficient) -> str:
    if result.value is None:
        return "undefined"
    if result.low is None or result.high is None:
        return number(result.value)
    return f"{number(result.value)} ({number(result.low)} to {number(result.high)})"


def sensitivity_table(rows: tuple[SensitivityRow, ...], *, name_methods: bool = True) -> Table:
    """Return each comparison in each way, the default in bold."""
    names = (*(("Comparison",) if name_methods else ()), "Criterion", "Judged by", "Analysis", "Remark")
    cells = []
    for row in rows:
        methods = (f"{row.method_a} against {row.method_b}",) if name_methods else ()
        left = (*methods, title(row.criterion), RATERS[row.rater_kind], row.analysis, row.note)
        cells.append((*left, percent(row.share), p_value(row.test.p_value), row.test.n))
    return Table(
        columns=(*names, "Win share", "p", "n"),
        rows=tuple(cells),
        caption="The same verdicts, analysed in other ways",
        note=SENSITIVITY_NOTE,
        text_columns=len(names),
        strong=frozenset(number for number, row in enumerate(rows) if row.analysis == DEFAULT),
    )


def audit_table(findings: tuple[Finding, ...]) -> Table:
    """Return what the audits found, warnings first."""
    return Table(
        columns=("Found", "Where", "What"),
        rows=tuple((title(one.kind), one.where, one.what) for one in findings),
        caption="What the audits found",
        note=AUDIT_NOTE,
        text_columns=3,
        strong=frozenset(number for number, one in enumerate(findings) if one.severity == "warning"),
    )


def position_table(rows: tuple[PositionRow, ...]) -> Table:
    """Return the preference for the text shown first."""
    cells = []
    for row in rows:
        flips = f"{row.flipped} of {row.both_orders}" if row.both_orders else NOTHING
        counts = (row.first, row.second, row.ties, percent(row.share.estimate), limits(row.share))
        cells.append((title(row.criterion), RATERS[row.rater_kind], *counts, percent(row.a_first), flips))
    columns = ("Criterion", "Judged by", "For the first", "For the second", "Ties", "Share for the first")
    return Table(
        columns=(
            *columns,
            f"{percent(rows[0].share.level, 0)} interval",
            "Same method first",
            "Flipped with the order",
        ),
        rows=tuple(cells),
        caption="Preference for the text shown first",
        note=POSITION_NOTE,
        text_columns=2,
    )


def metrics_table(metrics: pd.DataFrame, notes: tuple[str, ...]) -> Table:
    """Return the automatic metrics as measured, two decimals, words on the left."""
    words = [name for name in ("dataset", "strategy") if name in metrics.columns]
    figures = [
        name for name in metrics.columns if name not in words and pd.api.types.is_numeric_dtype(metrics[name])
    ]
    columns = [[str(value) for value in metrics[name]] for name in words]
    columns += [
        [_measure(value, whole=pd.api.types.is_integer_dtype(metrics[name])) for value in metrics[name]]
        for name in figures
    ]
    return Table(
        columns=(*(title(name).capitalize() for name in words), *(title(str(name)) for name in figures)),
        rows=tuple(zip(*columns, strict=True)),
        caption="Automatic metrics",
        note=" ".join(notes),
        text_columns=len(words),
    )


def _measure(value: float, *, whole: bool) -> str:
    return NOTHING if pd.isna(value) else number(value, 0 if whole else 2)
