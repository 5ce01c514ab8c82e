"""The command `report`: write a page that answers the question of a study, or of tables of verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.evidence import Evidence
from analysis.reports.declared import apply_table_settings, format_command_line, read_table_settings
from analysis.reports.files import write_report
from analysis.reports.first_screen import AnswerLine
from analysis.reports.study_record import (
    add_study_facts,
    get_record_path,
    put_recorded_table_first,
    read_study_record,
    remove_file_extensions,
)
from analysis.sections.results import by_column
from analysis.verdicts.reading import Reading, add_reading_notes, get_reading
from analysis.verdicts.sources import read_verdicts
from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text
from guard_eval.records import record
from guard_eval.reporting.words import count_in_words, join_with_and
from guard_eval.reporting.writing import check_results_folder
from guard_eval.results import Result

NEEDED = {
    "units are prompts": ("prompt_id",),
    "position": ("shown_first",),
    "length": ("length_a", "length_b"),
    "sequential tests": ("at",),
}
"""For some analyses: the columns they need besides the columns of every table of verdicts."""


@record
class Report(Result):
    """A written report.

    Attributes:
        folder: The report's folder.
        page: The page to open.
        answer: The paragraph that answers the question; empty if nothing was written.
        results: The first results with their intervals and tests, as on the first screen.
        reading: A description of the table as it was read.
    """

    folder: Path
    page: Path
    answer: str
    results: tuple[AnswerLine, ...] = ()
    reading: Reading


def report(
    *source: Path,
    output: Path | None = None,
    compare: tuple[str, str] | None = None,
    by: tuple[str, ...] = (),
    paper: bool = False,
    dry_run: bool = False,
    overrides: Sequence[str] = (),
) -> Report:
    """Write the report: which system wrote better texts, and how certain that is.

    index.html opens in a browser without a server. Beside it are report.md, and every number as CSV and
    JSON.

    Args:
        source: A study's folder, or one or more tables of verdicts.
        output: The folder to write. Default: 'report' in the study, or TABLE-report in the current folder.
        compare: With three or more methods: the two whose comparison is shown in full.
        by: Split results by the values of this column, such as the genre. Repeat it for more columns. For a
            study: a column of its prompts, `prompt_length`, or, with traces, `H`, `H_glob` or `k` of the
            texts.
        paper: Also write tables, a figure and text for a manuscript to paper/.
        dry_run: Write nothing. Show what was read from a table, and which results its columns allow.
        overrides: Settings for this run, such as `margin=0.05`; they go before the study.toml, or the
            report.toml beside a table. `rater_kind=person` says who judged, for a table without this column.

    Raises:
        StudyError: There are no verdicts, an option does not fit, or the folder holds something else.
    """
    if not source:
        raise StudyError("no study or table was given; name one: guard-eval report STUDY")
    paths = [Path(path) for path in source]
    is_study = any(path.is_dir() or not (path.suffix or path.exists()) for path in paths)
    if dry_run and is_study:
        raise StudyError(
            f"--dry-run works only for tables of verdicts, but {paths[0]} is a study; leave --dry-run out"
        )
    if is_study:
        if len(paths) > 1:
            raise StudyError(
                f"{paths[0]} and {paths[1]} do not go together; name one study, or only tables of verdicts"
            )
        evidence, folder = _read_study_evidence(paths[0], overrides, by, paper=paper)
    else:
        folder = Path(f"{remove_file_extensions(paths[0])}-report")
        evidence = read_table_evidence(paths, overrides=overrides, split_columns=by)
    folder = output or folder
    reading = get_reading(evidence.frame)
    columns = dict.fromkeys(by_column.find_split_column(evidence.frame, name) for name in by)
    if dry_run:
        return Report(
            folder=folder,
            page=folder / "index.html",
            answer="",
            reading=reading,
            lines=(*reading.format_lines(), *list_supported_analyses(evidence.frame)),
            warnings=reading.notes,
        )
    check_results_folder(folder)
    context = evidence.context
    context = replace(
        context,
        compare=() if compare is None else (compare,),
        explored=tuple(name for name in columns if name not in context.by),
    )
    evidence = Evidence(scored=evidence.scored, context=context)
    written = write_report(evidence, folder, paper=paper)
    return Report(
        folder=folder,
        page=written.paths[0],
        answer=written.summary,
        results=written.results,
        reading=reading,
        lines=(
            *reading.format_lines(),
            written.summary,
            *map(str, written.results),
            f"report: {written.paths[0]}",
        ),
        warnings=reading.notes,
        tables=split.tables if (split := by_column.make_section(evidence)) else (),
    )


def list_supported_analyses(table: pd.DataFrame) -> Iterator[str]:
    """Say for each analysis that needs special columns whether the table has them."""
    raters = count_in_words(table["rater"].nunique(), "rater")
    pair = ["pair_id", "method_a", "method_b", "criterion"]
    is_rated_twice = bool(table[[*pair, "rater"]].drop_duplicates().duplicated(pair).any())
    yield f"agreement: {'yes' if is_rated_twice else 'no, let two raters judge the same pairs'}, {raters}"
    for name, needed in NEEDED.items():
        missing = [column for column in needed if column not in table or table[column].isna().all()]
        yield f"{name}: {f'no, add {join_with_and(missing)}' if missing else 'yes'}"


def _read_study_evidence(
    path: Path, overrides: Sequence[str], split_columns: Sequence[str], *, paper: bool
) -> tuple[Evidence, Path]:
    """Return the verdicts of a study and the folder of its report. The results count as seen from now on."""
    # Imported only for a study, because SQLAlchemy would delay a table's report by half a second.
    from analysis.reports.checklist import collect_rater_facts  # noqa: PLC0415
    from analysis.reports.study_report import read_table_and_context, record_seen_results  # noqa: PLC0415
    from guard_eval.store import Store  # noqa: PLC0415
    from guard_eval.study import Study  # noqa: PLC0415

    study = Study.open(path, overrides)
    with Store.open_study(study) as store:
        table, context = read_table_and_context(study, store, split_columns)
        if problem := record_seen_results(store):
            add_reading_notes(table, problem)
        if paper:
            context = replace(context, people=collect_rater_facts(study, store))
    return Evidence.from_verdicts(table, context), study.report_folder


def read_table_evidence(
    paths: Sequence[Path], *, overrides: Sequence[str] = (), split_columns: Sequence[str] = ()
) -> Evidence:
    """Read tables of verdicts with the declarations in report.toml and in the overrides."""
    paths = put_recorded_table_first(paths)
    recorded = read_study_record(paths[0])
    declared, source = read_table_settings(paths, overrides, recorded.settings if recorded else {})
    table = read_verdicts(paths, declared.select_reading_settings(split_columns))
    where = " and ".join(
        filter(
            None,
            (
                f"in {get_record_path(paths[0]).name}" if recorded else "",
                f"in {source.name}" if source else "",
                "on the command line" if overrides else "",
            ),
        )
    )
    table, context = apply_table_settings(
        table,
        declared,
        name=remove_file_extensions(paths[0]),
        command=format_command_line(paths, overrides),
        source=where,
    )
    if source is not None:
        context = replace(context, settings=read_text(source))
    if recorded is not None:
        table, context = add_study_facts(table, context, recorded, declared, paths)
    return Evidence.from_verdicts(table, context)
