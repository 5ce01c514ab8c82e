"""Slots, the planned showings of every pair: how they are made, opened, held and released.

A slot is free while no presentation holds it. A rater's open pair holds its slot for a lease; then another
rater may take it, and the verdict of the first one, if it still comes, is *surplus*: kept, and not counted.
If nobody took it, the first one has it back. Slots 2k and 2k + 1 of a pair show opposite sides.

To find open slots costs about the same in a study of 100 pairs and of 100 000: they are an index, and it is
entered at a position that the seed draws for each rater and showing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from sqlalchemy import ColumnElement, Connection, bindparam, exists, func, select, text

from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE, HandOutPlan, content_id
from guard_eval.store import rounds
from guard_eval.store.database import Store
from guard_eval.store.schema import (
    FREE,
    MOMENT,
    PRESENTATION,
    RATER,
    SKIPPED,
    SLOT,
    UNRATED,
    pair,
    presentation,
    rater,
    slot,
)
from guard_eval.store.settings import put_value, read_value
from guard_eval.store.sides import LAST_SLOTS, OpenSlot

POOLS = {"person": PEOPLE, "simulated": "simulated"}
"""Whose slots a kind of rater fills. A model sees every pair and needs no slots."""

MOST_SKIPS = 3
"""A pair that so many raters skipped is given to no new rater."""

Kept = Literal["all", "rated", "nothing"]
"""Which slots a rater keeps: all and those it has rated and lost, those it has rated, or none."""

_RING_END = 2**31 - 1

# `side` is the only one on which a slot can be shown: its own, or the other one than that of its partner.
# The condition on `shuffle` makes SQLite take the index for the slots of a roster, too.
OPEN_SLOTS = text("""
    WITH candidate AS NOT MATERIALIZED (
        SELECT slot.id, slot.pair_id, slot.number, slot.for_rater, slot.shuffle, pair.method_a, pair.method_b,
            pair.prompt_id,
            coalesce(slot.first, CASE partner.first WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' END) AS side
        FROM slot
        JOIN pair ON pair.id = slot.pair_id
        LEFT JOIN slot AS partner ON partner.pair_id = slot.pair_id AND partner.pool = slot.pool
            AND partner.number = slot.number + 1 - 2 * (slot.number % 2)
        WHERE slot.pool = :pool AND slot.held_by IS NULL AND slot.open AND NOT EXISTS (
            SELECT 1 FROM presentation
            WHERE presentation.rater_id = :rater AND presentation.pair_id = slot.pair_id
        )
    )
    SELECT id, pair_id, number, method_a, method_b, side, for_rater IS NOT NULL AS reserved,
        prompt_id IN (
            SELECT pair.prompt_id FROM (
                SELECT pair_id FROM presentation WHERE rater_id = :rater ORDER BY id DESC LIMIT 10
            ) AS last_shown JOIN pair ON pair.id = last_shown.pair_id
        ) AS was_read
    FROM (
        SELECT * FROM (
            SELECT * FROM candidate WHERE for_rater = :rater AND shuffle >= 0
            ORDER BY shuffle, number LIMIT 32
        ) AS kept
        UNION ALL
        SELECT * FROM (
            SELECT * FROM candidate WHERE for_rater IS NULL AND shuffle >= :start
            ORDER BY shuffle, number LIMIT 32
        ) AS after_start
        UNION ALL
        SELECT * FROM (
            SELECT * FROM candidate WHERE for_rater IS NULL AND shuffle < :start
            ORDER BY shuffle, number LIMIT 32
        ) AS before_start
    ) AS open_slot
    LIMIT 32
""")

_NEW_PAIRS = text("""
    SELECT count(*) FROM (
        SELECT DISTINCT slot.pair_id FROM slot
        WHERE slot.pool = :pool AND slot.open AND (slot.held_by IS NULL OR slot.leased_until <= :now)
            AND (slot.for_rater IS NULL OR slot.for_rater = :rater)
            AND NOT EXISTS (
                SELECT 1 FROM presentation
                WHERE presentation.rater_id = :rater AND presentation.pair_id = slot.pair_id
            )
        LIMIT :most
    ) AS new_pair
""").bindparams(bindparam("now", type_=MOMENT))

_COUNT_FREE = text("""
    SELECT count(*) FROM slot WHERE pool = 'people' AND held_by IS NULL AND open AND for_rater IS NULL
""")

_NEXT_END = (
    text("""
    SELECT min(slot.leased_until) AS moment FROM slot
    WHERE slot.pool = :pool AND slot.open AND slot.leased_until > :now AND slot.for_rater IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM presentation
            WHERE presentation.rater_id = :rater AND presentation.pair_id = slot.pair_id
        )
