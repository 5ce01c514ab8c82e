"""Which names the store takes for raters, criteria and keys."""

from __future__ import annotations

from guard_eval.errors import StudyError

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
