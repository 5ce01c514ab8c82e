"""Analyses for notebooks: they take a table of verdicts and return data frames or matplotlib figures."""

import warnings
from collections.abc import Mapping
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, get_args, get_type_hints

import pandas as pd

from analysis.evidence import Evidence
from analysis.reports.declared import TableSettings, apply_table_settings, check_table_settings
from analysis.reports.files import WrittenReport, write_report
from analysis.reports.study_record import (
    add_study_facts,
    get_record_path,
    put_recorded_table_first,
    read_study_record,
)
from analysis.sections.raters.agreement import measure_agreement
from analysis.sections.raters.judges import compare_judges_with_people
from analysis.sections.raters.order_and_length import measure_position_effect
from analysis.sections.results.ranking import rank_methods
from analysis.sections.results.shares import measure_all_shares
from analysis.sections.section import Analyse, make_frame_from_rows
from analysis.verdicts.reading import READING, warn_about_reading
from analysis.verdicts.sources import Source, list_paths, read_verdicts
from guard_eval.records import RaterKind
from guard_eval.reporting.words import use_criterion_titles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


ARGUMENTS = """

Args:
    verdicts: A table of verdicts, or one or several files.
    declared: What report.toml may declare, such as `rater_kind="person"` or `family=["coherence"]`.

Raises:
    StudyError: The verdicts are not a valid table, or something declared is wrong.
"""


class TableAnalysis(Protocol):
    """The type of an analysis that takes a table of verdicts and returns a data frame."""

    def __call__(self, verdicts: Source, /, **declared: object) -> pd.DataFrame:
        """Return the rows of the analysis as a data frame."""


def read(
    source: Source,
    *,
    rater_kind: RaterKind | None = None,
    columns: Mapping[str, str] | None = None,
    verdicts: Mapping[str, str] | None = None,
    form: str | None = None,
) -> pd.DataFrame:
    """Read and validate the verdicts of a data frame or of files. The page docs/formats.md lists the formats.

    `attrs["reading"]` has the role of each column. Rows that were left out also cause a warning. Several
    files form one table. A file of items names the methods that the answers in another file compare.

    Args:
        source: A data frame, a file's path, or several paths.
        rater_kind: The kind of raters if the table does not give it. Default: unknown.
        columns: Our names of columns with the headings in the tables: `{"method_a": "System 1"}`.
        verdicts: The table's words for verdicts: `{"left one": "first"}`, with `a`, `b`, `first`, `second`,
            `tie`, a method, or an empty text for a missing verdict.
        form: The format of the files, one of `FORMATS`; by default that of their first records.

    Raises:
        StudyError: A file is missing, unreadable or not a valid table of verdicts; the message names the
            lines.
    """
    declared = {"rater_kind": rater_kind, "columns": columns, "verdicts": verdicts, "format": form}
    table = read_verdicts(source, check_table_settings("read", declared).select_reading_settings())
    warn_about_reading(table)
    for path in () if isinstance(source, pd.DataFrame) else list_paths(source):
        if (record := get_record_path(path)).exists():
            text = "has facts that weaken the answer. Give the path itself to shares, report and the others"
            warnings.warn(f"{record} {text}", UserWarning, stacklevel=2)
    texts = table.columns[table.dtypes == "category"]
    return table.astype(dict.fromkeys(texts, object))


def wrap_analysis(name: str, analyse: Analyse, *, why_empty: str = "") -> TableAnalysis:
    """Return an analysis as a function of a table of verdicts.

    Args:
        name: The name of the function.
        analyse: The analysis.
        why_empty: The text of the warning if there are no rows.
    """
    (kind,) = get_args(get_type_hints(analyse)["return"])

    def analyse_verdicts(verdicts: Source, /, **declared: object) -> pd.DataFrame:
        rows = make_evidence(verdicts, **declared).rows(analyse)
        if not rows:
            warnings.warn(f"{name} has no rows: {why_empty}", UserWarning, stacklevel=2)
        return make_frame_from_rows(rows, kind)

    analyse_verdicts.__name__ = analyse_verdicts.__qualname__ = name
    analyse_verdicts.__doc__ = f"{getdoc(analyse)}{ARGUMENTS}"
    return analyse_verdicts


shares = wrap_analysis("shares", measure_all_shares)
agreement = wrap_analysis(
    "agreement",
    measure_agreement,
    why_empty="no criterion was judged by two raters of the same kind",
)
position = wrap_analysis(
    "position",
    measure_position_effect,
    why_empty="the table does not say which text was shown first (the column shown_first)",
)
judges = wrap_analysis(
    "judges",
    compare_judges_with_people,
    why_empty="no pair was judged by people and by a model (the column rater_kind)",
)
ranking = wrap_analysis(
    "ranking",
    rank_methods,
    why_empty="fewer than three methods are compared with each other; see shares for two",
)


def figures(verdicts: Source, /, **declared: object) -> dict[str, "Figure"]:
    """Return matplotlib figures of shares or rankings, by name. Arguments: see `shares`."""
    from analysis.reports.paper import draw_figures  # noqa: PLC0415  matplotlib, which only figures need

    evidence = make_evidence(verdicts, **declared)
    with use_criterion_titles(evidence.context.titles):
        return {name: drawing.figure for name, drawing in draw_figures(evidence).items()}


def report(
    verdicts: Source,
    folder: Path | str,
    /,
    *,
    paper: bool = False,
    **declared: object,
) -> WrittenReport:
    """Write the report on a table or on a file into a folder. Arguments: see `shares`.

    Returns:
        The written files, index.html first, and the answer in words.

    Raises:
        StudyError: The verdicts are not a valid table, or the folder cannot be written.
    """
    return write_report(make_evidence(verdicts, **declared), Path(folder), paper=paper)


def make_evidence(verdicts: Source, /, **declared: object) -> Evidence:
    """Read a table or files of verdicts. Return the evidence with the declared settings (see `shares`).

    The record of a published or exported study also gives its plan, and the facts that weaken its answer.
    """
    tables = [] if isinstance(verdicts, pd.DataFrame) else put_recorded_table_first(list_paths(verdicts))
    recorded = read_study_record(tables[0]) if tables else None
    planned = {} if recorded is None else recorded.settings
    settings: TableSettings = check_table_settings("the report", planned | declared)
    table = read_verdicts(tables or verdicts, settings.select_reading_settings())
    places = [f"in {get_record_path(tables[0]).name}"] if planned else []
    source = " and ".join([*places, "in the program"] if declared else places)
    table, context = apply_table_settings(table, settings, name="Verdicts", source=source)
    if recorded is not None:
        table, context = add_study_facts(table, context, recorded, settings, tables)
    if READING not in getattr(verdicts, "attrs", {}):  # otherwise `read` has warned
        warn_about_reading(table)
    return Evidence.from_verdicts(table, context)
