"""Write a table of the study as CSV, and copy the database (the command `guard-eval backup`)."""

import os
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from guard_eval.errors import StudyError, format_count
from guard_eval.records import record
from guard_eval.reporting.escaping import Cell, make_csv
from guard_eval.reporting.writing import check_replaceable, resolve_write_target, write_atomically
from guard_eval.results import Result
from guard_eval.store import notes, unblind
from guard_eval.store.database import Store, parse_url
from guard_eval.store.notes import Note
from guard_eval.store.unblind import TidyRow
from guard_eval.study import Study

TableName = Literal["verdicts", "all", "history", "notes"]


_TABLES: dict[str, Callable[[Store], Sequence[TidyRow | Note]]] = {
    "verdicts": unblind.read_tidy_rows,
    "all": partial(unblind.read_tidy_rows, include_surplus=True, include_excluded=True),
    "history": unblind.read_verdict_history,
    "notes": notes.read_notes,
}


@record
class ExportResult(Result):
    """An exported table and its number of rows."""

    path: Path
    rows: int


def write_table(
    study: Study,
    *,
    output: Path | None = None,
    table: TableName = "verdicts",
    columns: Mapping[str, Mapping[str, Cell]] = MappingProxyType({}),
) -> ExportResult:
    """Write a table of the study as CSV (see `analysis.publication.export`).

    Args:
        study: The study.
        output: The CSV file to write. Default: verdicts.csv in the study, or the table's name.
        table: The table to write.
        columns: Further columns of verdicts: the value of each pair, by the heading and the pair's id.

    Raises:
        StudyError: The file has another ending or cannot be written, or there is no database.
    """
    path = output or study.folder / f"{table}.csv"
    if path.suffix.lower() != ".csv":
        raise StudyError(f"--output {path}: tables are written as CSV; give the file the ending .csv")
    with Store.open_study(study) as store:
        rows = _TABLES[table](store)
    names = [field.name for field in fields(Note if table == "notes" else TidyRow)]
    check_replaceable(path, ",".join(names))
    cells: list[list[Cell]] = [[_format_cell(getattr(row, name)) for name in names] for row in rows]
    for values in columns.values():
        for line, row in zip(cells, rows, strict=True):
            line.append(values.get(row.pair_id) if isinstance(row, TidyRow) else None)
    # cells that look like a formula begin with an apostrophe, so that no spreadsheet runs them
    text = make_csv([[*names, *columns], *cells])
    write_atomically(path, text.encode(), make_folder=True, private=True)
    following = (study.format_command("status"),) if table == "verdicts" else ()
    return ExportResult(
        lines=(f"{path}: {format_count(len(rows), 'row')}",), next=following, path=path, rows=len(rows)
    )


def _format_cell(value: Cell | datetime) -> Cell:
    """Convert a time to ISO 8601 with milliseconds. Return any other value unchanged."""
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value


def backup(study: Study, file: Path, /) -> Result:
    """Copy the study's database to a file, even while raters rate.

    The copy contains all data of one moment, or is not written at all. The copy can replace the study's
    database.

    Args:
        study: The study's folder.
        file: The file to write. It must not exist yet.

    Raises:
        StudyError: The file exists or cannot be written, the database cannot be read, or the database is
            on PostgreSQL, which needs pg_dump.
    """
    url = parse_url(study.database)
    if url.drivername != "sqlite":
        address = url.set(drivername="postgresql").render_as_string()
        raise StudyError(
            "this command copies only SQLite databases; for PostgreSQL, run: "
            + shlex.join(["pg_dump", "--format=custom", f"--file={file}", f"--dbname={address}"])
        )
    resolve_write_target(file)
    if file.exists():
        raise StudyError(f"{file} exists already; name another file for the backup")
    partial = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    try:
        with (
            Store.open_study(study) as store,
            store.explain_database_errors(),
            store.engine.connect() as db,
        ):
            file.parent.mkdir(parents=True, exist_ok=True)
            partial.touch(mode=0o600, exist_ok=False)
            db.execution_options(isolation_level="AUTOCOMMIT")
            db.exec_driver_sql("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(partial),))
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
        partial.replace(file)
    except OSError as error:
        raise StudyError(
            f"cannot write {file}: {error}; free some space, then run the command again"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    size = file.stat().st_size
    return Result(
        lines=(
            f"{file}: {size:,} bytes",
            f"To restore it: stop the server, move {store.file}* away, and run: "
            + shlex.join(["cp", "-p", "--", str(file), str(store.file)]),
        )
    )
