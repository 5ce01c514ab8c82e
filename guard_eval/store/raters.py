"""Who rates: invitations, enrolment, and the owner's decisions to revoke, exclude, include or erase."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Row, and_, delete, func, insert, or_, select, update

from guard_eval.errors import StudyError
from guard_eval.lookalike import hides, look
from guard_eval.records import NoteKind, Plan, Rater, RaterKind
from guard_eval.reporting.escaping import visible
from guard_eval.store import handout, notes
from guard_eval.store.database import Store
from guard_eval.store.schema import (
    ERASING,
    FREE,
    IS_OUT,
    check_name,
    note,
    presentation,
    rater,
    setting,
    slot,
    token,
    verdict,
)

RaterState = Literal["excluded", "revoked", "declined", "finished", ""]

_OWN_WORDS: tuple[NoteKind, ...] = ("arrival", "background", "comment")
"""Notes that hold what a person wrote, or where it came from; the others hold choices and times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaterProgress:
    """How far a rater has come, in presentations of the study's pairs.

    Attributes:
        name: The rater's name.
        kind: person, model, simulated or simulated_model.
        handed_out: How many of the study's pairs it was shown.
        rated: How many of them it has rated.
        state: excluded, revoked, declined (no consent), finished (nothing was left), or nothing of these.
        source: Where a rater without an invitation came from, such as prolific.
        external_id: The source's own name for the rater, who is paid by it; for the study's owner alone.
    """

    name: str
    kind: RaterKind
    handed_out: int = 0
    rated: int = 0
    state: RaterState = ""
    source: str | None = None
    external_id: str | None = None

    @property
    def is_out(self) -> bool:
        """Return whether the rater is handed nothing more."""
        return self.state in {"excluded", "revoked"}


class Enrolment(NamedTuple):
    """What becomes of a person who comes without an invitation: a rater and its token, or a refusal.

    `full` means that no work is left, `elsewhere` that the id came in another browser first.
    """

    rater: Rater | None = None
    token: str = ""
    refusal: Literal["full", "elsewhere"] | None = None


def invite(store: Store, name: str) -> tuple[Rater, str]:
    """Add a person; return it and the token that lets it in, which is kept nowhere.

    Raises:
        StudyError: The name is taken, empty or too long.
    """
    with store.write() as (db, now):
        who, invitation = _add(db, name, "person", now), secrets.token_urlsafe()
        _admit(db, who.id, [invitation], now)
        return who, invitation


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
        invitation = secrets.token_urlsafe()
        _admit(db, row.id, [invitation], now)
        return invitation


def sign_in(store: Store, invitation: str) -> Rater | None:
    """Return whose token it is; None for one that is unknown or revoked."""
    known = select(rater).join(token).where(token.c.hash == _hash(invitation), rater.c.revoked_at.is_(None))
    with store.read() as db:
        row = db.execute(known).one_or_none()
    return None if row is None else _rater(row)


