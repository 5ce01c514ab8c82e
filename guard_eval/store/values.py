"""What goes into the store and comes out of it, besides the records of the study itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from guard_eval.errors import StudyError
from guard_eval.records import NoteKind, RaterKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """What became of a verdict.

    Attributes:
        revision: The highest revision now current among the criteria saved: 0 unless a mind was changed.
        surplus: The slot had gone to another rater before this came; it is kept, and not counted by default.
    """

    revision: int
    surplus: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterProgress:
    """How far a rater has come, in presentations of the study's pairs.

    `source` and `external_id` are there for raters who enrolled by themselves: they are paid by that id, and
    it is for the study's owner alone.
    """

    name: str
    kind: RaterKind
    revoked: bool
    handed_out: int
    rated: int
    excluded: bool = False
    source: str | None = None
    external_id: str | None = None


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


LONGEST = 200
"""In characters; PostgreSQL's indexes hold no more than 2700 bytes."""


def check_name(what: str, name: str) -> None:
    """See that `name` can name `what`.

    Raises:
        StudyError: It is blank or longer than `LONGEST`.
    """
    if not name.strip():
        raise StudyError(f"the {what} {name!r} is empty; write something")
    if len(name) > LONGEST:
        raise StudyError(f"the {what} {name[:40]!r}… has {len(name)} characters; write at most {LONGEST}")
