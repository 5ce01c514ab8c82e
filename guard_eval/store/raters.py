"""Who rates: invitations of people, and models and simulations by name."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, get_args

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.lookalike import hides, look
from guard_eval.records import PEOPLE_OF, Rater, RaterKind
from guard_eval.reporting.escaping import visible
from guard_eval.store.handout import occupancy
from guard_eval.store.schema import check_name, presentation, rater, visit

PEOPLE = occupancy.PEOPLE
"""The pool that all people share."""


def pool_of(who: Rater) -> str:
    """Return the pool whose slots a rater fills: people share one, simulated people too, judges do not."""
    return f"model:{who.name}" if who.kind in PEOPLE_OF else {"person": PEOPLE}.get(who.kind, who.kind)


def invite(connection: Connection, name: str, now: datetime) -> tuple[Rater, str]:
    """Add a person; return it and its token (`Store.invite`)."""
    if by_name(connection, name) is not None:
        raise StudyError(f"a rater named {name!r} exists; choose another name")
    token = secrets.token_urlsafe()
    return add(connection, name, "person", now, token_hash=hash_of(token)), token


def sign_in(connection: Connection, token: str) -> Rater | None:
    """Return whose token it is; None for one that is unknown or revoked."""
    wanted = hash_of(token)
    row = connection.execute(
        select(rater, rater.c.token_hash.label("known")).where(rater.c.token_hash == wanted)
    ).one_or_none()
    if row is None:
        given = select(rater, visit.c.token_hash.label("known")).join(visit, visit.c.rater_id == rater.c.id)
        row = connection.execute(given.where(visit.c.token_hash == wanted)).one_or_none()
    if row is None or row.revoked_at is not None or not hmac.compare_digest(row.known, wanted):
        return None
    return to_rater(row)


def find(connection: Connection, name: str) -> Rater:
    """Return the rater of that name, or raise a `StudyError`."""
    row = by_name(connection, name)
    if row is None:
        raise StudyError(f"there is no rater named {name!r}; list them with: guard-eval raters STUDY")
    return to_rater(row)


def revoke(connection: Connection, who: Rater, now: datetime) -> None:
    """Let a rater in no more and free the slots it has not rated; must run alone in the rater's pool."""
    admitted = (rater.c.id == who.id, rater.c.revoked_at.is_(None))
    connection.execute(update(rater).where(*admitted).values(revoked_at=now))
    leased = (
        presentation.c.rater_id == who.id,
        presentation.c.rated_at.is_(None),
        presentation.c.leased_until > now,
    )
    connection.execute(update(presentation).where(*leased).values(leased_until=now))
    occupancy.recount_of(connection, pool_of(who), who.id)


def get_or_add(connection: Connection, name: str, kind: RaterKind, now: datetime) -> Rater:
    """Return the rater of that name, new or not (`Store.rater`)."""
    if kind not in get_args(RaterKind):
        raise StudyError(f"{kind!r} is no kind of rater; choose from: {', '.join(get_args(RaterKind))}")
    row = by_name(connection, name)
    if row is None:
        return add(connection, name, kind, now)
    if row.kind != kind:
        raise StudyError(f"the rater {name!r} is a {row.kind}, not a {kind}; choose another name")
    return to_rater(row)


_STANDING = select(rater.c.name, rater.c.kind, rater.c.revoked_at, rater.c.excluded_at).where(
    rater.c.id == bindparam("param_rater")
)


class Standing(NamedTuple):
    """Whether a rater is let in, and whether its verdicts are left out."""

    revoked: bool
    excluded: bool


def standing(connection: Connection, who: Rater) -> Standing:
    """Return a rater's standing in the study, or raise a `StudyError` if the database does not know it."""
    row = connection.execute(_STANDING, {"param_rater": who.id}).one_or_none()
    return standing_of(who, *(row or (None, None, None, None)))


def standing_of(
    who: Rater, name: str | None, kind: str | None, revoked_at: datetime | None, excluded_at: datetime | None
) -> Standing:
    """Return a rater's standing by its row, or raise a `StudyError` if that is another rater's."""
    if (name, kind) != (who.name, who.kind):
        raise StudyError(
            f"the rater {who.name!r} is not of this study; invite it with: guard-eval raters STUDY"
        )
    return Standing(revoked=revoked_at is not None, excluded=excluded_at is not None)


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


def progress(connection: Connection) -> list[RaterProgress]:
    """Return every rater with its counts of the study's pairs, in the order they were added."""
    statement = (
        select(
            rater,
            func.count(presentation.c.id).label("handed"),
            func.count(presentation.c.rated_at).label("rated"),
        )
        .outerjoin(presentation, and_(presentation.c.rater_id == rater.c.id, presentation.c.role == "study"))
        .group_by(rater.c.id)
        .order_by(rater.c.id)
    )
    return [
        RaterProgress(
            name=row.name,
            kind=row.kind,
            revoked=row.revoked_at is not None,
            handed_out=row.handed,
            rated=row.rated,
            excluded=row.excluded_at is not None,
            source=row.source,
            external_id=row.external_id,
        )
        for row in connection.execute(statement)
    ]


def by_name(connection: Connection, name: str) -> Row[tuple[object, ...]] | None:
    """Return the row of the rater of that name."""
    return connection.execute(select(rater).where(rater.c.name == name)).one_or_none()


def add(connection: Connection, name: str, kind: RaterKind, now: datetime, **more: str) -> Rater:
    """Add a rater, with `more` of its columns filled; its name must look like no other's."""
    check_name("rater's name", name)
    if hides(name) or visible(name) != name or name != name.strip():
        raise StudyError(
            f"the rater's name {name!a} has characters that cannot be seen, or begins or ends with a blank; "
            "write it without them"
        )
    other = alike(connection, name)
    if other is not None:
        raise StudyError(f"a rater named {other!a} exists, which looks like {name!a}; choose another")
    values = {"name": name, "kind": kind, "created_at": now, **more}
    number = connection.execute(insert(rater).values(values).returning(rater.c.id)).scalar_one()
    return Rater(id=number, name=name, kind=kind)


def alike(connection: Connection, name: str) -> str | None:
    """Return the name of a rater that looks like `name`; `None` if there is none."""
    names = connection.execute(select(rater.c.name)).scalars()
    return next((other for other in names if look(other) == look(name)), None)


def to_rater(row: Row[tuple[object, ...]]) -> Rater:
    """Return the rater whose row it is."""
    return Rater(id=row.id, name=row.name, kind=row.kind)


def hash_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def link(connection: Connection, name: str) -> str:
    """Return a new token for a person, in place of all that were given before (`Store.link`)."""
    who = find(connection, name)
    if who.kind != "person":
        raise StudyError(f"the rater {name!r} is a {who.kind}, and only people come by a link")
    if standing(connection, who).revoked:
        raise StudyError(f"the rater {name!r} is revoked; invite them under another name")
    token = secrets.token_urlsafe()
    connection.execute(delete(visit).where(visit.c.rater_id == who.id))
    connection.execute(update(rater).where(rater.c.id == who.id).values(token_hash=hash_of(token)))
    return token


def pseudonym(connection: Connection) -> str:
    """Return the first free one of P-1, P-2, …, counting from those who enrolled before."""
    enrolled = select(func.count()).where(rater.c.external_id.is_not(None))
    number = connection.execute(enrolled).scalar_one() + 1
    while alike(connection, f"P-{number}") is not None:
        number += 1
    return f"P-{number}"
