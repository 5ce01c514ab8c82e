"""Places: for how many raters without an invite the study has work, and who has one of them.

A *place* is the work of one rater: as many pairs as the quota says. It is kept from before consent is asked
until the first pair is handed out, as long as the rater's page is open and renews it; from then on the lease
of the rater's open pair keeps it. It ends when the rater is done, and lapses when the page is closed.

A person for whom there is no place is not added: ids are easily invented. A place that is not used is free
again after `HOLD`. One network address gets, in a day and without a verdict, at most as many places as the
study has (and at least `FEW`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import Connection, and_, exists, func, insert, null, or_, select, update

from guard_eval.records import Plan, Rater
from guard_eval.store import raters
from guard_eval.store.handout import occupancy, slots
from guard_eval.store.handout.history import RaterHistory
from guard_eval.store.handout.occupancy import IS_OUT, PEOPLE
from guard_eval.store.handout.slots import Turn
from guard_eval.store.schema import HOLDS_SLOT, assignment, check_name, note, presentation, rater, visit

HOLD = timedelta(minutes=3)
"""For how long a place is kept without a sign from the rater's page."""

FEW = 5
"""So many unused places a day can be had from one address however small the study is."""

Refusal = Literal["full", "elsewhere", "crowded"]
"""Why a person gets no place: none is open, the id is another browser's, too many came from one address."""

_IS_KEPT = exists().where(
    assignment.c.pair_id == presentation.c.pair_id, assignment.c.slot == presentation.c.slot
)


class Enrolment(NamedTuple):
    """What became of a person who came by an id: a rater and a token, or why not."""

    rater: Rater | None = None
    token: str = ""
    refusal: Refusal | None = None


class _Demand(NamedTuple):
    """What is asked of the study's slots.

    Attributes:
        share: How many pairs are the work of one rater.
        total: How many places there are in all.
        placed: The raters who have a place, and how many pairs each has rated.
        remaining: How many showings are free and not needed for those.
    """

    share: int
    total: int
    placed: Mapping[int, int]
    remaining: int


def enrol(
    connection: Connection,
    external_id: str,
    source: str,
    plan: Plan,
    now: datetime,
    *,
    browsers: Sequence[str] | None,
    neighbours: Sequence[int],
    left: Sequence[int],
) -> Enrolment:
    """Let a person in by an id (`Store.enrol`); must run alone in the pool of people, and among raters."""
    check_name("external id", external_id)
    check_name("source", source)
    tokens = (
        [secrets.token_urlsafe()]
        if browsers is None
        else [_token(browser, source, external_id) for browser in browsers]
    )
    known = (rater.c.source == source, rater.c.external_id == external_id)
    row = connection.execute(select(rater).where(*known)).one_or_none()
    if row is not None:
        admitted = [token for token in tokens if _is_admitted(connection, row.id, token)]
        if browsers is not None and not admitted:
            return Enrolment(refusal="elsewhere")
        if row.revoked_at is None:
            # two tabs opened at once have a cookie each; from now on either will do
            _admit(connection, row.id, [token for token in tokens if token not in admitted], now)
        return Enrolment(raters.to_rater(row), (admitted or tokens)[0])
    _release(connection, left)
    demand = _demand(connection, plan, now)
    if demand.remaining < 1:
        return Enrolment(refusal="full")
    if _unused(connection, neighbours) >= max(FEW, demand.total):
        return Enrolment(refusal="crowded")
    name = raters.pseudonym(connection)
    who = raters.add(connection, name, "person", now, source=source, external_id=external_id)
    _set_place(connection, who.id, now + HOLD)
    _admit(connection, who.id, tokens, now)
    return Enrolment(who, tokens[0])


def renew(connection: Connection, who: Rater, plan: Plan, now: datetime) -> bool:
    """Keep a rater's place, or take one again where its own has lapsed (`Store.renew_place`)."""
    if any(raters.standing(connection, who)):
        return False
    demand = _demand(connection, plan, now)
    if who.id not in demand.placed and demand.remaining < 1:
        return False
    _set_place(connection, who.id, now + HOLD)
    return True


def end(connection: Connection, who: Rater) -> None:
    """Give a rater's place to others (`Store.end_place`)."""
    _set_place(connection, who.id, None)


