"""The next pair of a rater, and the slots behind it: the planned showings of every pair.

A slot is free while no presentation holds it. A rater's open pair holds its slot for a lease; then another
rater may take it, and the verdict of the first one, if it still comes, is *surplus*: kept, and not counted.
If nobody took it, the first one has it back. Slots 2k and 2k + 1 of a pair show opposite sides; the first one
shown fixes both.

A hand-out costs about the same in a study of 100 pairs and of 100 000: the open slots are an index, and it is
entered at a position that the seed draws for each rater and showing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Plan, Rater, Role, content_id
from guard_eval.store import notes
from guard_eval.store.database import Store
from guard_eval.store.schema import FREE, IS_OUT, OPEN, UNRATED, note, pair, presentation, rater, slot
from guard_eval.store.settings import put_value, read_value

POOLS = {"person": "people", "simulated": "simulated"}
"""Whose slots a kind of rater fills. A model sees every pair and needs no slots."""

PEOPLE = POOLS["person"]

MOST_SKIPS = 3
"""A pair that so many raters skipped is given to no new rater."""

SPARE_SKIPS = 2
"""A rater may skip so many pairs more than it has rated: else a few could take every pair from the others."""

MOST_COUNTED = 10_000
"""Up to how many what a rater without a quota can still get is counted."""

_FEW = 16
"""How many open slots are looked at to find one on the side that is drawn."""

_MOST_LEAD = 5
"""No showing makes a method lead on one side by more, where another slot can be had."""

_RING_END = 2**31 - 1
_ROWS = 5000
"""Slots that are inserted at once."""

# prepared once: building a statement takes as long as running it
_STATUS = select(rater.c.name, rater.c.kind, IS_OUT).where(rater.c.id == bindparam("rater"))
SKIPPED = exists().where(note.c.presentation_id == presentation.c.id, note.c.kind == "skip")
_MINE = (
    select(presentation.c.id, presentation.c.slot_id, slot.c.held_by)
    .outerjoin(slot, slot.c.id == presentation.c.slot_id)
    .where(
        presentation.c.rater_id == bindparam("rater"),
        UNRATED,
        or_(presentation.c.slot_id.is_(None), slot.c.held_by == presentation.c.id, OPEN),
        ~SKIPPED,
    )
    .order_by(presentation.c.id)
    .limit(bindparam("limit"))
)
_HOLD = (
    update(slot)
    .where(slot.c.id == bindparam("slot"))
    .values(held_by=bindparam("holder"), leased_until=bindparam("until"))
)
_FIX_SIDES = (
    update(slot)
    .where(
        slot.c.pool == bindparam("of_pool"),
        slot.c.pair_id == bindparam("of_pair"),
        slot.c.number.in_([bindparam("shown"), bindparam("beside")]),
    )
    .values(first=case((slot.c.number == bindparam("shown"), bindparam("side")), else_=bindparam("other")))
)
_COUNTS = or_(presentation.c.rated_at.is_not(None), exists().where(slot.c.held_by == presentation.c.id))
_SHOWN = (
    select(
        pair.c.method_a,
        pair.c.method_b,
        presentation.c.first,
        func.count().label("times"),
        func.sum(case((_COUNTS, 1), else_=0)).label("counted"),
    )
    .join(pair, pair.c.id == presentation.c.pair_id)
    .where(presentation.c.rater_id == bindparam("rater"), presentation.c.role == "study")
    .group_by(pair.c.method_a, pair.c.method_b, presentation.c.first)
)
_CHECKS = select(presentation.c.role, presentation.c.pair_id).where(
    presentation.c.rater_id == bindparam("rater"), presentation.c.role != "study"
)
_SEEN = exists().where(
    presentation.c.rater_id == bindparam("rater"), presentation.c.pair_id == slot.c.pair_id
)
_POOL = (slot.c.pool == bindparam("pool"), ~_SEEN)
_START: Any = bindparam("start")


def _select_open(part: int, *wanted: ColumnElement[bool]) -> Select[Any]:
    """Return the query for a few open slots of pairs that the rater was not shown, marked as a part."""
    columns = (slot.c.id, slot.c.pair_id, slot.c.number, slot.c.first, pair.c.method_a, pair.c.method_b)
    rows = select(literal(part).label("part"), *columns).join(pair).where(*_POOL, OPEN, *wanted)
    return select(rows.order_by(slot.c.shuffle, slot.c.number).limit(_FEW).subquery())


_CANDIDATES = union_all(
    _select_open(
        0, slot.c.for_rater == bindparam("rater"), slot.c.shuffle >= 0
    ),  # all: SQLite takes the index
    _select_open(1, slot.c.for_rater.is_(None), slot.c.shuffle >= _START),
    _select_open(2, slot.c.for_rater.is_(None), slot.c.shuffle < _START),
).limit(_FEW)
_TEXTS = (
    select(presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    .join(pair)
    .where(presentation.c.id.in_(bindparam("numbers", expanding=True)))
)
_INSERT = insert(presentation).returning(presentation.c.id)
_LAPSED = and_(slot.c.leased_until <= bindparam("now"), slot.c.for_rater.is_(None))
_END_LEASES = (
    update(slot)
    .where(or_(_LAPSED, slot.c.leased_until > bindparam("longest")))
    .values(
        held_by=case((_LAPSED, None), else_=slot.c.held_by),
        leased_until=case((_LAPSED, None), else_=bindparam("longest", type_=slot.c.leased_until.type)),
    )
)


# Slots: how they are made, opened, held and released.


def pool_of(who: Rater) -> str:
    """Return the pool whose slots a rater fills: people share one, and simulated people another.

    Raises:
        ValueError: It is a model.
    """
    if who.kind not in POOLS:
        raise ValueError(f"the model {who.name!r} is handed nothing; see guard_eval.store.requests")
    return POOLS[who.kind]


def make_slots(store: Store, db: Connection, plan: Plan, pool: str = PEOPLE) -> None:
    """Make the slots that pairs lack for a plan, and close those that an earlier plan had beyond it."""
    if store.slots_made.get(pool) == plan.slots:
        return
    if _count_made(db, pool) == plan.slots:
        store.slots_made[pool] = plan.slots  # not before it is on disk
        return
    put_value(db, f"slots {pool}", str(plan.slots))
    _make_missing(db, pool, plan.slots)
    open_slots(db, pool)


def make_missing_slots(store: Store, db: Connection, plan: Plan | None) -> None:
    """Make the slots of pairs that were just added; with a plan, also those that it says."""
    for pool in POOLS.values():
        _make_missing(db, pool, _count_made(db, pool))
    if plan is not None:
        make_slots(store, db, plan)


def _count_made(db: Connection, pool: str) -> int:
    """Return for how many showings a pair has slots."""
    return int(read_value(db, f"slots {pool}") or 0)


def _make_missing(db: Connection, pool: str, count: int) -> None:
    """Make the slots below `count` that pairs lack, on the other side than the slot beside each."""
    same, beside = slot.alias("same"), slot.alias("beside")
    for number in range(count):
        rows = db.execute(
            select(pair.c.id, beside.c.first)
            .outerjoin(
                beside,
                and_(beside.c.pair_id == pair.c.id, beside.c.pool == pool, beside.c.number == (number ^ 1)),
            )
            .where(
                pair.c.expected.is_(None),
                pair.c.for_people,
                ~exists().where(same.c.pair_id == pair.c.id, same.c.pool == pool, same.c.number == number),
            )
        ).all()
        new = [
            {
                "pool": pool,
                "pair_id": row.id,
                "number": number,
                "first": row.first and _other_side(row.first),
                "shuffle": _ring_position(row.id),
            }
            for row in rows
        ]
        for start in range(0, len(new), _ROWS):
            db.execute(insert(slot), new[start : start + _ROWS])


def open_slots(db: Connection, pool: str, *wanted: ColumnElement[bool]) -> None:
    """Open as many slots of the wanted pairs as are planned, those that are held first; close the others.

    A pair that too many raters skipped has none open; skips of raters who are excluded say nothing.
    """
    of_pairs = (slot.c.pool == pool, *wanted)
    order = func.row_number().over(partition_by=slot.c.pair_id, order_by=[FREE, slot.c.number])
    ranked = select(slot.c.id, order.label("rank")).where(*of_pairs).subquery()
    planned = select(ranked.c.id).where(ranked.c.rank <= _count_made(db, pool))
    skipped = (
        select(presentation.c.pair_id)
        .join(slot, slot.c.id == presentation.c.slot_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .join(note, note.c.presentation_id == presentation.c.id)
        .where(*of_pairs, note.c.kind == "skip", rater.c.excluded_at.is_(None))
        .group_by(presentation.c.pair_id)
        .having(func.count() >= MOST_SKIPS)
    )
    is_open = and_(slot.c.id.in_(planned), slot.c.pair_id.not_in(skipped))
    db.execute(update(slot).where(*of_pairs).values(open=is_open))


def release(db: Connection, *wanted: ColumnElement[bool]) -> None:
    """Free the slots that these presentations hold; a verdict that still comes may be surplus."""
    held = select(presentation.c.id).where(*wanted)
    free = {"held_by": None, "leased_until": None, "for_rater": None}
    db.execute(update(slot).where(slot.c.held_by.in_(held)).values(free))


def release_rater(db: Connection, rater_id: int, *, rated: bool) -> None:
    """Free what a rater holds and has not rated, with `rated` all that it holds, and its part of a roster."""
    release(db, presentation.c.rater_id == rater_id, *(() if rated else (UNRATED,)))
    db.execute(update(slot).where(slot.c.for_rater == rater_id, FREE).values(for_rater=None))


def hold_again(db: Connection, rater_id: int) -> None:
    """Give what a rater rated its slots back, where nobody else has taken them."""
    rated = (presentation.c.rater_id == rater_id, presentation.c.rated_at.is_not(None))
    latest = select(func.max(presentation.c.id)).where(presentation.c.slot_id == slot.c.id, *rated)
    slots = select(presentation.c.slot_id).where(*rated)
    db.execute(update(slot).where(FREE, slot.c.id.in_(slots)).values(held_by=latest.scalar_subquery()))


# A rater: its history, its next pair, and what is left for it.


@dataclass
class _History:
    """What a rater was shown, as far as it decides what comes next.

    Attributes:
        shown: Pairs of the study, also those that the rater lost.
        counted: Those that are rated or still the rater's: the quota is about them.
        lead: How often each method was A less how often it was B.
        gold: The gold pairs.
        repeated: The pairs that were shown again.
    """

    shown: int = 0
    counted: int = 0
    lead: Counter[str] = field(default_factory=Counter)
    gold: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)

    def add(self, method_a: str, method_b: str, first: str, times: int = 1, counted: int = 1) -> None:
        """Add showings of a comparison that are alike."""
        self.shown += times
        self.counted += counted
        sign = times if first == "a" else -times
        self.lead[method_a] += sign
        self.lead[method_b] -= sign

    def lead_after(self, row: Row[Any], side: str) -> int:
        """Return how far from even the two methods of a slot would be if it were shown on this side."""
        sign = 1 if side == "a" else -1
        return max(abs(self.lead[row.method_a] + sign), abs(self.lead[row.method_b] - sign))


def claim(store: Store, who: Rater, plan: Plan, limit: int = 1) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's own open ones, with a new lease, then open slots.

    None are returned if none is left, or if the rater is revoked or excluded.

    Raises:
        StudyError: The database does not know the rater.
        ValueError: The rater is a model.
    """
    with store.write() as (db, now):
        if limit < 1 or _is_out(db, who):
            return []
        return blind(db, claim_in(store, db, who, plan, now=now, limit=limit))


