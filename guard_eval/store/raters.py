"""Who rates: invitations, enrolment, and the owner's decisions to revoke, exclude, include or erase."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from guard_eval.errors import StudyError
from guard_eval.lookalike import hides, look
from guard_eval.records import NoteKind, Plan, Rater, RaterKind
from guard_eval.reporting.escaping import visible
from guard_eval.store import handout, notes
from guard_eval.store.database import Store
from guard_eval.store.schema import (
    ERASING,
    IS_OUT,
    OPEN,
    UNRATED,
    check_name,
    note,
    presentation,
    rater,
    setting,
    slot,
    token,
    verdict,
)

Refusal = Literal["full", "elsewhere"]
"""Why a person is not enrolled: no work is left, or the id came in another browser first."""

_OWN_WORDS: tuple[NoteKind, ...] = ("arrival", "background", "comment")
"""Notes that hold what a person wrote, or where it came from; the others hold choices and times."""


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


class Enrolment(NamedTuple):
    """What becomes of a person who comes without an invitation: a rater and its token, or a refusal."""

    rater: Rater | None = None
    token: str = ""
    refusal: Refusal | None = None


def invite(store: Store, name: str) -> tuple[Rater, str]:
    """Add a person; return it and the token that lets it in, which is kept nowhere.

    Raises:
        StudyError: The name is taken, empty or too long.
    """
    with store.write() as (db, now):
        if _row(db, name) is not None:
            raise StudyError(f"a rater named {name!r} exists; choose another name")
        who = _add(db, name, "person", now)
        return who, _new_token(db, who, now)


def renew_link(store: Store, name: str) -> str:
    """Return a new token for a person; those given before no longer work.

    Raises:
        StudyError: There is no such rater, it is no person, or it is revoked.
    """
    with store.write() as (db, now):
        row = find(db, name)
        if row.kind != "person":
            raise StudyError(f"the rater {name!r} is a {row.kind}, and only people come by a link")
        if row.revoked_at is not None:
            raise StudyError(f"the rater {name!r} is revoked; invite them under another name")
        db.execute(delete(token).where(token.c.rater_id == row.id))
        return _new_token(db, _rater(row), now)


def sign_in(store: Store, invitation: str) -> Rater | None:
    """Return whose token it is; None for one that is unknown or revoked."""
    known = select(rater).join(token).where(token.c.hash == _hash(invitation), rater.c.revoked_at.is_(None))
    with store.read() as db:
        row = db.execute(known).one_or_none()
    return None if row is None else _rater(row)


def enrol(
    store: Store, external_id: str, source: str, plan: Plan, *, browsers: Sequence[str] | None = None
) -> Enrolment:
    """Let in who comes under this id from a source such as `prolific`, while there is work.

    The first time it is a new person, named P-1, P-2, …; later the same one. A revoked rater's token lets
    nobody in.

    Args:
        store: The study's.
        external_id: The source's own name for the rater.
        source: Where it comes from.
        plan: How much work there is.
        browsers: The browser's secrets: the id is let in again with one of these alone. None where the source
            itself proves who it is.

    Raises:
        StudyError: The id or the source is empty or too long.
    """
    check_name("external id", external_id)
    check_name("source", source)
    if browsers is None:
        tokens = [secrets.token_urlsafe()]
    else:
        tokens = [_hash(f"{browser}\0{source}\0{external_id}") for browser in browsers]
    with store.write() as (db, now):
        known = select(rater).where(rater.c.source == source, rater.c.external_id == external_id)
        row = db.execute(known).one_or_none()
        if row is not None:
            admitted = _admitted(db, row.id, tokens)
            if browsers is not None and not admitted:
                return Enrolment(refusal="elsewhere")
            if row.revoked_at is None:
                # two tabs opened at once have a cookie each; from now on either will do
                _admit(db, row.id, [each for each in tokens if each not in admitted], now)
            return Enrolment(_rater(row), (admitted or tokens)[0])
        if _count_openings(store, db, plan, now) < 1:
            return Enrolment(refusal="full")
        who = _add(db, _pseudonym(db), "person", now, source=source, external_id=external_id)
        _admit(db, who.id, tokens, now)
        return Enrolment(who, tokens[0])


def count_openings(store: Store, plan: Plan) -> int:
    """Return how many more raters without an invitation the study has work for."""
    with store.write() as (db, now):
        return _count_openings(store, db, plan, now)


def get_or_add(store: Store, name: str, kind: RaterKind) -> Rater:
    """Return the rater of that name, added if it is new: for models and simulations.

    Raises:
        StudyError: The name belongs to a rater of another kind.
    """
    if kind not in get_args(RaterKind):
        raise StudyError(f"{kind!r} is no kind of rater; choose from: {', '.join(get_args(RaterKind))}")
    with store.write() as (db, now):
        row = _row(db, name)
        if row is None:
            return _add(db, name, kind, now)
    if row.kind != kind:
        raise StudyError(f"the rater {name!r} is a {row.kind}, not a {kind}; choose another name")
    return _rater(row)


def read(store: Store) -> list[RaterProgress]:
    """Return every rater with its counts of the study's pairs, in the order they were added."""
    shown = and_(presentation.c.rater_id == rater.c.id, presentation.c.role == "study")
    counts = (
        func.count(presentation.c.id).label("shown"),
        func.count(presentation.c.rated_at).label("rated"),
    )
    statement = (
        select(rater, *counts).outerjoin(presentation, shown).group_by(rater.c.id).order_by(rater.c.id)
    )
    with store.read() as db:
        return [
            RaterProgress(
                name=row.name,
                kind=row.kind,
                revoked=row.revoked_at is not None,
                handed_out=row.shown,
                rated=row.rated,
                excluded=row.excluded_at is not None,
                source=row.source,
                external_id=row.external_id,
            )
            for row in db.execute(statement)
        ]