def enrol(
    store: Store, external_id: str, source: str, plan: Plan, *, browsers: Sequence[str] | None = None
) -> Enrolment:
    """Enrol the person with this id from a source such as `prolific`, while there is work.

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
    tokens = [_hash(f"{browser}\0{source}\0{external_id}") for browser in browsers or ()]
    tokens = tokens or [secrets.token_urlsafe()]
    with store.write() as (db, now):
        known = select(rater).where(rater.c.source == source, rater.c.external_id == external_id)
        row = db.execute(known).one_or_none()
        if row is not None:
            hashes = set(db.execute(select(token.c.hash).where(token.c.rater_id == row.id)).scalars())
            admitted = [each for each in tokens if _hash(each) in hashes]
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
    with store.write() as (db, now):
        row = db.execute(select(rater).where(rater.c.name == name)).one_or_none()
        if row is None:
            return _add(db, name, kind, now)
    if row.kind != kind:
        raise StudyError(f"the rater {name!r} is a {row.kind}, not a {kind}; choose another name")
    return _rater(row)


def read(store: Store) -> list[RaterProgress]:
    """Return every rater with its counts of the study's pairs, in the order they were added."""
    shown = and_(presentation.c.rater_id == rater.c.id, presentation.c.role == "study")
    counts = (func.count(presentation.c.id), func.count(presentation.c.rated_at))
    everybody = (
        select(rater, *counts).outerjoin(presentation, shown).group_by(rater.c.id).order_by(rater.c.id)
    )
    said = select(note.c.rater_id, note.c.kind, note.c.detail).order_by(note.c.id)
    with store.read() as db:
        rows = db.execute(everybody).all()
        answers = db.execute(said.where(note.c.kind.in_(("consent", "finished"))))
        last = {(rater_id, kind): detail for rater_id, kind, detail in answers}
    result = []
    for row in rows:
        *_, handed_out, rated = row
        agreed = json.loads(last.get((row.id, "consent"), "{}")).get("agreed", True)
        finished = json.loads(last.get((row.id, "finished"), "{}")).get("rated") == rated
        states: dict[RaterState, bool] = {
            "excluded": row.excluded_at is not None,
            "revoked": row.revoked_at is not None,
            "declined": not agreed,
            "finished": finished,
        }
        result.append(
            RaterProgress(
                name=row.name,
                kind=row.kind,
                handed_out=handed_out,
                rated=rated,
                state=next((state for state, holds in states.items() if holds), ""),
                source=row.source,
                external_id=row.external_id,
            )
        )
    return result


def is_out(store: Store, who: Rater) -> bool:
    """Return whether a rater is revoked or excluded.

    Raises:
        StudyError: The database does not know the rater.
    """
    with store.read() as db:
        return handout.is_out(db, who)


def revoke(store: Store, name: str) -> None:
    """Let a rater in no more and free the slots it has not rated; its verdicts stay.

    Raises:
        StudyError: There is no such rater.
    """
    with store.write() as (db, now):
        row = find(db, name)
        db.execute(update(rater).where(rater.c.id == row.id).values(revoked_at=row.revoked_at or now))
        handout.release_rater(db, row.id, rated=False)


def exclude(store: Store, name: str, reason: str, by: str) -> None:
    """Leave a rater's verdicts out and free its slots; nothing is deleted, and the decision is noted.

    Raises:
        StudyError: There is no such rater, it is excluded already, or no name or no reason is given.
    """
    _decide(store, name, "exclude", reason, by)


def include(store: Store, name: str, reason: str, by: str) -> None:
    """Take an excluded rater in again; what it rated counts where no other rater has the slot by now.

    Raises:
        StudyError: There is no such rater, it is not excluded, or no name or no reason is given.
    """
    _decide(store, name, "include", reason, by)


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
        revoke(store, name)
        db.execute(insert(setting).values(key=ERASING, value="a person"))  # lets rows be changed and removed
        mine = note.c.rater_id == row.id
        kinds = note.c.kind.not_in(notes.DECISIONS) if verdicts else note.c.kind.in_(_OWN_WORDS)
        db.execute(delete(note).where(mine, kinds))
        if verdicts:
            handout.release_rater(db, row.id, rated=True)
            shown = select(presentation.c.id).where(presentation.c.rater_id == row.id)
            for table in (note, verdict):
                db.execute(delete(table).where(table.c.presentation_id.in_(shown)))
            db.execute(delete(presentation).where(presentation.c.rater_id == row.id))
        for each in db.execute(select(note).where(mine, note.c.kind.in_(notes.DECISIONS))).all():
            detail = _without(each.detail, [name, row.external_id], pseudonym)
            db.execute(update(note).where(note.c.id == each.id).values(detail=detail))
        db.execute(delete(setting).where(setting.c.key == ERASING))
        db.execute(delete(token).where(token.c.rater_id == row.id))
        anonymous = {"name": pseudonym, "source": None, "external_id": None}
        db.execute(update(rater).where(rater.c.id == row.id).values(anonymous))
        detail = json.dumps({"by": by, "verdicts": "removed" if verdicts else "kept"})
        notes.add(db, _rater(row), "erase", detail, now=now)
    _scrub(store)
    return pseudonym, row.external_id or ""


