"""Win shares, with intervals and both tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analysis.report.columns import CELL_COLUMNS, full_table
from analysis.report.section import Section
from analysis.report.share_figures import bars, forest
from analysis.results.shares import ShareRow, unit_note
from guard_eval.reporting.drawing import Drawing
from guard_eval.reporting.escaping import NOTHING, Cell
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    ALL,
    NO_P,
    RATERS,
    limits,
    p_of,
    p_value,
    percent,
    plural,
    title,
    why_none,
)

TESTS_NOTE = (
    "Win share: wins plus half the ties, averaged over pairs. p as in the paper: exact binomial on non-tied "
    "ratings, which treats ratings as independent; several ratings of one pair are not, and then it finds "
    "differences too often. p by item: sign-flip test on item means, which holds however ratings of a pair "
    "depend on each other."
)

COLUMNS: dict[str, Callable[[ShareRow], Cell]] = {
    **CELL_COLUMNS,
    "dataset": lambda row: row.dataset or ALL,
    "items": lambda row: row.items,
    "raters": lambda row: row.raters,
    "unit": lambda row: row.unit,
    "units": lambda row: row.units,
    "verdicts": lambda row: row.verdicts,
    "wins": lambda row: row.wins,
    "ties": lambda row: row.ties,
    "losses": lambda row: row.losses,
    "win_share_pooled": lambda row: row.pooled,
    "win_share_by_item": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.level,
    "interval": lambda row: row.share.method,
    "p_as_in_the_paper": lambda row: row.paper_test.p_value,
    "paper_test": lambda row: row.paper_test.method,
    "p_by_item": lambda row: row.test.p_value,
    "item_test": lambda row: row.test.method,
    "p_adjusted": lambda row: row.adjusted,
    "correction": lambda row: row.correction,
    "family": lambda row: row.family,
    "declared_beforehand": lambda row: row.declared,
    "warnings": lambda row: "; ".join(
        dict.fromkeys(
            (
                *row.warnings,
                *row.share.warnings,
                *row.paper_test.warnings,
                *row.test.warnings,
                *filter(None, [row.out_of_reach]),
            )
        )
    ),
}


def section(rows: Sequence[ShareRow], *, name_methods: bool) -> Section:
    """Return the tables of one kind of raters after the other, and the figures."""
    kinds = [kind for kind in RATERS if any(row.rater_kind == kind for row in rows)]
    tables = [
        share_table(tuple(row for row in rows if row.rater_kind == kind), name_methods=name_methods)
        for kind in kinds
    ]
    return Section(
        anchor="shares",
        title="Win shares",
        paragraphs=(f"{TESTS_NOTE} {unit_note(rows)}",),
        parts=(*tables, *_drawings(rows)),
        exports={"win_shares": full_table(COLUMNS, rows)},
    )


def _drawings(rows: Sequence[ShareRow]) -> list[Drawing]:
    groups: dict[tuple[str, str, str], list[ShareRow]] = {}
    for row in rows:
        groups.setdefault((row.rater_kind, row.method_a, row.method_b), []).append(row)
    drawn = []
    for number, members in enumerate(groups.values(), start=1):
        drawn += [forest(members, name=f"shares-{number}"), bars(members, name=f"verdicts-{number}")]
    return drawn


def share_table(rows: tuple[ShareRow, ...], *, name_methods: bool = True) -> Table:
    """Return wins, shares, intervals and both tests of one kind of rater."""
    first = rows[0]
    declared = any(row.declared for row in rows)
    family = max(row.family for row in rows)
    adjusted = (
        f"{first.correction}: p by item, adjusted over {plural(family, 'result')} on all datasets"
        f"{', declared beforehand' if declared else ', which nobody declared beforehand'}; rows "
        "without it are exploratory."
    )
    left = ("Comparison", "Criterion", "Dataset") if name_methods else ("Criterion", "Dataset")
    figures = ("Wins", "Ties", "Losses", "Win share", f"{percent(first.level, 0)} interval")
    return Table(
        columns=(*left, *figures, "p as in the paper", "p by item", first.correction),
        rows=tuple(_share_cells(row, name_methods=name_methods) for row in rows),
        caption=f"Win shares, judged by {RATERS[first.rater_kind]}"
        + ("" if name_methods else f": {first.method_a} against {first.method_b}"),
        note=adjusted
        + why_none(
            [test for row in rows for test in (row.paper_test, row.test)], [row.out_of_reach for row in rows]
        ),
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
        p_of(row.paper_test),
        p_of(row.test),
        _adjusted(row),
    )


def _adjusted(row: ShareRow) -> str:
    if row.adjusted is not None:
        return p_value(row.adjusted)
    return NO_P if row.out_of_reach else NOTHING