def is_out(store: Store, who: Rater) -> bool:
    """Return whether a rater is revoked or excluded.

    Raises:
        StudyError: The database does not know the rater.
    """
    with store.read() as db:
        notes.check_owner(db, who, None)
        return bool(db.execute(select(IS_OUT).where(rater.c.id == who.id)).scalar_one())


def revoke(store: Store, name: str) -> None:
    """Let a rater in no more and free the slots it has not rated; its verdicts stay.

    Raises:
        StudyError: There is no such rater.
    """
    with store.write() as (db, now):
        _revoke(db, find(db, name).id, now)


def exclude(store: Store, name: str, reason: str, by: str) -> None:
    """Leave a rater's verdicts out and free its slots; nothing is deleted, and the decision is noted.

    Raises:
        StudyError: There is no such rater, it is excluded already, or no name or no reason is given.
    """
    with store.write() as (db, now):
        row = find(db, name)
        if row.excluded_at is not None:
            raise StudyError(f"the rater {name!r} is excluded already; its notes say why")
        _record_decision(db, _rater(row), "exclude", reason, by=by, now=now)
        db.execute(update(rater).where(rater.c.id == row.id).values(excluded_at=now))
        handout.release_rater(db, row.id, rated=True)
        handout.open_slots(db, handout.PEOPLE, _was_shown(row.id))


def include(store: Store, name: str, reason: str, by: str) -> None:
    """Take an excluded rater in again; what it rated counts where no other rater has the slot by now.

    Raises:
        StudyError: There is no such rater, it is not excluded, or no name or no reason is given.
    """
    with store.write() as (db, now):
        row = find(db, name)
        if row.excluded_at is None:
            raise StudyError(f"the rater {name!r} is not excluded; there is nothing to take back")
        _record_decision(db, _rater(row), "include", reason, by=by, now=now)
        db.execute(update(rater).where(rater.c.id == row.id).values(excluded_at=None))
        handout.hold_again(db, row.id)
        handout.open_slots(db, handout.PEOPLE, _was_shown(row.id))


