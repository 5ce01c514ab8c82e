"""What is noted of a rater besides verdicts: consent, practice, comments, skips, decisions. Never changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import NOTE_KINDS, NoteKind, Rater
from guard_eval.store.database import Store
from guard_eval.store.schema import note
from guard_eval.store.schema import presentation as _presentation
from guard_eval.store.schema import rater as _rater

LONGEST = 20_000
"""In characters. A longer comment comes from a program, not from a rater."""

DECISIONS: tuple[NoteKind, ...] = ("exclude", "include", "erase")
"""Kinds that only the functions of these names write, because they record what these did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something noted of a rater, as it was written.

    Attributes:
        rater: The rater's name.
        kind: What it is about.
        detail: A text, or JSON, as the kind has it; of a skip what the rater reported, with commas.
        presentation: What was shown when it was written, where it belongs to a pair.
        at: When it was written, in UTC.
        pair_id: The pair that was shown.
    """

    rater: str
    kind: NoteKind
    detail: str
    presentation: int | None
    at: datetime
    pair_id: str | None = None


def write(store: Store, who: Rater, kind: NoteKind, detail: str, *, presentation: int | None = None) -> None:
    """Append a note on a rater, or on what it was shown; it is on disk when this returns.

    Raises:
        StudyError: The database does not know the rater, the presentation was not handed to it, or the note
            is too long.
        ValueError: There is no such kind, or it is that of a decision.
    """
    if kind in DECISIONS:
        raise ValueError(f"a note of the kind {kind!r} is written by raters.{kind}")
    with store.write() as (db, now):
        check_owner(db, who, presentation)
        add(db, who, kind, detail, now=now, presentation=presentation)


def read(
    store: Store,
    *,
    rater: Rater | str | None = None,
    kind: NoteKind | None = None,
    presentation: int | None = None,
) -> list[Note]:
    """Return all notes, or those of a rater, of a kind, or on a presentation, oldest first."""
    name = rater.name if isinstance(rater, Rater) else rater
    wanted = {_rater.c.name: name, note.c.kind: kind, note.c.presentation_id: presentation}
    statement = (
        select(
            _rater.c.name.label("rater"),
            note.c.kind,
            note.c.detail,
            note.c.presentation_id.label("presentation"),
            note.c.at,
            _presentation.c.pair_id,
        )
        .select_from(note)
        .join(_rater)
        .outerjoin(_presentation, _presentation.c.id == note.c.presentation_id)
        .where(*(column == value for column, value in wanted.items() if value is not None))
        .order_by(note.c.id)
    )
    with store.read() as db:
        return [Note(**row) for row in db.execute(statement).mappings()]


def add(
    db: Connection, who: Rater, kind: NoteKind, detail: str, *, now: datetime, presentation: int | None = None
) -> None:
    """Append a note; the caller has checked that the rater and the presentation belong together."""
    if kind not in NOTE_KINDS:
        raise ValueError(f"{kind!r} is no kind of note; choose from: {', '.join(NOTE_KINDS)}")
    if len(detail) > LONGEST:
        raise StudyError(f"the {kind} has {len(detail)} characters; write at most {LONGEST}")
    values = {"rater_id": who.id, "presentation_id": presentation, "kind": kind, "detail": detail, "at": now}
    db.execute(insert(note).values(values))


def add_changed(
    db: Connection, who: Rater, kind: NoteKind, detail: str, *, now: datetime, presentation: int
) -> None:
    """Append a note on a presentation, unless it is empty or equals the last note of its kind.

    An empty text after another one takes that back, and is noted as well.
    """
    earlier = select(note.c.detail).where(note.c.presentation_id == presentation, note.c.kind == kind)
    last = db.execute(earlier.order_by(note.c.id.desc()).limit(1)).scalar_one_or_none()
    if detail != (last or ""):
        add(db, who, kind, detail, now=now, presentation=presentation)


def check_owner(db: Connection, who: Rater, number: int | None) -> None:
    """Check that the database knows a rater, and that the presentation of this number is the rater's."""
    known = db.execute(select(_rater.c.name, _rater.c.kind).where(_rater.c.id == who.id)).one_or_none()
    if known is None or tuple(known) != (who.name, who.kind):
        raise unknown_rater(who)
    if number is None:
        return
    mine = select(_presentation.c.rater_id).where(_presentation.c.id == number)
    owner = db.execute(mine).scalar_one_or_none() if 0 < number < 2**31 else None
    if owner is None:
        raise StudyError(f"there is no presentation {number}; ask for the next pair")
    if owner != who.id:
        raise StudyError(
            f"presentation {number} was not handed to the rater {who.name!r}; ask for the next pair"
        )


def check_admitted(db: Connection, who: Rater) -> None:
    """Raise a `StudyError` if a rater is revoked."""
    if db.execute(select(_rater.c.revoked_at).where(_rater.c.id == who.id)).scalar_one() is not None:
        raise StudyError(f"the rater {who.name!r} is revoked; ask the study's owner for a new invitation")


def unknown_rater(who: Rater) -> StudyError:
    """Return the error for a rater that the database does not know."""
    return StudyError(f"the rater {who.name!r} is not of this study; invite it with: guard-eval raters add")
