"""Store notes about raters: consent, practice, comments, skips and decisions. Notes never change."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import NoteKind, Rater, record
from guard_eval.store.database import Store
from guard_eval.store.schema import SqlRow, query

MOST_CHARACTERS = 20_000
"""The longest allowed note, in characters. A longer note comes from a program, not from a rater."""

CHECK_ATTEMPTS = 2
"""The number of times a rater may try the comprehension check. The owner can allow further attempts."""

Refusal = Literal["declined", "failed the check"]
"""The reasons why a rater who has signed in may not rate."""

_STATUS = query("""
    SELECT name, kind, revoked_at, revoked_at IS NOT NULL OR excluded_at IS NOT NULL AS is_out
    FROM rater WHERE id = :rater
""")

_OWNER = query("SELECT rater_id FROM presentation WHERE id = :number")

_LAST = query("""
    SELECT detail FROM note WHERE presentation_id = :presentation AND kind = :kind ORDER BY id DESC LIMIT 1
""")

_WRITE = query("""
    INSERT INTO note (rater_id, presentation_id, kind, detail, at)
    VALUES (:rater, :presentation, :kind, :detail, :now)
""")

_NOTES = """
    SELECT rater.name AS rater, note.kind, note.detail, note.at, note.presentation_id AS presentation,
        presentation.pair_id
    FROM note JOIN rater ON rater.id = note.rater_id
    LEFT JOIN presentation ON presentation.id = note.presentation_id
    WHERE {condition} ORDER BY note.id
"""

_FILTERS = {
    "rater": "rater.name = :rater",
    "kind": "note.kind = :kind",
    "presentation": "note.presentation_id = :presentation",
}

_STEPS = query("""
    SELECT rater_id, kind, detail FROM note
    WHERE kind IN ('consent', 'check', 'include') AND rater_id IN :raters ORDER BY id
""")


@record
class Note:
    """A note about a rater.

    Attributes:
        rater: The rater's name.
        kind: The kind of the note.
        detail: Text or JSON, depending on the kind. For a skip: the reported problems, separated by commas.
        presentation: The presentation that the note is about, if the note is about a pair.
        at: The time at which the note was written, in UTC.
        pair_id: The pair of this presentation.
    """

    rater: str
    kind: NoteKind
    detail: str
    presentation: int | None
    at: datetime
    pair_id: str | None = None


def write_note(
    store: Store, rater: Rater, kind: NoteKind, detail: str, *, presentation: int | None = None
) -> None:
    """Append a note about a rater or a presentation. The note is on disk when this function returns.

    A note that equals the presentation's last note of the same kind is not written. An empty note removes the
    text of the earlier note; without an earlier note, it is not written.

    Raises:
        StudyError: The rater is not in the database, the presentation was not handed to this rater, or the
            note is too long.
    """
    if len(detail) > MOST_CHARACTERS:
        raise StudyError(f"the {kind} has {len(detail)} characters; write at most {MOST_CHARACTERS}")
    with store.begin_write() as (db, now):
        check_presentation_handed_to(db, rater, presentation)
        about = {"rater": rater.id, "presentation": presentation, "kind": kind}
        last = None if presentation is None else _LAST(db, **about).scalar() or ""
        if detail != last:
            _WRITE(db, **about, detail=detail, now=now)


def read_notes(
    store: Store,
    *,
    rater: str | None = None,
    kind: NoteKind | None = None,
    presentation: int | None = None,
) -> list[Note]:
    """Return notes, oldest first: all, or only those of a rater, of a kind, or about a presentation."""
    filters = {"rater": rater, "kind": kind, "presentation": presentation}
    values = {name: value for name, value in filters.items() if value is not None}
    condition = " AND ".join(["TRUE", *(_FILTERS[name] for name in values)])
    with store.begin_read() as db:
        rows = query(_NOTES.format(condition=condition))(db, **values)
        return [Note(**row) for row in rows.mappings()]


def count_suspicious_presentations(store: Store) -> dict[str, Counter[str]]:
    """Count each rater's presentations by sign of misuse: copied text, or a program in the browser."""
    signs = {
        (note.rater, note.presentation, sign)
        for note in read_notes(store, kind="conduct")
        for sign in json.loads(note.detail)
    }
    counts: dict[str, Counter[str]] = {}
    for name, _, sign in signs:
        counts.setdefault(name, Counter())[sign] += 1
    return counts


def read_rater_status(db: Connection, rater: Rater) -> SqlRow:
    """Return a rater's row: `revoked_at` is set if the rater is revoked, `is_out` if revoked or excluded.

    Raises:
        StudyError: The rater is not in the database.
    """
    row = _STATUS(db, rater=rater.id).one_or_none()
    if row is None or (row.name, row.kind) != (rater.name, rater.kind):
        raise StudyError(
            f"the rater {rater.name!r} is not in this study; run: guard-eval raters add STUDY NAME"
        )
    return row


def read_declined_or_failed_raters(db: Connection, rater_ids: Sequence[int]) -> dict[int, Refusal]:
    """Return the raters who declined or failed the check too often, each with the reason."""
    declined: dict[int, bool] = {}
    failures: Counter[int] = Counter()
    for row in _STEPS(db, raters=rater_ids):
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


def check_rater_not_revoked(db: Connection, rater: Rater) -> None:
    """Raise a `StudyError` if a rater is unknown or revoked."""
    if read_rater_status(db, rater).revoked_at is not None:
        raise StudyError(f"the rater {rater.name!r} is revoked; invite the person under another name")


def check_presentation_handed_to(db: Connection, rater: Rater, number: int | None) -> None:
    """Raise a `StudyError` if the rater is unknown, or was not handed this presentation."""
    read_rater_status(db, rater)
    if number is None:
        return
    owner = _OWNER(db, number=number if 0 < number < 2**31 else 0).scalar()
    if owner != rater.id:
        raise StudyError(f"presentation {number} was not handed to {rater.name!r}; ask for the next pair")