def claim_in(
    store: Store, db: Connection, who: Rater, plan: Plan, *, now: datetime, limit: int = 1
) -> list[int]:
    """Claim up to `limit` presentations within a transaction; return their numbers.

    The caller has checked that the rater is admitted. No lease is longer than the plan's, even if the clock
    was set back. A roster's slots stay with their rater.
    """
    until = now + plan.lease
    make_slots(store, db, plan, pool_of(who))
    history, numbers = _read_history(db, who, plan), []
    for row in db.execute(_MINE, {"rater": who.id, "limit": limit}).all():
        if row.slot_id is not None:
            if row.held_by is None:
                if _is_full(plan, history):
                    continue
                history.counted += 1
            db.execute(_HOLD, {"slot": row.slot_id, "holder": row.id, "until": until})
        numbers.append(row.id)
    while len(numbers) < limit:
        number = _claim_next(db, who, plan, history, now=now)
        if number is None:
            break
        numbers.append(number)
    return numbers


def blind(db: Connection, numbers: Sequence[int]) -> list[BlindPair]:
    """Return presentations as they are shown, in the order of `numbers`."""
    rows = db.execute(_TEXTS, {"numbers": list(numbers)}) if numbers else ()
    shown = {}
    for row in rows:
        texts = (row.text_a, row.text_b) if row.first == "a" else (row.text_b, row.text_a)
        shown[row.id] = BlindPair.of(row.id, row.prompt, *texts)
    return [shown[number] for number in numbers]


