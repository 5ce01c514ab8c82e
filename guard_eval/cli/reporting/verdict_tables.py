"""The verdicts of a study, or of a table, one a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.verdicts.tidy import read, remarks, validate
from guard_eval.cli.console import say_warnings
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind
from guard_eval.study.folder import Study

if TYPE_CHECKING:
    from guard_eval.store import Store, TidyRow


def verdicts(source: Study | Path, *, rater_kind: RaterKind | None = None) -> pd.DataFrame:
    """Return the verdicts of a study that count, or those of a table, validated.

    Args:
        source: A study, or a tidy table of verdicts.
        rater_kind: Who judged, where a table does not say it.

    Raises:
        StudyError: There are none, or the table is not as it must be.
    """
    if not isinstance(source, Study):
        table = read(source, rater_kind=rater_kind)
        say_warnings(remarks(table))
        return table
    # Only for a study: a table's report would wait half a second for SQLAlchemy.
    from guard_eval.store import Store  # noqa: PLC0415

    with Store.open(source.database, study_hash=source.hash) as store:
        return validate(table_of(rows_of(source, store)))


def rows_of(study: Study, store: Store) -> list[TidyRow]:
    """Return the rows of verdicts that count.

    Raises:
        StudyError: There are none.
    """
    if rows := store.tidy():
        return rows
    raise StudyError(
        f"{study.folder} has no verdicts yet; collect some: guard-eval annotate or guard-eval judge"
    )


def table_of(rows: Sequence[TidyRow]) -> pd.DataFrame:
    """Return rows as a table, column by column: a dict for each of a million verdicts takes a minute."""
    from guard_eval.store import TidyRow  # noqa: PLC0415 (see `verdicts`)

    return pd.DataFrame({name.name: [getattr(row, name.name) for row in rows] for name in fields(TidyRow)})