def erase(store: Store, name: str, by: str, *, verdicts: bool = False) -> tuple[str, str]:
    """Take a person's identity and words out of the database for good, and let it in no more.

    Its verdicts stay, under a name that says nothing; with `verdicts` they go too, and the pairs are free for
    others. That it was done is noted. The old bytes are overwritten in the database's own files; what copies
    of it hold is beyond reach.

    Returns:
        The new name, and the id under which the person came, where there was one.

    Raises:
        StudyError: There is no such rater, it is no person, or another program forbids the overwriting.
    """
    with store.write() as (db, now):
        row = find(db, name)
        if row.kind != "person":
            raise StudyError(f"the rater {name!r} is a {row.kind}; only people are erased")
        pseudonym = f"erased-{row.id}"
        while _look_alike(db, pseudonym) not in {None, name}:
            pseudonym += "-"
        _revoke(db, row.id, now)
        with _rows_may_go(db):
            mine = note.c.rater_id == row.id
            kinds = note.c.kind.not_in(notes.DECISIONS) if verdicts else note.c.kind.in_(_OWN_WORDS)
            db.execute(delete(note).where(mine, kinds))
            if verdicts:
                _remove_ratings(db, row.id)
            identity = [part for part in (name, row.external_id) if part]
            for each in db.execute(select(note).where(mine, note.c.kind.in_(notes.DECISIONS))).all():
                detail = _without(each.detail, identity, pseudonym)
                db.execute(update(note).where(note.c.id == each.id).values(detail=detail))
        db.execute(delete(token).where(token.c.rater_id == row.id))
        anonymous = {"name": pseudonym, "source": None, "external_id": None}
        db.execute(update(rater).where(rater.c.id == row.id).values(anonymous))
        detail = json.dumps({"by": by, "verdicts": "removed" if verdicts else "kept"})
        notes.add(db, _rater(row), "erase", detail, now=now)
    _scrub(store)
    return pseudonym, row.external_id or ""


def find(db: Connection, name: str) -> Row[tuple[object, ...]]:
    """Return the row of the rater of that name, or raise a `StudyError`."""
    row = _row(db, name)
    if row is None:
        raise StudyError(f"there is no rater named {name!r}; list them with: guard-eval raters list STUDY")
    return row


def _row(db: Connection, name: str) -> Row[tuple[object, ...]] | None:
    return db.execute(select(rater).where(rater.c.name == name)).one_or_none()


def _was_shown(rater_id: int) -> ColumnElement[bool]:
    return slot.c.pair_id.in_(select(presentation.c.pair_id).where(presentation.c.rater_id == rater_id))


def _rater(row: Row[tuple[object, ...]]) -> Rater:
    return Rater(id=row.id, name=row.name, kind=row.kind)


def _add(db: Connection, name: str, kind: RaterKind, now: datetime, **more: str) -> Rater:
    """Add a rater, with `more` of its columns filled; its name must look like no other's."""
    check_name("rater's name", name)
    if hides(name) or visible(name) != name or name != name.strip():
        raise StudyError(
            f"the rater's name {name!a} has characters that cannot be seen, or begins or ends with a blank; "
            "write it without them"
        )
    other = _look_alike(db, name)
    if other is not None:
        raise StudyError(f"a rater named {other!a} exists, which looks like {name!a}; choose another")
    values = {"name": name, "kind": kind, "created_at": now, **more}
    number = db.execute(insert(rater).values(values).returning(rater.c.id)).scalar_one()
    return Rater(id=number, name=name, kind=kind)


def _look_alike(db: Connection, name: str) -> str | None:
    names = db.execute(select(rater.c.name)).scalars()
    return next((other for other in names if look(other) == look(name)), None)


def _pseudonym(db: Connection) -> str:
    """Return the first free one of P-1, P-2, …, counting from those who enrolled before."""
    number = db.execute(select(func.count()).where(rater.c.external_id.is_not(None))).scalar_one() + 1
    while _look_alike(db, f"P-{number}") is not None:
        number += 1
    return f"P-{number}"


def _hash(invitation: str) -> str:
    return hashlib.sha256(invitation.encode("utf-8", "surrogatepass")).hexdigest()


def _new_token(db: Connection, who: Rater, now: datetime) -> str:
    invitation = secrets.token_urlsafe()
    _admit(db, who.id, [invitation], now)
    return invitation


def _admit(db: Connection, rater_id: int, tokens: Sequence[str], now: datetime) -> None:
    for each in tokens:
        db.execute(insert(token).values(hash=_hash(each), rater_id=rater_id, created_at=now))


def _admitted(db: Connection, rater_id: int, tokens: Sequence[str]) -> list[str]:
    known = set(db.execute(select(token.c.hash).where(token.c.rater_id == rater_id)).scalars())
    return [each for each in tokens if _hash(each) in known]


