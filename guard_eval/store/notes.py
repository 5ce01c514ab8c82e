"""What is noted of a rater besides verdicts: consent, practice, comments, decisions. Nothing is changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import Connection, exists, false, insert, select, true, update

from guard_eval.errors import StudyError
from guard_eval.records import NOTE_KINDS, NoteKind, Rater
from guard_eval.store import raters, verdicts
from guard_eval.store.handout import occupancy
from guard_eval.store.raters import standing
from guard_eval.store.schema import check_name, note, presentation, rater

LONGEST = 20_000
"""In characters. A longer comment comes from a program, not from a rater."""

Decision = Literal["exclude", "include", "erase"]
"""Kinds that only the methods of these names write, because they record what these did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something noted of a rater, as it was written.

    Attributes:
        rater: The rater's name.
        kind: What it is about.
        detail: A text, or JSON, as the kind has it.
        presentation: What was shown when it was written, where it belongs to a pair.
        at: When it was written, in UTC.
    """

    rater: str
    kind: NoteKind
    detail: str
    presentation: int | None
    at: datetime


def check(kind: NoteKind, detail: str) -> None:
    """Check that there is such a kind of note, and that the note is not too long."""
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
    """Append a note that comes from outside (`Store.note`)."""
    if kind in get_args(Decision):
        raise ValueError(f"a note of the kind {kind!r} is written by Store.{kind}")
    if presentation is None:
        standing(connection, who)
    else:
        verdicts.claim(connection, presentation, who)
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
    """Append a note; the caller has checked that the rater and the presentation belong together."""
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
    """Return the notes of a rater, of a kind, on a presentation, or all, in the order they were written."""
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


def exclude(connection: Connection, who: Rater, reason: str, by: str, now: datetime) -> None:
    """Leave a rater's verdicts out, free its slots, and note why; must run alone in the rater's pool."""
    if raters.standing(connection, who).excluded:
        raise StudyError(f"the rater {who.name!r} is excluded already; its notes say why")
    _record(connection, who, "exclude", reason=reason, by=by, now=now)
    connection.execute(update(rater).where(rater.c.id == who.id).values(excluded_at=now))
    holding = (presentation.c.role == "study", presentation.c.superseded == false())
    connection.execute(
        update(presentation).where(presentation.c.rater_id == who.id, *holding).values(withdrawn=true())
    )
    occupancy.recount_of(connection, raters.pool_of(who), who.id)


def include(connection: Connection, who: Rater, reason: str, by: str, now: datetime) -> None:
    """Take an excluded rater in again, and note why; must run alone in the rater's pool."""
    if not raters.standing(connection, who).excluded:
        raise StudyError(f"the rater {who.name!r} is not excluded; there is nothing to take back")
    _record(connection, who, "include", reason=reason, by=by, now=now)
    connection.execute(update(rater).where(rater.c.id == who.id).values(excluded_at=None))
    other = presentation.alias()
    taken = exists(
        select(other.c.id).where(
            other.c.pool == presentation.c.pool,
            other.c.pair_id == presentation.c.pair_id,
            other.c.slot == presentation.c.slot,
            other.c.superseded == false(),
            other.c.withdrawn == false(),
        )
    )
    withdrawn = (presentation.c.rater_id == who.id, presentation.c.withdrawn == true())
    connection.execute(
        update(presentation).where(*withdrawn, taken).values(superseded=true(), withdrawn=false())
    )
    connection.execute(update(presentation).where(*withdrawn).values(withdrawn=false()))
    occupancy.recount_of(connection, raters.pool_of(who), who.id)


def _record(
    connection: Connection, who: Rater, kind: Decision, *, reason: str, by: str, now: datetime
) -> None:
    check_name("name of who decides", by)
    if not reason.strip():
        raise StudyError(f"the reason to {kind} {who.name!r} is empty; write one, as the report will show it")
    detail = json.dumps({"by": by, "reason": reason}, ensure_ascii=False)
    add(connection, who, kind, detail, now=now)
