"""What is noted of a rater besides verdicts: consent, practice, comments, skips, decisions. Never changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, insert, select

from guard_eval.errors import StudyError
from guard_eval.records import NoteKind, Rater
from guard_eval.store.database import Store
from guard_eval.store.schema import IS_OUT, NOTE, PRESENTATION, RATER, note
from guard_eval.store.schema import presentation as _presentation
from guard_eval.store.schema import rater as _rater

MOST_CHARACTERS = 20_000
"""A longer note comes from a program, not from a rater."""

CHECK_ATTEMPTS = 2
"""How often a rater may try the comprehension check; the owner can let a rater try again."""

Refusal = Literal["declined", "failed the check"]
"""Why a rater who is let in rates nothing."""

_STATUS = select(_rater.name, _rater.kind, _rater.revoked_at, IS_OUT.label("is_out")).where(
    _rater.id == bindparam("rater")
)


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


def write(
    store: Store,
    who: Rater,
    kind: NoteKind,
    detail: str,
    *,
    presentation: int | None = None,
    unless_same: bool = False,
) -> None:
    """Append a note on a rater, or on what it was shown; it is on disk when this returns.

    With `unless_same` nothing is added that equals the presentation's last note of its kind, or is empty
    where there is none. An empty text after another one takes that back.

    Raises:
        StudyError: The database does not know the rater, the presentation was not handed to it, or the note
            is too long.
    """
    if len(detail) > MOST_CHARACTERS:
        raise StudyError(f"the {kind} has {len(detail)} characters; write at most {MOST_CHARACTERS}")
    with store.write() as (db, now):
        check_owner(db, who, presentation)
        earlier = select(note.detail).where(note.presentation_id == presentation, note.kind == kind)
        last = db.execute(earlier.order_by(note.id.desc()).limit(1)).scalar() if unless_same else None
        if not unless_same or detail != (last or ""):
            values = {"rater_id": who.id, "presentation_id": presentation, "kind": kind}
            db.execute(insert(NOTE).values(**values, detail=detail, at=now))


def read(
    store: Store,
    *,
    rater: Rater | str | None = None,
    kind: NoteKind | None = None,
    presentation: int | None = None,
) -> list[Note]:
    """Return all notes, or those of a rater, of a kind, or on a presentation, oldest first."""
    name = rater.name if isinstance(rater, Rater) else rater
    wanted = {_rater.name: name, note.kind: kind, note.presentation_id: presentation}
    shown = (note.presentation_id.label("presentation"), _presentation.pair_id)
    statement = select(_rater.name.label("rater"), note.kind, note.detail, note.at, *shown)
    statement = statement.join_from(NOTE, RATER).outerjoin_from(NOTE, PRESENTATION).order_by(note.id)
    statement = statement.where(*(column == value for column, value in wanted.items() if value is not None))
    with store.read() as db:
        return [Note(**row) for row in db.execute(statement).mappings()]


def count_conduct(store: Store) -> dict[str, Counter[str]]:
    """Return on how many presentations each rater left the page with a copy, or a program acted, by name."""
    shown: dict[tuple[str, str], set[int | None]] = {}
    for entry in read(store, kind="conduct"):
        for what in json.loads(entry.detail):
            shown.setdefault((entry.rater, what), set()).add(entry.presentation)
    counts: dict[str, Counter[str]] = {}
    for (name, what), presentations in shown.items():
        counts.setdefault(name, Counter())[what] = len(presentations)
    return counts


def find_rater(db: Connection, who: Rater) -> Row[Any]:
    """Return whether a rater is revoked (`revoked_at`), or revoked or excluded (`is_out`).

    Raises:
        StudyError: The database does not know the rater.
    """
    row = db.execute(_STATUS, {"rater": who.id}).one_or_none()
    if row is None or (row.name, row.kind) != (who.name, who.kind):
        raise StudyError(
            f"the rater {who.name!r} is not of this study; run: guard-eval raters add STUDY NAME"
        )
    return row


def read_refusals(db: Connection, rater_ids: Collection[int] | None = None) -> dict[int, Refusal]:
    """Return who gave no consent, and who failed the check too often, of all raters or of these."""
    steps = select(note.rater_id, note.kind, note.detail).where(
        note.kind.in_(["consent", "check", "include"])
    )
    if rater_ids is not None:
        steps = steps.where(note.rater_id.in_(rater_ids))
    declined: dict[int, bool] = {}
    failures: Counter[int] = Counter()
    for row in db.execute(steps.order_by(note.id)):
        answer = json.loads(row.detail)
        if row.kind == "consent":
            declined[row.rater_id] = not answer.get("agreed", True)
        elif row.kind == "check" and not answer.get("passed"):
            failures[row.rater_id] += 1
        else:  # the check was passed, or the owner lets the rater try again
            failures[row.rater_id] = 0
    refusals: dict[int, Refusal] = {
        rater_id: "failed the check" for rater_id, count in failures.items() if count >= CHECK_ATTEMPTS
    }
    return refusals | {rater_id: "declined" for rater_id, is_declined in declined.items() if is_declined}


def check_admitted(db: Connection, who: Rater) -> None:
    """Raise a `StudyError` if a rater is unknown or revoked."""
    if find_rater(db, who).revoked_at is not None:
        raise StudyError(f"the rater {who.name!r} is revoked; invite them under another name")


def check_owner(db: Connection, who: Rater, number: int | None) -> None:
    """Raise a `StudyError` unless a rater is known, and was handed the presentation if there is one."""
    find_rater(db, who)
    mine = select(_presentation.rater_id).where(_presentation.id == number)
    if number is not None and not (0 < number < 2**31 and db.execute(mine).scalar() == who.id):
        raise StudyError(f"presentation {number} was not handed to {who.name!r}; ask for the next pair")