def _count_openings(store: Store, db: Connection, plan: Plan, now: datetime) -> int:
    """Return for how many raters there is work beside those who enrolled or had a pair within a lease."""
    handout.make_slots(store, db, plan)
    of_people = slot.c.pool == handout.PEOPLE
    pairs = db.execute(select(func.count()).where(of_people, slot.c.number == 0)).scalar_one()
    share = max(1, min(pairs, plan.quota or pairs))
    rated = func.count(presentation.c.rated_at).filter(presentation.c.role == "study")
    leased = func.count(slot.c.id).filter(slot.c.leased_until > now, UNRATED)
    busy = (
        select(rater.c.id, rated.label("rated"))
        .outerjoin(presentation, presentation.c.rater_id == rater.c.id)
        .outerjoin(slot, slot.c.held_by == presentation.c.id)
        .where(rater.c.source.is_not(None), ~IS_OUT)
        .group_by(rater.c.id)
        .having(or_(leased > 0, rater.c.created_at.between(now - plan.lease, now)))
    )
    work = {row.id: max(0, share - row.rated) for row in db.execute(busy)}
    holder = (
        select(func.count())
        .select_from(slot)
        .join(presentation, presentation.c.id == slot.c.held_by)
        .where(of_people, UNRATED, or_(presentation.c.rater_id.in_(work), slot.c.leased_until <= now))
    )
    free = select(func.count()).where(of_people, OPEN, slot.c.for_rater.is_(None))
    remaining = sum(db.execute(each).scalar_one() for each in (free, holder)) - sum(work.values())
    return max(0, -(-int(remaining) // share))


def _revoke(db: Connection, rater_id: int, now: datetime) -> None:
    admitted = (rater.c.id == rater_id, rater.c.revoked_at.is_(None))
    db.execute(update(rater).where(*admitted).values(revoked_at=now))
    handout.release_rater(db, rater_id, rated=False)


def _record_decision(
    db: Connection, who: Rater, kind: NoteKind, reason: str, *, by: str, now: datetime
) -> None:
    check_name("name of who decides", by)
    if not reason.strip():
        raise StudyError(f"the reason to {kind} {who.name!r} is empty; write one, as the report will show it")
    notes.add(db, who, kind, json.dumps({"by": by, "reason": reason}, ensure_ascii=False), now=now)


@contextmanager
def _rows_may_go(db: Connection) -> Iterator[None]:
    """Let rows of append-only tables be changed and removed until the block ends."""
    db.execute(insert(setting).values(key=ERASING, value="a person"))
    yield
    db.execute(delete(setting).where(setting.c.key == ERASING))


def _remove_ratings(db: Connection, rater_id: int) -> None:
    """Remove what a rater was shown, with its verdicts; the slots are free for others."""
    handout.release_rater(db, rater_id, rated=True)
    shown = select(presentation.c.id).where(presentation.c.rater_id == rater_id)
    for table in (note, verdict):
        db.execute(delete(table).where(table.c.presentation_id.in_(shown)))
    db.execute(delete(presentation).where(presentation.c.rater_id == rater_id))


def _without(detail: str, identity: Sequence[str], pseudonym: str) -> str:
    """Return a decision's note without the name or the id, where they stand in it as whole words."""
    values = json.loads(detail)
    for part in identity:
        pattern = rf"(?<!\w){re.escape(part)}(?!\w)"
        values = {key: re.sub(pattern, pseudonym, str(value)) for key, value in values.items()}
    return json.dumps(values, ensure_ascii=False)


def _scrub(store: Store) -> None:
    """Overwrite what was removed, in the database's file and in the log beside it.

    Raises:
        StudyError: Another program has the database open in a way that forbids it.
    """
    tables = (rater, token, note, verdict, presentation)
    with store.explained(), store.engine.connect() as connection:
        db = connection.execution_options(isolation_level="AUTOCOMMIT")
        for statement in ["VACUUM"] if store.is_sqlite else [f"VACUUM (FULL) {each.name}" for each in tables]:
            db.exec_driver_sql(statement)
        busy = store.is_sqlite and db.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
    if busy:
        raise StudyError(
            "the person is taken out, but another program is reading the database, and the old bytes are "
            "still in its files; stop it, then erase the rater once more by its new name"
        )