def find(db: Connection, name: str) -> Row[Any]:
    """Return the row of the rater of that name, or raise a `StudyError`."""
    row = db.execute(select(rater).where(rater.c.name == name)).one_or_none()
    if row is None:
        raise StudyError(f"there is no rater named {name!r}; list them with: guard-eval raters list STUDY")
    return row


def _rater(row: Row[Any]) -> Rater:
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
        alike = "" if other == name else f", which looks like {name!a}"
        raise StudyError(f"a rater named {other!a} exists{alike}; choose another name")
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


def _admit(db: Connection, rater_id: int, tokens: Sequence[str], now: datetime) -> None:
    for each in tokens:
        db.execute(insert(token).values(hash=_hash(each), rater_id=rater_id, created_at=now))


def _count_openings(store: Store, db: Connection, plan: Plan, now: datetime) -> int:
    """Return for how many raters there is work beside those who enrolled or had a pair within a lease."""
    handout.make_slots(store, db, plan)
    of_people = slot.c.pool == handout.PEOPLE
    pairs = db.execute(select(func.count()).where(of_people, slot.c.number == 0)).scalar_one()
    share = max(1, min(pairs, plan.quota or pairs))
    enrolled = rater.c.source.is_not(None)
    busy = (
        select(func.count(presentation.c.rated_at).filter(presentation.c.role == "study"))
        .select_from(rater)
        .outerjoin(presentation, presentation.c.rater_id == rater.c.id)
        .outerjoin(slot, slot.c.held_by == presentation.c.id)
        .where(enrolled, ~IS_OUT)
        .group_by(rater.c.id)
        .having(or_(func.max(slot.c.leased_until) > now, rater.c.created_at > now - plan.lease))
    )
    work = sum(max(0, share - rated) for rated in db.execute(busy).scalars())
    unrated = (
        select(func.count())
        .select_from(slot)
        .outerjoin(presentation, presentation.c.id == slot.c.held_by)
        .outerjoin(rater, rater.c.id == presentation.c.rater_id)
        .where(of_people, slot.c.open, slot.c.for_rater.is_(None))
        .where(presentation.c.rated_at.is_(None), or_(FREE, enrolled))
    )
    return max(0, -(-(int(db.execute(unrated).scalar_one()) - work) // share))


def _decide(store: Store, name: str, kind: Literal["exclude", "include"], reason: str, by: str) -> None:
    check_name("name of who decides", by)
    if not reason.strip():
        raise StudyError(f"the reason to {kind} {name!r} is empty; write one, as the report will show it")
    with store.write() as (db, now):
        row = find(db, name)
        if (row.excluded_at is None) != (kind == "exclude"):
            state = "excluded already; its notes say why" if row.excluded_at else "not excluded"
            raise StudyError(f"the rater {name!r} is {state}; there is nothing to {kind}")
        detail = json.dumps({"by": by, "reason": reason}, ensure_ascii=False)
        notes.add(db, _rater(row), kind, detail, now=now)
        excluded_at = now if kind == "exclude" else None
        db.execute(update(rater).where(rater.c.id == row.id).values(excluded_at=excluded_at))
        if excluded_at is None:
            handout.hold_again(db, row.id)
        else:
            handout.release_rater(db, row.id, rated=True)
        pairs = select(presentation.c.pair_id).where(presentation.c.rater_id == row.id)
        handout.open_slots(db, handout.PEOPLE, slot.c.pair_id.in_(pairs))


def _without(detail: str, identity: Sequence[str | None], pseudonym: str) -> str:
    """Return a decision's note without the name and the id, if they occur in it as whole words."""
    values = json.loads(detail)
    for part in filter(None, identity):
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