def count_open(connection: Connection, plan: Plan, now: datetime) -> int:
    """Return how many more raters can be let in; must run alone in the pool of people."""
    demand = _demand(connection, plan, now)
    return max(0, -(-demand.remaining // demand.share))


def waits_until(connection: Connection, who: Rater, plan: Plan, now: datetime) -> datetime | None:
    """Return until when a rater who is handed nothing should wait (`Store.waits_until`)."""
    turn = Turn(connection, who, plan, now, occupancy.make_ready(connection, raters.pool_of(who), plan.slots))
    if any(raters.standing(connection, who)):
        return None
    if plan.quota is not None and RaterHistory.of(turn).shown >= plan.quota:
        return None
    lease_end = slots.next_lease_end(turn)
    if lease_end is None:
        return None
    # no longer than a lease after the last sign of the rater: a lease can be renewed for ever
    signs = (
        select(func.max(presentation.c.rated_at)).where(presentation.c.rater_id == who.id),
        select(func.max(note.c.at)).where(note.c.rater_id == who.id),
    )
    seen = [at for sign in signs if (at := connection.execute(sign).scalar_one()) is not None]
    longest = min(max(seen, default=now), now) + plan.lease
    return min(lease_end, longest) if longest > now else None


def _demand(connection: Connection, plan: Plan, now: datetime) -> _Demand:
    state = occupancy.make_ready(connection, PEOPLE, plan.slots)
    share = max(1, min(state.pairs, plan.quota or state.pairs))
    waiting = select(
        presentation.c.rater_id,
        (presentation.c.leased_until > now).label("live"),
        _IS_KEPT.label("kept"),
        func.count().label("times"),
    ).where(presentation.c.pool == PEOPLE, HOLDS_SLOT, presentation.c.rated_at.is_(None))
    held = connection.execute(waiting.group_by("rater_id", "live", "kept")).all()
    busy = {row.rater_id for row in held if row.live}
    # a time beyond that was noted before the clock was set back
    has_place = and_(rater.c.place_until > now, rater.c.place_until <= now + HOLD)
    rated = and_(
        presentation.c.rater_id == rater.c.id,
        presentation.c.role == "study",
        presentation.c.rated_at.is_not(None),
    )
    counted = (
        select(rater.c.id, func.count(presentation.c.id).label("rated"))
        .outerjoin(presentation, rated)
        .where(rater.c.source.is_not(None), ~IS_OUT, or_(has_place, rater.c.id.in_(busy)))
        .group_by(rater.c.id)
    )
    placed = {row.id: row.rated for row in connection.execute(counted)}
    free = slots.count_vacant_slots(connection, plan.slots)
    free += sum(row.times for row in held if row.rater_id in placed or not (row.live or row.kept))
    needed = sum(max(0, share - done) for done in placed.values())
    return _Demand(share, -(-state.pairs * plan.slots // share), placed, free - needed)


def _unused(connection: Connection, neighbours: Sequence[int]) -> int:
    """Return how many of these raters have rated nothing."""
    statement = select(func.count()).where(
        rater.c.id.in_(neighbours),
        ~exists().where(presentation.c.rater_id == rater.c.id, presentation.c.rated_at.is_not(None)),
    )
    return int(connection.execute(statement).scalar_one())


def _release(connection: Connection, left: Sequence[int]) -> None:
    """Free the places of who came in the same browser before, and has no pair."""
    connection.execute(update(rater).where(rater.c.id.in_(left)).values(place_until=null()))


def _set_place(connection: Connection, number: int, until: datetime | None) -> None:
    connection.execute(update(rater).where(rater.c.id == number).values(place_until=until))


def _token(browser: str, source: str, external_id: str) -> str:
    """Return the token of an id in the browser that came with it first; in another one it is another."""
    return raters.hash_of(f"{browser}\0{source}\0{external_id}")


def _admit(connection: Connection, number: int, tokens: Sequence[str], now: datetime) -> None:
    same = {"rater_id": number, "created_at": now}
    if tokens:
        connection.execute(insert(visit), [{"token_hash": raters.hash_of(one), **same} for one in tokens])


def _is_admitted(connection: Connection, number: int, token: str) -> bool:
    mine = (visit.c.token_hash == raters.hash_of(token), visit.c.rater_id == number)
    return bool(connection.execute(select(exists().where(*mine))).scalar_one())
