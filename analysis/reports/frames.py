"""The analysis from a notebook: a table of verdicts in, data frames and matplotlib figures out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.analyses.judging import judges as judge_analysis
from analysis.analyses.outcomes import ranking as ranking_analysis
from analysis.analyses.outcomes import shares as share_analysis
from analysis.analyses.reliability import agreement as agreement_analysis
from analysis.analyses.reliability import position as position_analysis
from analysis.evidence import Evidence
from analysis.reports.declared import TableSettings, check_settings, table_context
from analysis.reports.page import WrittenReport, write_report
from analysis.reports.results import Results
from analysis.verdicts.reading import warn_of
from analysis.verdicts.tidy import read_verdicts
from guard_eval.errors import StudyError
from guard_eval.reporting.words import titled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shares(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> pd.DataFrame:
    """Return win shares with intervals and p, a row per comparison, criterion, and dataset.

    Args:
        verdicts: A table of verdicts, or a file of one.
        declared: What report.toml may declare, such as `rater_kind="person"` or `family=["coherence"]`.

    Raises:
        StudyError: The verdicts are not a valid table, or something declared is wrong.
    """
    return share_analysis.shares(evidence_of(verdicts, **declared))


def agreement(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> pd.DataFrame:
    """Return how far raters agree, a row per comparison and criterion; see `shares`."""
    return agreement_analysis.agreement(evidence_of(verdicts, **declared))


def position(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> pd.DataFrame:
    """Return how often the text shown first wins, and how often a rater's verdict flips with the order.

    There is a row for people and for each judge, and for each criterion; see `shares`.
    """
    return position_analysis.position(evidence_of(verdicts, **declared))


def judges(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> pd.DataFrame:
    """Return how far each judge agrees with people, a row per comparison, criterion and judge; see `shares`.

    The table is empty if no pair was rated by people and by a judge.
    """
    return judge_analysis.judges(evidence_of(verdicts, **declared))


def ranking(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> pd.DataFrame:
    """Return the methods by strength, a row per method and criterion; see `shares`.

    The table is empty if no more than two methods are compared: their win share says it all.
    """
    return ranking_analysis.ranking(evidence_of(verdicts, **declared))


def figures(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> dict[str, Figure]:
    """Return figures of shares or rankings, as matplotlib has them, by name; see `shares`."""
    from analysis.reports.figures import drawings  # noqa: PLC0415  matplotlib, which only figures need

    evidence = evidence_of(verdicts, **declared)
    with titled(evidence.context.titles):
        return {name: drawing.figure for name, drawing in drawings(Results(evidence)).items()}


def report(
    verdicts: pd.DataFrame | Path | str,
    folder: Path | str,
    /,
    *,
    paper: bool = False,
    **declared: object,
) -> WrittenReport:
    """Write the report on a table, or on a file of one, into a folder; see `shares`.

    Returns:
        The files that were written, index.html first, and the answer in words.

    Raises:
        StudyError: The verdicts are not a valid table, or the folder cannot be written.
    """
    return write_report(evidence_of(verdicts, **declared), Path(folder), paper=paper)


def evidence_of(verdicts: pd.DataFrame | Path | str, /, **declared: object) -> Evidence:
    """Return the evidence of a table, or of a file, with its declared settings; see `shares`."""
    if isinstance(family := declared.get("family"), str):
        raise StudyError(f"family is {family!r}; write a list of results, as [{family!r}]")
    settings: TableSettings = check_settings(Path("the report"), declared)
    table = read_verdicts(
        verdicts,
        rater_kind=settings.rater_kind,
        columns=settings.columns,
        words=settings.verdicts,
        form=settings.format,
        groups=settings.by,
    )
    warn_of(table)
    return Evidence.of(
        *table_context(table, settings, name=settings.title or "Verdicts", source="in the program")
    )
