"""The command `guard-eval export`: write a table of the study, and the study's record beside the verdicts."""

from dataclasses import replace
from pathlib import Path

from analysis.reports.study_record import (
    encode_study_record,
    get_record_path,
    list_added_split_columns,
    make_table_settings,
)
from analysis.reports.study_report import read_table_and_context, record_seen_results
from guard_eval.errors import StudyError
from guard_eval.files.opening import read_bytes
from guard_eval.files.rows import MOST_BYTES
from guard_eval.reporting.writing import write_atomically
from guard_eval.store import Store
from guard_eval.store.export import ExportResult, TableName, write_table
from guard_eval.study import Study


def export(study: Study, /, *, output: Path | None = None, table: TableName = "verdicts") -> ExportResult:
    """Write the verdicts as a table.

    Each row is a rater's verdict on one criterion of a pair, with the method that the verdict prefers.
    `guard-eval report` and other programs read this table. verdicts.study.json beside it has the plan and
    whatever weakens the answer, and `report` reads it, too. Other tables: all (adds verdicts that do not
    count; the columns `excluded` and `surplus` mark them), history (each revision of each verdict, with gold
    pairs and repeats), notes (consent, comments, decisions).

    Args:
        study: The study's folder.
        output: The CSV file to write. Default: verdicts.csv in the study, or the table's name.
        table: The table to write.

    Raises:
        StudyError: The file has another ending or cannot be written, or there is no database.
    """
    result = _export_table(study, output, table)
    if table == "notes" or not result.rows:
        return result
    with Store.open_study(study) as store:
        problem = record_seen_results(store)
    return replace(result, warnings=(*result.warnings, *filter(None, [problem])))


def _export_table(study: Study, output: Path | None, table: TableName) -> ExportResult:
    """Write the table, and beside the verdicts also the study's record."""
    if table != "verdicts":
        return write_table(study, output=output, table=table)
    try:
        with Store.open_study(study) as store:
            verdicts, context = read_table_and_context(study, store)
    except StudyError as error:
        # The verdicts are written even if no report of the study is possible yet.
        result = write_table(study, output=output)
        get_record_path(result.path).unlink(missing_ok=True)
        return replace(result, warnings=(f"the table has no record of the study: {error}",))
    result = write_table(study, output=output, columns=list_added_split_columns(verdicts, context.by))
    settings = make_table_settings(study, context, verdicts)
    written = read_bytes(result.path, limit=MOST_BYTES)
    path = get_record_path(result.path)
    write_atomically(path, encode_study_record(context, settings, written), private=True)
    line = f"{path}: the plan and whatever weakens the answer; report reads it beside the table"
    return replace(result, lines=(*result.lines, line))
