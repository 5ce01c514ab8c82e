"""The analysis from a notebook: a table of verdicts in, data frames and matplotlib figures out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack, get_args

import pandas as pd
from matplotlib.figure import Figure

from analysis.reports.build import Report, figures_of, write_report
from analysis.reports.context import Context, versions
from analysis.reports.sections.agreement import COLUMNS as AGREEMENT
from analysis.reports.sections.ranking import section as ranking_section
from analysis.reports.sections.shares import COLUMNS as SHARES
from analysis.results.agreement import agreement_rows
from analysis.results.ranking import ranking_rows
from analysis.results.shares import Correction, Estimand, share_rows
from analysis.verdicts.composite import Composite
from analysis.verdicts.family import declared_results
from analysis.verdicts.panel import JudgePanel, PanelRule
from analysis.verdicts.reading import load
from analysis.verdicts.scores import ScoredVerdicts
from analysis.verdicts.tidy import validate
from guard_eval.errors import StudyError
from guard_eval.reporting.tables import Columns, Row, Table


class Declared(TypedDict, total=False):
    """What can be declared of a table, as `guard-eval report` takes it."""

    title: str
    question: str
    texts: str
    alpha: float
    correction: Correction
    family: Sequence[str]
    seed: int
    margin: float
    raters: Estimand
    panel: PanelRule
    composite: Mapping[str, float]


_CHOICES = {"correction": get_args(Correction), "raters": get_args(Estimand)}


def shares(verdicts: pd.DataFrame, **declared: Unpack[Declared]) -> pd.DataFrame:
    """Return win shares with intervals and p, a row per comparison, criterion, and dataset.

    Args:
        verdicts: A table of verdicts, such as `read` returns.
        declared: What was declared; the columns are those of the report's csv/win_shares.csv.

    Raises:
        StudyError: The verdicts are not a valid table.
    """
    scored, context = _scored(verdicts, declared)
    rows = share_rows(
        scored,
        planned=context.planned,
        alpha=context.alpha,
        correction=context.correction,
        raters=context.raters,
        seed=context.seed or 0,
    )
    return _frame(rows, SHARES)


def agreement(verdicts: pd.DataFrame, **declared: Unpack[Declared]) -> pd.DataFrame:
    """Return how far raters agree, a row per comparison and criterion; see `shares`."""
    scored, context = _scored(verdicts, declared)
    return _frame(agreement_rows(scored, alpha=context.alpha), AGREEMENT)


def ranking(verdicts: pd.DataFrame, **declared: Unpack[Declared]) -> pd.DataFrame:
    """Return the methods by strength, a row per method and criterion; see `shares`.

    The table is empty where no more than two methods are compared: their win share says it all.
    """
    scored, context = _scored(verdicts, declared)
    found = ranking_section(ranking_rows(scored, alpha=context.alpha, seed=context.seed or 0))
    return pd.DataFrame() if found is None else _as_frame(found.exports["ranking"])


def figures(verdicts: pd.DataFrame, **declared: Unpack[Declared]) -> dict[str, Figure]:
    """Return the report's figures, as matplotlib has them, by the names of their files; see `shares`."""
    scored, context = _scored(verdicts, declared)
    return figures_of(scored, context)


def report(verdicts: pd.DataFrame | Path | str, folder: Path | str, **declared: Unpack[Declared]) -> Report:
    """Write the report on a table, or on a file of one, into a folder; see `shares`.

    Returns:
        The files that were written, index.html first, and the answer in words.

    Raises:
        StudyError: The verdicts are not a valid table, or the folder cannot be written.
    """
    table = verdicts if isinstance(verdicts, pd.DataFrame) else load(verdicts)
    scored, context = _scored(table, declared)
    return write_report(scored, Path(folder), context)


def _scored(verdicts: pd.DataFrame, declared: Declared) -> tuple[ScoredVerdicts, Context]:
    _check(declared)
    table = validate(verdicts)
    panel, weights = declared.get("panel"), declared.get("composite")
    composite = None if weights is None else Composite(weights=weights)
    context = Context(
        name=declared.get("title", "Verdicts"),
        question=declared.get("question", "Which of the compared methods is better?"),
        texts=declared.get("texts", "texts"),
        alpha=declared.get("alpha", 0.05),
        correction=declared.get("correction", "holm"),
        margin=declared.get("margin"),
        planned=declared_results(table, declared.get("family"), composite),
        seed=declared.get("seed"),
        raters=declared.get("raters", "these"),
        panel=None if panel is None else JudgePanel(rule=panel),
        composite=composite,
        versions=versions(),
    )
    return ScoredVerdicts.of(table, context.planned, context.panel, composite), context


def _check(declared: Declared) -> None:
    """Refuse a contradictory request, in place of a wrong analysis."""
    known = Declared.__annotations__
    if unknown := sorted(set(declared) - set(known)):
        raise StudyError(f"there is no option {unknown[0]!r}; the options are: {', '.join(known)}")
    for name, choices in _CHOICES.items():
        if (value := declared.get(name, choices[0])) not in choices:
            raise StudyError(f"{name} is {value!r}; write one of: {', '.join(choices)}")
    for name, end in (("alpha", 1.0), ("margin", 0.5)):
        value = declared.get(name, end / 2)
        if not isinstance(value, int | float) or not 0 < value < end:
            raise StudyError(f"{name} is {value!r}; write a number between 0 and {end:g}")
    if isinstance(family := declared.get("family"), str):
        raise StudyError(f"family is {family!r}; write a list of results, as [{family!r}]")


def _frame(rows: Iterable[Row], columns: Columns[Row]) -> pd.DataFrame:
    return pd.DataFrame([[cell(row) for cell in columns.values()] for row in rows], columns=list(columns))


def _as_frame(table: Table) -> pd.DataFrame:
    return pd.DataFrame(table.rows, columns=list(table.columns))
