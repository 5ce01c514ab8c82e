"""Slots: the planned showings of each pair, who holds them, and the one way in which they become free."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from guard_eval.records import PEOPLE_OF, Plan, Rater, content_id
from guard_eval.store.database import Store
from guard_eval.store.schema import FREE, UNRATED, note, pair, presentation, rater, slot
from guard_eval.store.settings import put_value, read_value

PEOPLE = "people"
END = 2**31 - 1
"""Places in the order of hand-out are below it."""

MOST_SKIPS = 3
"""A pair that so many raters skipped is given to no new rater."""

_ROWS = 5000
"""Slots that are inserted at once."""

IS_OUT = rater.c.revoked_at.is_not(None) | rater.c.excluded_at.is_not(None)

_OVER = and_(slot.c.leased_until <= bindparam("now"), slot.c.for_rater.is_(None))
_END_LEASES = (
    update(slot)
    .where(or_(_OVER, slot.c.leased_until > bindparam("longest")))
    .values(
        held_by=case((_OVER, None), else_=slot.c.held_by),
        leased_until=case((_OVER, None), else_=bindparam("longest", type_=slot.c.leased_until.type)),
    )
)


def pool_of(who: Rater) -> str:
    """Return the pool whose slots a rater fills: people share one, and simulated people another.

    Raises:
        ValueError: It is a model, which sees every pair and needs no slots.
    """
    if who.kind in PEOPLE_OF:
        raise ValueError(f"the model {who.name!r} is handed nothing; see guard_eval.store.requests")
    return PEOPLE if who.kind == "person" else who.kind


def shuffle_key(*key: object) -> int:
    """Return a place in the order of hand-out that `key` decides."""
    return int(content_id("ring", *key)[:8], 16) % END


def make(store: Store, db: Connection, plan: Plan, pool: str = PEOPLE) -> None:
    """Make the slots that pairs still lack. If an earlier plan had more, those beyond are not handed out."""
    if store.slots_made.get(pool) == plan.slots:
        return
    slots, seed = _read_made(db, pool)
    if slots == plan.slots:
        store.slots_made[pool] = slots  # not before it is on disk
        return
    put_value(db, f"slots {pool}", f"{plan.slots} {seed or plan.seed}")
    for number in range(slots, plan.slots):
        _make_number(db, pool, number, seed or plan.seed)
    if plan.slots < slots:
        _renumber(db, pool, plan.slots)
    close_skipped(db, pool)


def add_missing(store: Store, db: Connection, plan: Plan | None) -> None:
    """Make the slots of pairs that were just added; with a plan, also those that it says."""
    for pool in (PEOPLE, "simulated"):
        slots, seed = _read_made(db, pool)
        for number in range(slots):
            _make_number(db, pool, number, seed)
    if plan is not None:
        make(store, db, plan)


def _read_made(db: Connection, pool: str) -> tuple[int, int]:
    """Return for how many showings a pair has slots, and the seed of their order."""
    slots, seed = (read_value(db, f"slots {pool}") or "0 0").split()
    return int(slots), int(seed)


def _renumber(db: Connection, pool: str, slots: int) -> None:
    """Give the first numbers of each pair to the slots that are held, as no others will be handed out."""
    beyond = select(slot.c.pair_id).where(slot.c.pool == pool, slot.c.number >= slots, ~FREE)
    rows = db.execute(
        select(slot.c.id, slot.c.pair_id, slot.c.number)
        .where(slot.c.pool == pool, slot.c.pair_id.in_(beyond))
        .order_by(slot.c.pair_id, FREE, slot.c.number)
    )
    seen: Counter[str] = Counter()
    changes = []
    for row in rows:
        if row.number != seen[row.pair_id]:
            changes.append({"slot": row.id, "new": -1 - seen[row.pair_id]})
        seen[row.pair_id] += 1
    if changes:  # a pair has no number twice, not even in between
        renumber = update(slot).where(slot.c.id == bindparam("slot")).values(number=bindparam("new"))
        db.execute(renumber, changes)
        db.execute(update(slot).where(slot.c.number < 0).values(number=-1 - slot.c.number))


def _make_number(db: Connection, pool: str, number: int, seed: int) -> None:
    """Make the slot of this number for the pairs that have none; 2k and 2k + 1 show opposite sides."""
    same, partner = slot.alias("same"), slot.alias("partner")
    rows = db.execute(
        select(pair.c.id, pair.c.position, partner.c.first)
        .outerjoin(
            partner,
            and_(partner.c.pair_id == pair.c.id, partner.c.pool == pool, partner.c.number == (number ^ 1)),
        )
        .where(
            pair.c.expected.is_(None),
            pair.c.for_people,
            ~exists().where(same.c.pair_id == pair.c.id, same.c.pool == pool, same.c.number == number),
        )
    ).all()
    for start in range(0, len(rows), _ROWS):
        db.execute(
            insert(slot),
            [
                {
                    "pool": pool,
                    "pair_id": pair_id,
                    "number": number,
                    "first": {"a": "b", "b": "a"}.get(opposite, "ab"[(position + number) % 2]),
                    "shuffle": shuffle_key(seed, pair_id),
                }
                for pair_id, position, opposite in rows[start : start + _ROWS]
            ],
        )


def close_skipped(db: Connection, pool: str) -> None:
    """Close the free slots of pairs that too many raters skipped, and open those of other pairs again.

    Skips of raters who are excluded say nothing.
    """
    skipped = (
        select(presentation.c.pair_id)
        .join(slot, slot.c.id == presentation.c.slot_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .join(note, note.c.presentation_id == presentation.c.id)
        .where(slot.c.pool == pool, note.c.kind == "skip", rater.c.excluded_at.is_(None))
        .group_by(presentation.c.pair_id)
        .having(func.count() >= MOST_SKIPS)
    )
    often = list(db.execute(skipped).scalars())
    closed = (slot.c.pool == pool, FREE, slot.c.pair_id.in_(often))
    db.execute(update(slot).where(*closed).values(shuffle=None))
    reopened = (slot.c.pool == pool, slot.c.shuffle.is_(None), slot.c.pair_id.not_in(often))
    for pair_id in set(db.execute(select(slot.c.pair_id).where(*reopened)).scalars()):
        place = shuffle_key(_read_made(db, pool)[1], pair_id)
        db.execute(update(slot).where(*reopened, slot.c.pair_id == pair_id).values(shuffle=place))


def end_leases(db: Connection, now: datetime, plan: Plan) -> None:
    """Free what is leased no longer; a roster's slots stay with their rater.

    No lease is longer than the plan's, even if the clock was set back.
    """
    db.execute(_END_LEASES, {"now": now, "longest": now + plan.lease})


def release(db: Connection, *wanted: ColumnElement[bool]) -> None:
    """Free the slots that these presentations hold; a verdict that still comes may be surplus."""
    held = select(presentation.c.id).where(*wanted)
    free = {"held_by": None, "leased_until": None, "for_rater": None}
    db.execute(update(slot).where(slot.c.held_by.in_(held)).values(free))


def release_rater(db: Connection, rater_id: int, *, rated: bool) -> None:
    """Free what a rater holds and has not rated, with `rated` all that it holds, and its part of a roster."""
    wanted = [presentation.c.rater_id == rater_id] + ([] if rated else [UNRATED])
    release(db, *wanted)
    db.execute(update(slot).where(slot.c.for_rater == rater_id, FREE).values(for_rater=None))


def hold_again(db: Connection, *wanted: ColumnElement[bool]) -> None:
    """Give presentations that were rated their slots back, where nobody else has taken them."""
    latest = (
        select(func.max(presentation.c.id))
        .where(presentation.c.slot_id == slot.c.id, presentation.c.rated_at.is_not(None), *wanted)
        .scalar_subquery()
    )
    slots = select(presentation.c.slot_id).where(presentation.c.rated_at.is_not(None), *wanted)
    db.execute(update(slot).where(FREE, slot.c.id.in_(slots)).values(held_by=latest))
