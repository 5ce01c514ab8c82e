"""Raters whom nobody invited, and new links for those who were."""

from __future__ import annotations

import secrets
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import raters
from guard_eval.store.names import check_name
from guard_eval.store.schema import rater, visit


def enrol(connection: Connection, external_id: str, source: str, now: datetime) -> tuple[Rater, str]:
    """Return who comes under this id from this source, new the first time, and a token that lets it in.

    A second token leaves the first one good, since a page may be open in two tabs. A revoked rater's lets
    nobody in. Must run alone among those who add raters.

    Raises:
        StudyError: The id or the source is empty or too long.
    """
    check_name("external id", external_id)
    check_name("source", source)
    known = (rater.c.source == source, rater.c.external_id == external_id)
    row = connection.execute(select(rater).where(*known)).one_or_none()
    if row is None:
        name = _pseudonym(connection)
        who = raters.add(connection, name, "person", now, source=source, external_id=external_id)
    else:
        who = raters.to_rater(row)
    token = secrets.token_urlsafe()
    if row is None or row.revoked_at is None:
        values = {"token_hash": raters.hash_of(token), "rater_id": who.id, "created_at": now}
        connection.execute(insert(visit).values(values))
    return who, token


def link(connection: Connection, name: str) -> str:
    """Return a new token for a person; all that were given before let nobody in any more.

    Raises:
        StudyError: There is no such rater, it is no person, or it is revoked.
    """
    who = raters.find(connection, name)
    if who.kind != "person":
        raise StudyError(f"the rater {name!r} is a {who.kind}, and only people come by a link")
    if raters.standing(connection, who).revoked:
        raise StudyError(f"the rater {name!r} is revoked; invite them under another name")
    token = secrets.token_urlsafe()
    connection.execute(delete(visit).where(visit.c.rater_id == who.id))
    connection.execute(update(rater).where(rater.c.id == who.id).values(token_hash=raters.hash_of(token)))
    return token


def _pseudonym(connection: Connection) -> str:
    """Return the first free one of P-1, P-2, …, counting from those who enrolled before."""
    enrolled = select(func.count()).where(rater.c.external_id.is_not(None))
    number = connection.execute(enrolled).scalar_one() + 1
    while raters.by_name(connection, f"P-{number}") is not None:
        number += 1
    return f"P-{number}"