""")
    .bindparams(bindparam("now", type_=MOMENT))
    .columns(moment=MOMENT)
)

_END_LEASES = text("""
    UPDATE slot
    SET held_by = CASE WHEN leased_until > :now THEN held_by END,
        leased_until = CASE WHEN leased_until > :now THEN :longest END
    WHERE (leased_until <= :now OR leased_until > :longest) AND for_rater IS NULL
""").bindparams(bindparam("now", type_=MOMENT), bindparam("longest", type_=MOMENT))

_HOLD = text("""
    UPDATE slot SET held_by = :presentation, first = :side, leased_until = :until WHERE id = :slot
""").bindparams(bindparam("until", type_=MOMENT))


# What the owner's plan asks for.


def apply_plan(store: Store, plan: HandOutPlan) -> None:
    """Let a plan hold from now on: make the slots that pairs lack, and close those beyond it.

    The owner's commands and the start of the app do this. The hand-out goes by the plan that was applied
    last: a server that began with an older study.toml neither closes nor opens slots.

    Raises:
        StudyError: The plan has rounds, and pairs have none.
    """
    with store.write() as (db, _):
        unplaced = select(pair.id).where(pair.expected.is_(None), pair.round == 0)
        if plan.rounds is not None and db.execute(unplaced.limit(1)).first() is not None:
            raise StudyError("the pairs are not in rounds, as pairs.design wants; run: guard-eval pair STUDY")
        for pool in POOLS.values():
            planned = _read_planned(db, pool)
            if planned != plan.slots and (planned or pool == PEOPLE):
                _set_planned(db, pool, plan.slots)


def prepare_slots(db: Connection, plan: HandOutPlan, now: datetime, pool: str = PEOPLE) -> None:
    """Make the slots of a pool by a plan if there are none, and open those of the next round if it is due.

    A round is over when all its slots that may be handed out are rated. Those of a pair that too many raters
    skipped may not, and its prompt says nothing.
    """
    if _read_planned(db, pool) == 0:
        _set_planned(db, pool, plan.slots)
    while plan.rounds is not None and not count_unrated(db, pool, most=1):
        if not rounds.close_round(db, now, pool, plan.rounds):
            break
        open_slots(db, pool)


def _read_planned(db: Connection, pool: str) -> int:
    """Return the number of slots that each pair has open in a pool."""
    return int(read_value(db, f"slots {pool}") or 0)


def _set_planned(db: Connection, pool: str, number: int) -> None:
    put_value(db, f"slots {pool}", str(number))
    make_missing_slots(db)
    open_slots(db, pool)


def make_missing_slots(db: Connection) -> None:
    """Make the slots that pairs lack for the plans that were used so far."""
    of_people = (pair.expected.is_(None), pair.for_people)
    for pool in POOLS.values():
        for number in range(_read_planned(db, pool)):
            same = (slot.pair_id == pair.id, slot.pool == pool, slot.number == number)
            lacking = db.execute(select(pair.id).where(*of_people, ~exists().where(*same))).scalars()
            rows = [{"pair_id": pair_id, "shuffle": ring_position(pair_id)} for pair_id in lacking]
            if rows:
                db.execute(SLOT.insert().values(pool=pool, number=number), rows)


def open_slots(db: Connection, pool: str, *wanted: ColumnElement[bool]) -> None:
    """Open as many slots of the wanted pairs as are planned, rated and held ones first; close the others.

    Pairs of later rounds, and of couples that have stopped, have none open.

    Neither has a pair that too many raters skipped; skips of raters who are excluded say nothing.
    """
    of_pairs = (slot.pool == pool, *wanted)
    ranks = [FREE, slot.leased_until.is_not(None), slot.number]
    order = func.row_number().over(partition_by=slot.pair_id, order_by=ranks)
    ranked = select(slot.id, order.label("rank")).where(*of_pairs).subquery()
    planned = select(ranked.c.id).where(ranked.c.rank <= _read_planned(db, pool))
    skipped = (
        select(presentation.pair_id)
        .join_from(PRESENTATION, SLOT)
        .join_from(PRESENTATION, RATER)
        .where(*of_pairs, SKIPPED, rater.excluded_at.is_(None))
        .group_by(presentation.pair_id)
        .having(func.count() >= MOST_SKIPS)
    )
    playing = select(pair.id).where(rounds.is_playing(db, pool, ahead=1))
    is_open = slot.id.in_(planned) & slot.pair_id.in_(playing) & slot.pair_id.not_in(skipped)
    db.execute(SLOT.update().where(*of_pairs).values(open=is_open))


# What a rater can be shown.


def ring_position(*key: object) -> int:
    """Return where a pair lies in the order of hand-out, or where a rater's search begins."""
    return int(content_id("ring", *key)[:8], 16) % _RING_END


