"""Leaving a rater out, and taking it in again: decisions that are recorded, and that lose nothing.

An excluded rater's showings are *withdrawn*: they hold no slot any more, so that others can fill it, and what
they say stays where it is. A rater taken in again gets the slots back that nobody has taken meanwhile; the
others' verdicts are surplus.
"""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import Connection, exists, false, select, true, update

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import notes, occupancy, raters
from guard_eval.store.names import check_name
from guard_eval.store.schema import presentation, rater


def exclude(connection: Connection, who: Rater, reason: str, by: str, now: datetime) -> None:
    """Leave a rater's verdicts out, free its slots, and note why and who said so.

    Must run alone in the rater's pool.

    Raises:
        StudyError: It is excluded already, or nobody or no reason is given.
    """
    if raters.standing(connection, who).excluded:
        raise StudyError(f"the rater {who.name!r} is excluded already; its notes say why")
    _record(connection, who, "exclude", reason=reason, by=by, now=now)
    connection.execute(update(rater).where(rater.c.id == who.id).values(excluded_at=now))
    holding = (presentation.c.role == "study", presentation.c.superseded == false())
    connection.execute(
        update(presentation).where(presentation.c.rater_id == who.id, *holding).values(withdrawn=true())
    )
    occupancy.recount(connection, raters.pool_of(who), rater_id=who.id)


def include(connection: Connection, who: Rater, reason: str, by: str, now: datetime) -> None:
    """Take an excluded rater in again, and note why and who said so.

    Must run alone in the rater's pool.

    Raises:
        StudyError: It is not excluded, or nobody or no reason is given.
    """
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
    occupancy.recount(connection, raters.pool_of(who), rater_id=who.id)


def _record(
    connection: Connection, who: Rater, kind: notes.Decision, *, reason: str, by: str, now: datetime
) -> None:
    check_name("name of who decides", by)
    if not reason.strip():
        raise StudyError(f"the reason to {kind} {who.name!r} is empty; write one, as the report will show it")
    detail = json.dumps({"by": by, "reason": reason}, ensure_ascii=False)
    notes.add(connection, who, kind, detail, now=now)
