"""`guard-eval db`: the study's database backed up while raters rate, brought up to date, or moved."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.engine import make_url

from guard_eval.cli.administration.backup import backup
from guard_eval.cli.administration.copy import checksum, copy
from guard_eval.cli.console import StudyFolder, say, say_next
from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.study.folder import Study


class DatabaseAction(StrEnum):
    """What to do with the database."""

    backup = "backup"
    upgrade = "upgrade"
    copy = "copy"
    checksum = "checksum"


HELP = (
    "backup writes it to FILE; upgrade brings its tables up to this version; copy fills another database "
    "with its rows; checksum prints a digest, the same for databases that hold the same."
)


def command(
    folder: StudyFolder,
    action: Annotated[DatabaseAction, typer.Argument(help=HELP)],
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="For backup: the copy; there must be none yet.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            help="For copy: postgresql+psycopg://user@host/database, or an SQLite file; without rows yet.",
        ),
    ] = None,
    switch: Annotated[
        bool,
        typer.Option(
            "--switch", help="For copy: name it in study.toml then. No other process may use the database."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="For copy: say what would be done.")] = False,
) -> None:
    """Back the study's database up, move it to a server or back, or bring it up to date.

    A backup or copy is the database of one moment, checked, and whole or not there at all; raters go on
    meanwhile. SQLite's backup is a database like the study's own; PostgreSQL's is made by pg_dump, for
    pg_restore. A copy goes from SQLite to PostgreSQL, back, or anywhere; killed, it is run again. A server's
    password is read from PGPASSWORD or ~/.pgpass.
    """
    study = Study.open(folder)
    _check_options(folder, action, file=file is not None, to=to is not None, more=switch or dry_run)
    if file is not None:
        backup(study.database, file)
    elif to is not None:
        copy(study, to, switch=switch, dry_run=dry_run)
    elif action is DatabaseAction.checksum:
        checksum(study.database)
    else:
        upgrade(study.database)
        say(f"{folder}: the database is as this version needs it")
        say_next(f"guard-eval progress {folder}")


def _check_options(folder: Path, action: DatabaseAction, *, file: bool, to: bool, more: bool) -> None:
    wanted = {
        DatabaseAction.backup: "backup FILE",
        DatabaseAction.copy: "copy --to URL [--switch] [--dry-run]",
    }
    good = file is (action is DatabaseAction.backup) and to is (action is DatabaseAction.copy)
    if not good or (more and action is not DatabaseAction.copy):
        raise StudyError(f"write: guard-eval db {folder} {wanted.get(action, action.value)}")


def upgrade(database: str) -> None:
    """Bring a database's tables up to date; a server's that is empty gets them.

    Raises:
        StudyError: There is no such database, or its schema is unknown to this package.
    """
    url = make_url(database)
    if url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file():
        raise StudyError(f"there is no database {url.database} to bring up to date; guard-eval pair makes it")
    Store.open(database, create=True).close()
