"""`guard-eval db STUDY backup FILE`: the study's database in another file, while raters rate."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.administration.backup import backup
from guard_eval.cli.console import StudyFolder
from guard_eval.study.folder import Study


class DatabaseAction(StrEnum):
    """What to do with the database."""

    backup = "backup"


def command(
    folder: StudyFolder,
    action: Annotated[DatabaseAction, typer.Argument(help="backup writes it to FILE.")],  # noqa: ARG001
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The copy; there must be none yet.")],
) -> None:
    """Copy the study's database to a file while raters rate.

    A backup is the database of one moment, checked, and whole or not there at all. SQLite's is a database
    like the study's own; PostgreSQL's is made by pg_dump, for pg_restore.
    """
    backup(Study.open(folder).database, file)
