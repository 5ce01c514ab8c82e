"""Analyses for notebooks: they take a table of verdicts and return data frames or matplotlib figures."""

import warnings
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, get_args, get_type_hints

import pandas as pd

from analysis.evidence import Evidence
from analysis.reports.declared import TableSettings, apply_table_settings, check_table_settings
from analysis.reports.files import WrittenReport, write_report
from analysis.sections.raters.agreement import measure_agreement
from analysis.sections.raters.judges import compare_judges_with_people
from analysis.sections.raters.order_and_length import measure_position_effect
from analysis.sections.results.ranking import rank_methods
from analysis.sections.results.shares import measure_all_shares
from analysis.sections.section import Analyse, make_frame_from_rows
from analysis.verdicts.reading import Reading, get_reading, warn_about_reading
from analysis.verdicts.sources import Source, read_verdicts
from guard_eval.errors import StudyError
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
    """Read a table or files of verdicts. Return the evidence with the declared settings (see `shares`)."""
    for key in ("family", "by"):
        if isinstance(value := declared.get(key), str):
            raise StudyError(f"{key} is {value!r}; write a list: [{value!r}]")
    settings: TableSettings = check_table_settings(Path("the report"), declared)
    table = read_verdicts(verdicts, settings.select_reading_settings())
    was_read = isinstance(verdicts, pd.DataFrame) and get_reading(verdicts) != Reading()
    if not was_read:  # otherwise `read` has warned
        warn_about_reading(table)
    return Evidence.from_verdicts(
        *apply_table_settings(table, settings, name=settings.title or "Verdicts", source="in the program")
    )
