"""A judge's verdicts, many in one transaction; `guard_eval.store.verdicts` saves a person's, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import schema
from guard_eval.store.judging.values import Judgment
from guard_eval.store.raters import standing
from guard_eval.store.schema import batches, presentation, verdict
from guard_eval.store.verdicts import check_choices

_RATERS = (
    select(presentation.c.id, presentation.c.rater_id)
    .where(presentation.c.id.in_(bindparam("asked", expanding=True)))
    .with_for_update()
)
_CURRENT = (
    select(verdict.c.presentation_id, verdict.c.criterion, verdict.c.revision, verdict.c.choice)
    .where(verdict.c.presentation_id.in_(bindparam("asked", expanding=True)))
    .order_by(verdict.c.revision)
)
_FIRST = (
    update(presentation)
    .where(presentation.c.id == bindparam("its_id"), presentation.c.rated_at.is_(None))
    .values(rated_at=bindparam("now_rated"))
)
_CRITERIA = (
    select(verdict.c.criterion)
    .join(presentation, presentation.c.id == verdict.c.presentation_id)
    .where(presentation.c.rater_id == bindparam("asked"))
    .distinct()
)

_Latest = dict[tuple[int, str], tuple[int, str]]


def save(
    connection: Connection,
    rater: Rater,
    judgments: Sequence[Judgment],
    *,
    now: datetime,
    study_hash: str | None,
) -> int:
    """Append the verdicts, and return how many presentations they changed; a repeated choice adds nothing.

    Raises:
        StudyError: A presentation was not handed to this rater, or the rater is revoked.
    """
    if not judgments:
        return 0
    if standing(connection, rater).revoked:
        raise StudyError(f"the rater {rater.name!r} is revoked, so its verdicts are not taken any more")
    numbers = sorted({each.presentation for each in judgments})
    _check(connection, rater, numbers)
    if study_hash is not None:
        schema.set_with_first_verdict(connection, study_hash)
    latest = _latest(connection, numbers)
    rows = []
    for each in judgments:
        check_choices(each.choices)
        for criterion, choice in each.choices.items():
            revision, current = latest.get((each.presentation, criterion), (-1, ""))
            if current != choice:
                latest[each.presentation, criterion] = (revision + 1, choice)
                rows.append(
                    {
                        "presentation_id": each.presentation,
                        "criterion": criterion,
                        "revision": revision + 1,
                        "choice": choice,
                        "at": now,
                    }
                )
    if rows:
        connection.execute(insert(verdict), rows)
        connection.execute(_FIRST, [{"its_id": number, "now_rated": now} for number in numbers])
    return len({row["presentation_id"] for row in rows})


def criteria(connection: Connection, rater: Rater) -> set[str]:
    """Return the criteria on which the rater has given verdicts."""
    return set(connection.execute(_CRITERIA, {"asked": rater.id}).scalars())


def _check(connection: Connection, rater: Rater, numbers: Sequence[int]) -> None:
    found: dict[int, int] = {}
    for part in batches(numbers):
        found.update((row.id, row.rater_id) for row in connection.execute(_RATERS, {"asked": part}))
    for number in numbers:
        if found.get(number) != rater.id:
            raise StudyError(f"presentation {number} was not handed to the rater {rater.name!r}")


def _latest(connection: Connection, numbers: Sequence[int]) -> _Latest:
    latest: _Latest = {}
    for part in batches(numbers):
        for row in connection.execute(_CURRENT, {"asked": part}):
            latest[row.presentation_id, row.criterion] = (row.revision, row.choice)
    return latest
