"""What is noted of a rater besides verdicts: consent, practice, comments, decisions. Nothing is changed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import Connection, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import NOTE_KINDS, NoteKind, Rater
from guard_eval.store import showing
from guard_eval.store.raters import standing
from guard_eval.store.schema import note, rater
from guard_eval.store.values import Note

LONGEST = 20_000
"""In characters. A comment is not a place to store a book, and whatever sends one is not a rater."""

Decision = Literal["exclude", "include"]
"""Kinds that only `exclusion` writes, because they say what it did."""


def check(kind: NoteKind, detail: str) -> None:
    """See that a note can be kept.

    Raises:
        StudyError: It is too long.
        ValueError: There is no such kind.
    """
    if kind not in NOTE_KINDS:
        raise ValueError(f"{kind!r} is no kind of note; choose from: {', '.join(NOTE_KINDS)}")
    if len(detail) > LONGEST:
        raise StudyError(f"the {kind} has {len(detail)} characters; write at most {LONGEST}")


def write(
    connection: Connection,
    who: Rater,
    kind: NoteKind,
    detail: str,
    *,
    now: datetime,
    presentation: int | None,
) -> None:
    """Append a note that comes from outside.

    Raises:
        StudyError: The rater is not of this study, the presentation not the rater's, or the note too long.
        ValueError: There is no such kind, or it is a decision's.
    """
    if kind in get_args(Decision):
        raise ValueError(f"a note of the kind {kind!r} is written by Store.{kind}")
    standing(connection, who)
    if presentation is not None:
        showing.claim(connection, presentation, who)
    add(connection, who, kind, detail, now=now, presentation=presentation)


def add(
    connection: Connection,
    who: Rater,
    kind: NoteKind,
    detail: str,
    *,
    now: datetime,
    presentation: int | None = None,
) -> None:
    """Append a note; whoever calls has seen that the rater and the presentation belong together.

    Raises:
        StudyError: It is too long.
        ValueError: There is no such kind.
    """
    check(kind, detail)
    values = {"rater_id": who.id, "presentation_id": presentation, "kind": kind, "detail": detail, "at": now}
    connection.execute(insert(note).values(values))


def add_changed(
    connection: Connection, who: Rater, kind: NoteKind, detail: str, *, now: datetime, presentation: int
) -> None:
    """Append a note on a presentation unless it says what the last one of its kind says, or nothing at all.

    An empty text after another one takes that back, and is noted as well.
    """
    last = connection.execute(
        select(note.c.detail)
        .where(note.c.presentation_id == presentation, note.c.kind == kind)
        .order_by(note.c.id.desc())
        .limit(1)
    ).scalar_one_or_none()
    if detail != (last or ""):
        add(connection, who, kind, detail, now=now, presentation=presentation)


def read(
    connection: Connection, *, name: str | None, kind: NoteKind | None, presentation: int | None
) -> list[Note]:
    """Return the notes of a rater, of a kind, on a presentation, or all, oldest first.

    The order is that in which they were written, whatever the clock said.
    """
    statement = (
        select(rater.c.name, note.c.kind, note.c.detail, note.c.presentation_id, note.c.at)
        .join(rater, rater.c.id == note.c.rater_id)
        .order_by(note.c.id)
    )
    for column, wanted in ((rater.c.name, name), (note.c.kind, kind), (note.c.presentation_id, presentation)):
        if wanted is not None:
            statement = statement.where(column == wanted)
    return [
        Note(rater=row.name, kind=row.kind, detail=row.detail, presentation=row.presentation_id, at=row.at)
        for row in connection.execute(statement)
    ]