def find_open_slots(
    db: Connection, pool: str, rater_id: int, plan: HandOutPlan, now: datetime, *, start: int
) -> list[OpenSlot]:
    """Return a few open slots of pairs that a rater was not shown, from a position of the order on.

    Leases that are over end when few slots are open: until then nobody needs those slots.
    """
    asked = {"pool": pool, "rater": rater_id, "start": start}
    rows = db.execute(OPEN_SLOTS, asked).mappings().all()
    if len(rows) < LAST_SLOTS:
        end_leases(db, plan, now)
        rows = db.execute(OPEN_SLOTS, asked).mappings().all()
    return [OpenSlot(**row) for row in rows]


def count_new_pairs(db: Connection, pool: str, rater_id: int, now: datetime, *, most: int) -> int:
    """Return how many pairs a rater can still be shown, counted up to `most`."""
    asked = {"pool": pool, "rater": rater_id, "now": now, "most": most}
    return int(db.execute(_NEW_PAIRS, asked).scalar_one())


def count_free(db: Connection) -> int:
    """Return how many slots of people are open for anybody."""
    return int(db.execute(_COUNT_FREE).scalar_one())


def count_unrated(db: Connection, pool: str, *, most: int | None = None) -> int:
    """Return how many slots of a pool that may be handed out are not rated, counted up to `most`."""
    unrated = select(slot.id).where(slot.pool == pool, slot.open, FREE | slot.leased_until.is_not(None))
    return len(db.execute(unrated.limit(most)).all())


def find_next_end(db: Connection, pool: str, rater_id: int, now: datetime) -> datetime | None:
    """Return when the first lease ends of the pairs that a rater was not shown and others have open."""
    end: datetime | None = db.execute(_NEXT_END, {"pool": pool, "rater": rater_id, "now": now}).scalar_one()
    return end


# Who holds a slot.


def hold(db: Connection, slot_id: int, number: int, side: str, until: datetime | None) -> None:
    """Let a presentation hold its slot until its lease ends; None for one that is rated."""
    db.execute(_HOLD, {"slot": slot_id, "presentation": number, "side": side, "until": until})


def end_leases(db: Connection, plan: HandOutPlan, now: datetime) -> None:
    """Free what is not rated and whose lease is over, unless it is of a roster.

    A lease that ends later than one of now, as the clock was set back, is shortened to that.
    """
    db.execute(_END_LEASES, {"now": now, "longest": now + plan.lease})


def release(db: Connection, *wanted: ColumnElement[bool]) -> None:
    """Free the slots that these presentations hold; a verdict that still comes may be surplus."""
    held = select(presentation.id).where(*wanted)
    free = {"held_by": None, "leased_until": None, "for_rater": None}
    db.execute(SLOT.update().where(slot.held_by.in_(held)).values(free))


def settle_rater(db: Connection, rater_id: int, keep: Kept) -> None:
    """Let a rater keep what it may, give the rest to others, and open the slots of its pairs anew.

    Who keeps all has the slots of its rated presentations back, unless another rater has taken them. Who
    does not loses its part of a roster.
    """
    of_rater = presentation.rater_id == rater_id
    if keep == "all":
        rated = (of_rater, presentation.rated_at.is_not(None))
        latest = select(func.max(presentation.id)).where(presentation.slot_id == slot.id, *rated)
        of_rated = slot.id.in_(select(presentation.slot_id).where(*rated))
        db.execute(SLOT.update().where(FREE, of_rated).values(held_by=latest.scalar_subquery()))
    else:
        release(db, of_rater, *([UNRATED] if keep == "rated" else []))
        db.execute(SLOT.update().where(slot.for_rater == rater_id, FREE).values(for_rater=None))
    open_slots(db, PEOPLE, slot.pair_id.in_(select(presentation.pair_id).where(of_rater)))
