"""Who rates: invitations of people, and models and simulations by name."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime
from typing import get_args

from sqlalchemy import Connection, Row, func, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import Rater, RaterKind
from guard_eval.store.names import check_name
from guard_eval.store.schema import presentation, rater
from guard_eval.store.values import RaterProgress


def pool_of(who: Rater) -> str:
    """Return the pool whose slots a rater fills: people share one, simulations too, models do not."""
    return {"person": "people", "simulated": "simulated", "model": f"model:{who.name}"}[who.kind]


def invite(connection: Connection, name: str, now: datetime) -> tuple[Rater, str]:
    """Add a person; return it and the token that lets it in, which is kept nowhere.

    Raises:
        StudyError: The name is taken, empty or too long.
    """
    if _by_name(connection, name) is not None:
        raise StudyError(f"a rater named {name!r} exists; choose another name")
    token = secrets.token_urlsafe()
    return _add(connection, name, "person", now, token_hash=_hash(token)), token


def sign_in(connection: Connection, token: str) -> Rater | None:
    """Return whose token it is; None for one that is unknown or revoked."""
    wanted = _hash(token)
    row = connection.execute(select(rater).where(rater.c.token_hash == wanted)).one_or_none()
    if row is None or row.revoked_at is not None or not hmac.compare_digest(row.token_hash, wanted):
        return None
    return _rater(row)


def find(connection: Connection, name: str) -> Rater:
    """Return the rater of that name.

    Raises:
        StudyError: There is no such rater.
    """
    row = _by_name(connection, name)
    if row is None:
        raise StudyError(f"there is no rater named {name!r}; list them with: guard-eval raters STUDY")
    return _rater(row)


def revoke(connection: Connection, who: Rater, now: datetime) -> None:
    """Let a rater in no more and free the slots it has not rated; its verdicts stay.

    Must run alone in the rater's pool.
    """
    connection.execute(
        update(rater).where(rater.c.id == who.id, rater.c.revoked_at.is_(None)).values(revoked_at=now)
    )
    unrated = (presentation.c.rater_id == who.id, presentation.c.rated_at.is_(None))
    connection.execute(
        update(presentation).where(*unrated, presentation.c.leased_until > now).values(leased_until=now)
    )


def get_or_add(connection: Connection, name: str, kind: RaterKind, now: datetime) -> Rater:
    """Return the rater of that name, new or not.

    Raises:
        StudyError: The name belongs to a rater of another kind, or the kind is unknown.
    """
    if kind not in get_args(RaterKind):
        raise StudyError(f"{kind!r} is no kind of rater; choose from: {', '.join(get_args(RaterKind))}")
    row = _by_name(connection, name)
    if row is None:
        return _add(connection, name, kind, now, token_hash=None)
    if row.kind != kind:
        raise StudyError(f"the rater {name!r} is a {row.kind}, not a {kind}; choose another name")
    return _rater(row)


def is_admitted(connection: Connection, who: Rater) -> bool:
    """Return whether a rater may rate, that is, is not revoked.

    Raises:
        StudyError: The database does not know the rater.
    """
    statement = select(rater.c.revoked_at).where(
        rater.c.id == who.id, rater.c.name == who.name, rater.c.kind == who.kind
    )
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise StudyError(
            f"the rater {who.name!r} is not of this study; invite it with: guard-eval raters STUDY"
        )
    return row.revoked_at is None


def progress(connection: Connection) -> list[RaterProgress]:
    """Return every rater with its counts, in the order they were added."""
    statement = (
        select(
            rater,
            func.count(presentation.c.id).label("handed"),
            func.count(presentation.c.rated_at).label("rated"),
        )
        .outerjoin(presentation, presentation.c.rater_id == rater.c.id)
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
        )
        for row in connection.execute(statement)
    ]


def _by_name(connection: Connection, name: str) -> Row[tuple[object, ...]] | None:
    return connection.execute(select(rater).where(rater.c.name == name)).one_or_none()


def _add(
    connection: Connection, name: str, kind: RaterKind, now: datetime, *, token_hash: str | None
) -> Rater:
    check_name("rater's name", name)
    values = {"name": name, "kind": kind, "token_hash": token_hash, "created_at": now}
    number = connection.execute(insert(rater).values(values).returning(rater.c.id)).scalar_one()
    return Rater(id=number, name=name, kind=kind)


def _rater(row: Row[tuple[object, ...]]) -> Rater:
    return Rater(id=row.id, name=row.name, kind=row.kind)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