def progress(store: Store, who: Rater, plan: Plan) -> tuple[int, int]:
    """Return how many presentations the rater has rated, and how many it can still get or has open.

    What it can still get is counted up to `MOST_COUNTED` if there is no quota.

    Raises:
        StudyError: The database does not know the rater.
    """
    pool = pool_of(who)
    if store.slots_made.get(pool) != plan.slots:
        with store.write() as (db, _):
            make_slots(store, db, plan, pool)
    with store.read() as db:
        rated = select(func.count(presentation.c.rated_at)).where(presentation.c.rater_id == who.id)
        done = db.execute(rated).scalar_one()
        if _is_out(db, who):
            return done, 0
        mine = db.execute(_MINE, {"rater": who.id, "limit": MOST_COUNTED}).all()
        history = _read_history(db, who, plan)
        history.counted += sum(row.slot_id is not None and row.held_by is None for row in mine)
        limit = MOST_COUNTED if plan.quota is None else max(0, plan.quota - history.counted)
        free = or_(FREE, slot.c.leased_until <= store.time(db))
        for_rater = or_(slot.c.for_rater.is_(None), slot.c.for_rater == who.id)
        pairs = select(slot.c.pair_id).where(*_POOL, free, slot.c.open, for_rater).distinct().limit(limit)
        counted = select(func.count()).select_from(pairs.subquery())
        new = int(db.execute(counted, {"rater": who.id, "pool": pool}).scalar_one())
        total = history.counted + new
        checks = (
            _gold_until(plan, who.name, total, pairs=len(_gold_ids(db))) - len(history.gold),
            min(plan.repeats, total // 2) - len(history.repeated),
        )
        return done, len(mine) + new + sum(max(0, number) for number in checks)


def waits_until(store: Store, who: Rater, plan: Plan) -> datetime | None:
    """Return until when a rater who is handed nothing should wait, as others have its last pairs open.

    None if nothing more will come for it: the quota is reached, no pair is left that it has not seen, or it
    has waited for a whole lease.
    """
    with store.read() as db:
        now = store.time(db)
        if _is_out(db, who) or _is_full(plan, _read_history(db, who, plan)):
            return None
        leased = (slot.c.open, slot.c.leased_until > now, slot.c.for_rater.is_(None))
        statement = select(func.min(slot.c.leased_until)).where(*_POOL, *leased)
        lease_end: datetime | None
        lease_end = db.execute(statement, {"rater": who.id, "pool": pool_of(who)}).scalar_one()
        # no longer than a lease after the last sign of the rater: a lease can be renewed for ever
        signs = (
            select(func.max(presentation.c.rated_at)).where(presentation.c.rater_id == who.id),
            select(func.max(note.c.at)).where(note.c.rater_id == who.id),
        )
        seen = [at for sign in signs if (at := db.execute(sign).scalar_one()) is not None]
        longest = min(max(seen, default=now), now) + plan.lease
        return None if lease_end is None or longest <= now else min(lease_end, longest)


def skip(store: Store, number: int, problems: Sequence[str], *, rater: Rater, comment: str = "") -> bool:
    """Leave a presentation unrated and its slot to another rater; the rater is not shown the pair again.

    It is no verdict, but noted with its reason. A pair that `MOST_SKIPS` raters skipped is given to no new
    rater. Returns False, and changes nothing, if the rater has skipped too many already.

    Raises:
        StudyError: The presentation was not handed to this rater or is rated, the rater is revoked, or no
            problem is given.
    """
    with store.write() as (db, now):
        notes.check_owner(db, rater, number)
        _check_admitted(db, rater)
        shown = select(presentation, SKIPPED.label("skipped")).where(presentation.c.id == number)
        row = db.execute(shown).one()
        if row.skipped:
            return True
        if row.rated_at is not None or not problems:
            raise StudyError(f"presentation {number} was rated, or no reason to skip it is given; rate it")
        rated = select(func.count(presentation.c.rated_at)).where(presentation.c.rater_id == rater.id)
        skips = select(func.count()).where(note.c.rater_id == rater.id, note.c.kind == "skip")
        if db.execute(skips).scalar_one() >= db.execute(rated).scalar_one() + SPARE_SKIPS:
            return False
        notes.add(db, rater, "skip", ", ".join(problems), now=now, presentation=number)
        if comment:
            notes.add(db, rater, "comment", comment, now=now, presentation=number)
        release(db, presentation.c.id == number)
        open_slots(db, pool_of(rater), slot.c.pair_id == row.pair_id)
        return True


def _check_admitted(db: Connection, who: Rater) -> None:
    """Raise a `StudyError` if a rater is revoked."""
    if db.execute(select(rater.c.revoked_at).where(rater.c.id == who.id)).scalar_one() is not None:
        raise StudyError(f"the rater {who.name!r} is revoked; ask the study's owner for a new invitation")


def _is_out(db: Connection, who: Rater) -> bool:
    row = db.execute(_STATUS, {"rater": who.id}).one_or_none()
    if row is None or (row[0], row[1]) != (who.name, who.kind):
        raise notes.unknown_rater(who)
    return bool(row[2])


def _is_full(plan: Plan, history: _History) -> bool:
    return plan.quota is not None and history.counted >= plan.quota


def _read_history(db: Connection, who: Rater, plan: Plan) -> _History:
    history = _History()
    for row in db.execute(_SHOWN, {"rater": who.id}):
        history.add(*row)
    if plan.gold_every is not None or plan.repeats:
        for role, pair_id in db.execute(_CHECKS, {"rater": who.id}):
            (history.gold if role == "gold" else history.repeated).add(pair_id)
    return history


def _claim_next(db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime) -> int | None:
    """Make the rater's next presentation; None if there is nothing more for it."""
    number = _claim_check(db, who, plan, history, now=now)
    if number is None and not _is_full(plan, history):
        number = _claim_slot(db, who, plan, history, now=now)
    # when the study has nothing more for the rater, what is left of the repeats comes at the end
    return _claim_repeat(db, who, plan, history, now=now) if number is None else number


def _claim_slot(db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime) -> int | None:
    """Show a pair in an open slot, on a side that a coin draws, where both sides can be had."""
    rows = _read_candidates(db, who, plan, history, now=now)
    if not rows:
        return None
    row, first = _choose(rows, "ab"[_draw(2, plan.seed, "side", who.name, history.shown)], history)
    if row.first is None:
        couple = {
            "of_pool": pool_of(who),
            "of_pair": row.pair_id,
            "shown": row.number,
            "beside": row.number ^ 1,
        }
        db.execute(_FIX_SIDES, {**couple, "side": first, "other": _other_side(first)})
    number = _insert(db, who, row.pair_id, first, now=now, slot_id=row.id, number=row.number)
    db.execute(_HOLD, {"slot": row.id, "holder": number, "until": now + plan.lease})
    history.add(row.method_a, row.method_b, first)
    return number


def _read_candidates(
    db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime
) -> list[Row[Any]]:
    """Return a few open slots: those that a roster reserves for the rater, else from where the seed says.

    Of each pair only the first couple is returned that has a slot left, so that its sides are even whenever
    it is full. Leases that are over end when few slots are open: until then nobody needs those slots.
    """
    asked = {
        "rater": who.id,
        "pool": pool_of(who),
        "start": _ring_position(plan.seed, who.name, history.shown),
    }
    rows = db.execute(_CANDIDATES, asked).all()
    if len(rows) < _FEW:
        db.execute(_END_LEASES, {"now": now, "longest": now + plan.lease})
        rows = db.execute(_CANDIDATES, asked).all()
    couples: dict[str, int] = {}
    reserved = [row for row in rows if row.part == 0]
    return [
        row for row in reserved or rows if couples.setdefault(row.pair_id, row.number // 2) == row.number // 2
    ]


def _choose(rows: Sequence[Row[Any]], coin: str, history: _History) -> tuple[Row[Any], str]:
    """Return a slot and the side on which it is shown: the coin's, unless a method would lead by too much.

    A slot whose side is fixed comes before one of a pair that nobody was shown: so the last raters find
    pairs that they can be shown on either side.
    """
    sides = (coin, _other_side(coin))
    options = [(row, side) for side in sides for fixed in (side, None) for row in rows if row.first == fixed]
    for option in options:
        if history.lead_after(*option) <= _MOST_LEAD:
            return option
    return min(options, key=lambda option: history.lead_after(*option))


def _insert(
    db: Connection,
    who: Rater,
    pair_id: str,
    first: str,
    *,
    now: datetime,
    role: Role = "study",
    slot_id: int | None = None,
    number: int = 0,
) -> int:
    values: dict[str, object] = {"slot_id": slot_id, "pair_id": pair_id, "rater_id": who.id, "number": number}
    values |= {"first": first, "role": role, "handed_out": now}
    return int(db.execute(_INSERT, values).scalar_one())


# Checks: gold pairs and repeats, at positions that the seed draws.


def _claim_check(db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime) -> int | None:
    """Show the gold pair or the repeat that is due, if there is one."""
    if plan.gold_every is not None and _gold_position(plan, who.name, len(history.gold)) <= history.counted:
        waiting = _gold_ids(db) - history.gold
        if waiting:
            chosen = min(waiting, key=lambda pair_id: content_id(plan.seed, who.name, "gold", pair_id))
            # the side is drawn, so that a rater with a favourite side fails half of them
            first = "ba"[_draw(2, plan.seed, "gold side", who.name, chosen)]
            history.gold.add(chosen)
            return _insert(db, who, chosen, first, now=now, role="gold")
    turn = len(history.repeated)
    if turn < plan.repeats and _repeat_position(db, plan, who, turn) <= history.counted:
        return _claim_repeat(db, who, plan, history, now=now)
    return None


def _claim_repeat(db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime) -> int | None:
    """Show one of the older half of the pairs the rater has rated, with its sides swapped."""
    if len(history.repeated) >= plan.repeats:
        return None
    rated = (presentation.c.role == "study", presentation.c.rated_at.is_not(None))
    statement = select(presentation.c.pair_id, presentation.c.first).order_by(presentation.c.id)
    rows = db.execute(statement.where(presentation.c.rater_id == who.id, *rated)).all()
    waiting = {pair_id: first for pair_id, first in rows[: len(rows) // 2] if pair_id not in history.repeated}
    if not waiting:
        return None
    chosen = min(waiting, key=lambda pair_id: content_id(plan.seed, "repeat", who.name, pair_id))
    history.repeated.add(chosen)
    return _insert(db, who, chosen, _other_side(waiting[chosen]), now=now, role="repeat")


def _gold_ids(db: Connection) -> set[str]:
    return set(db.execute(select(pair.c.id).where(pair.c.expected.is_not(None))).scalars())


def _gold_position(plan: Plan, name: str, turn: int) -> int:
    """Return after how many of the study's pairs gold pair `turn` (0, 1, …) comes: one in each block."""
    every = plan.gold_every or 1
    return turn * every + 1 + _draw(every, plan.seed, "gold", name, turn)


def _gold_until(plan: Plan, name: str, shown: int, *, pairs: int) -> int:
    """Return how many of `pairs` gold pairs a rater of `shown` of the study's pairs has had."""
    if plan.gold_every is None:
        return 0
    blocks = min(pairs, shown // plan.gold_every + 1)
    return sum(_gold_position(plan, name, turn) <= shown for turn in range(blocks))


def _repeat_position(db: Connection, plan: Plan, who: Rater, turn: int) -> int:
    """Return after how many of the study's pairs repeat `turn` (0, 1, …) comes: in the second half."""
    first = (slot.c.pool == pool_of(who), slot.c.number == 0)
    pairs = select(literal(1)).where(*first).limit(plan.quota or _RING_END)
    expected = int(db.execute(select(func.count()).select_from(pairs.subquery())).scalar_one())
    half = (expected + 1) // 2
    start, end = (half + each * (expected - half) // plan.repeats for each in (turn, turn + 1))
    return max(1, start + _draw(max(1, end - start), plan.seed, "repeat", who.name, turn))


def _other_side(side: str) -> str:
    return "b" if side == "a" else "a"


def _draw(below: int, *key: object) -> int:
    return int(content_id(*key), 16) % below


def _ring_position(*key: object) -> int:
    return int(content_id("ring", *key)[:8], 16) % _RING_END
