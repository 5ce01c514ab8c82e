"""The next pair of a rater, and the slots behind it: the planned showings of every pair.

A slot is free while no presentation holds it. A rater's open pair holds its slot for a lease; then another
rater may take it, and the verdict of the first one, if it still comes, is *surplus*: kept, and not counted.
If nobody took it, the first one has it back. Slots 2k and 2k + 1 of a pair show opposite sides.

A hand-out costs about the same in a study of 100 pairs and of 100 000: the open slots are an index, and it is
entered at a position that the seed draws for each rater and showing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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

_CANDIDATES = 16
"""How many open slots are looked at to find one on the side that is drawn."""

_MOST_LEAD = 5
"""No showing makes a method lead on one side by more, where another slot can be had."""

_REPEAT_EVERY = 10
"""A rater's own pairs come again one in so many, and the rest of them at the end."""

_RING_END = 2**31 - 1

# Statements of a hand-out are prepared once: building one takes as long as running it.
SKIPPED = exists().where(note.c.presentation_id == presentation.c.id, note.c.kind == "skip")
_MINE = (
    select(presentation.c.id, presentation.c.slot_id, presentation.c.first)
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
    .values(held_by=bindparam("holder"), leased_until=bindparam("until"), first=bindparam("side"))
)
_COUNTS = or_(presentation.c.rated_at.is_not(None), slot.c.held_by == presentation.c.id, and_(OPEN, ~SKIPPED))
_SHOWN = (
    select(
        pair.c.method_a,
        pair.c.method_b,
        presentation.c.first,
        func.count(),
        func.sum(case((_COUNTS, 1), else_=0)),
    )
    .join(pair, pair.c.id == presentation.c.pair_id)
    .outerjoin(slot, slot.c.id == presentation.c.slot_id)
    .where(presentation.c.rater_id == bindparam("rater"), presentation.c.role == "study")
    .group_by(pair.c.method_a, pair.c.method_b, presentation.c.first)
)
_CHECKS = select(presentation.c.role, presentation.c.pair_id).where(
    presentation.c.rater_id == bindparam("rater"), presentation.c.role != "study"
)
_RATED = (
    select(presentation.c.pair_id, presentation.c.first)
    .where(
        presentation.c.rater_id == bindparam("rater"),
        presentation.c.role == "study",
        presentation.c.rated_at.is_not(None),
    )
    .order_by(presentation.c.id)
)
_NEW = and_(
    slot.c.pool == bindparam("pool"),
    ~exists().where(presentation.c.rater_id == bindparam("rater"), presentation.c.pair_id == slot.c.pair_id),
)


def _select_open(*wanted: ColumnElement[bool]) -> Select[Any]:
    """Return the query for a few open slots of pairs that the rater was not shown.

    `side` is the only one on which a slot can be shown: its own, or the other one than that of its partner.
    """
    partner = slot.alias()
    same_pair = and_(partner.c.pair_id == slot.c.pair_id, partner.c.pool == slot.c.pool)
    beside = and_(same_pair, partner.c.number == slot.c.number + 1 - 2 * (slot.c.number % 2))
    side = func.coalesce(slot.c.first, case((partner.c.first == "a", "b"), (partner.c.first == "b", "a")))
    columns = (slot.c.id, slot.c.pair_id, slot.c.number, slot.c.for_rater, side.label("side"))
    rows = select(*columns, pair.c.method_a, pair.c.method_b).select_from(slot).join(pair)
    rows = rows.outerjoin(partner, beside).where(_NEW, OPEN, *wanted).order_by(slot.c.shuffle, slot.c.number)
    return select(rows.limit(_CANDIDATES).subquery())


_FOR_ANYBODY = slot.c.for_rater.is_(None)
_START: Any = bindparam("start")
_OPEN_SLOTS = union_all(
    _select_open(slot.c.for_rater == bindparam("rater"), slot.c.shuffle >= 0),  # so SQLite takes the index
    _select_open(_FOR_ANYBODY, slot.c.shuffle >= _START),
    _select_open(_FOR_ANYBODY, slot.c.shuffle < _START),
).limit(_CANDIDATES)
_TEXTS = (
    select(presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    .join(pair)
    .where(presentation.c.id.in_(bindparam("numbers", expanding=True)))
)
_PRESENT = insert(presentation).values(slot_id=bindparam("slot_id", None)).returning(presentation.c.id)
_END_LEASES = (
    update(slot)
    .where(
        # a lease that ends later than one of now is of before the clock was set back
        or_(slot.c.leased_until <= bindparam("now"), slot.c.leased_until > bindparam("longest")),
        _FOR_ANYBODY,
    )
    .values(held_by=None, leased_until=None)
)


# Slots: how they are made, opened, held and released.


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
    """Make the slots below `count` that pairs lack."""
    for number in range(count):
        same = (slot.c.pair_id == pair.c.id, slot.c.pool == pool, slot.c.number == number)
        lacking = select(pair.c.id).where(
            pair.c.expected.is_(None), pair.c.for_people, ~exists().where(*same)
        )
        new = [
            {"pool": pool, "pair_id": pair_id, "number": number, "shuffle": _ring_position(pair_id)}
            for pair_id in db.execute(lacking).scalars()
        ]
        if new:
            db.execute(insert(slot), new)


def open_slots(db: Connection, pool: str, *wanted: ColumnElement[bool]) -> None:
    """Open as many slots of the wanted pairs as are planned, rated and held ones first; close the others.

    A pair that too many raters skipped has none open; skips of raters who are excluded say nothing.
    """
    of_pairs = (slot.c.pool == pool, *wanted)
    ranks = [FREE, slot.c.leased_until.is_not(None), slot.c.number]
    order = func.row_number().over(partition_by=slot.c.pair_id, order_by=ranks)
    ranked = select(slot.c.id, order.label("rank")).where(*of_pairs).subquery()
    planned = select(ranked.c.id).where(ranked.c.rank <= _count_made(db, pool))
    skipped = (
        select(presentation.c.pair_id)
        .join(slot, slot.c.id == presentation.c.slot_id)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .where(*of_pairs, SKIPPED, rater.c.excluded_at.is_(None))
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
    """Give a rater's rated presentations their slots back, unless another rater has taken them."""
    rated = (presentation.c.rater_id == rater_id, presentation.c.rated_at.is_not(None))
    latest = select(func.max(presentation.c.id)).where(presentation.c.slot_id == slot.c.id, *rated)
    slots = select(presentation.c.slot_id).where(*rated)
    db.execute(update(slot).where(FREE, slot.c.id.in_(slots)).values(held_by=latest.scalar_subquery()))


# A rater: its next pair, and what is left for it.


def claim(store: Store, who: Rater, plan: Plan, limit: int = 1) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's own open ones, with a new lease, then open slots.

    None are returned if none is left, or if the rater is revoked or excluded.

    Raises:
        StudyError: The database does not know the rater.
        KeyError: The rater is a model.
    """
    with store.write() as (db, now):
        if limit < 1 or is_out(db, who):
            return []
        return blind(db, claim_in(store, db, who, plan, now=now, limit=limit))


def claim_in(
    store: Store, db: Connection, who: Rater, plan: Plan, *, now: datetime, limit: int = 1
) -> list[int]:
    """Claim up to `limit` presentations within a transaction; return their numbers.

    The caller has checked that the rater is admitted. A roster's slots stay with their rater.
    """
    make_slots(store, db, plan, POOLS[who.kind])
    visit, numbers = _Visit(db, who, plan, now), []
    for row in visit.read_open(limit):
        if row.slot_id is not None:
            visit.hold(row.slot_id, row.id, row.first)
        numbers.append(row.id)
    while len(numbers) < limit and (number := visit.claim_next()) is not None:
        numbers.append(number)
    return numbers


def blind(db: Connection, numbers: Sequence[int]) -> list[BlindPair]:
    """Return presentations as they are shown, in the order of `numbers`."""
    shown = {}
    for row in db.execute(_TEXTS, {"numbers": list(numbers)}) if numbers else ():
        texts = (row.text_a, row.text_b) if row.first == "a" else (row.text_b, row.text_a)
        shown[row.id] = BlindPair.of(row.id, row.prompt, *texts)
    return [shown[number] for number in numbers]


def progress(store: Store, who: Rater, plan: Plan) -> tuple[int, int]:
    """Return how many presentations the rater has rated, and how many it can still get or has open.

    What it can still get is counted up to `MOST_COUNTED` if there is no quota.

    Raises:
        StudyError: The database does not know the rater.
    """
    if store.slots_made.get(POOLS[who.kind]) != plan.slots:
        with store.write() as (db, _):
            make_slots(store, db, plan, POOLS[who.kind])
    with store.read() as db:
        rated = select(func.count(presentation.c.rated_at)).where(presentation.c.rater_id == who.id)
        done = db.execute(rated).scalar_one()
        if is_out(db, who):
            return done, 0
        visit = _Visit(db, who, plan, store.time(db))
        mine = visit.read_open(MOST_COUNTED)
        limit = MOST_COUNTED if plan.quota is None else max(0, plan.quota - visit.counted)
        free = or_(FREE, slot.c.leased_until <= visit.now)
        for_rater = or_(_FOR_ANYBODY, slot.c.for_rater == who.id)
        pairs = select(slot.c.pair_id).where(_NEW, free, slot.c.open, for_rater).distinct().limit(limit)
        counted = select(func.count()).select_from(pairs.subquery())
        new = int(db.execute(counted, {"rater": who.id, "pool": POOLS[who.kind]}).scalar_one())
        return done, len(mine) + new + visit.count_checks(visit.counted + new)


def waits_until(store: Store, who: Rater, plan: Plan) -> datetime | None:
    """Return until when a rater who is handed nothing should wait, as others have its last pairs open.

    None if nothing more will come for it: the quota is reached, no pair is left that it has not seen, or it
    has waited for a whole lease.
    """
    with store.read() as db:
        now = store.time(db)
        if is_out(db, who) or _Visit(db, who, plan, now).is_full():
            return None
        leased = (slot.c.open, slot.c.leased_until > now, _FOR_ANYBODY)
        statement = select(func.min(slot.c.leased_until)).where(_NEW, *leased)
        lease_end: datetime | None
        lease_end = db.execute(statement, {"rater": who.id, "pool": POOLS[who.kind]}).scalar_one()
        # no longer than a lease after the rater's last rating: a lease can be renewed for ever
        rated = select(func.max(presentation.c.rated_at)).where(presentation.c.rater_id == who.id)
        longest = min(db.execute(rated).scalar_one() or now, now) + plan.lease
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
        notes.check_admitted(db, rater)
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
        open_slots(db, POOLS[rater.kind], slot.c.pair_id == row.pair_id)
        return True


_STATUS = select(rater.c.name, rater.c.kind, IS_OUT).where(rater.c.id == bindparam("rater"))


def is_out(db: Connection, who: Rater) -> bool:
    """Return whether a rater is revoked or excluded; one of another study is a `StudyError`."""
    row = db.execute(_STATUS, {"rater": who.id}).one_or_none()
    if row is None or (row[0], row[1]) != (who.name, who.kind):
        raise notes.unknown_rater(who)
    return bool(row[2])


class _Visit:
    """A rater of the study: what it was shown, and what comes next.

    Attributes:
        shown: How many pairs of the study it was shown, with those that it lost.
        counted: Those that are rated, or may still be: the quota is about them.
        lead: How often each method was A less how often it was B.
        checks: The gold pairs and repeats that it was shown besides.
    """

    def __init__(self, db: Connection, who: Rater, plan: Plan, now: datetime) -> None:
        self.db, self.who, self.plan, self.now = db, who, plan, now
        self.shown = self.counted = 0
        self.lead: Counter[str] = Counter()
        self.checks: dict[str, set[str]] = {"gold": set(), "repeat": set()}
        for row in db.execute(_SHOWN, {"rater": who.id}):
            self._add(*row)
        if plan.gold_every is not None or plan.repeats:
            for role, pair_id in db.execute(_CHECKS, {"rater": who.id}):
                self.checks[role].add(pair_id)

    def _add(self, method_a: str, method_b: str, first: str, times: int = 1, counted: int = 1) -> None:
        self.shown += times
        self.counted += counted
        sign = times if first == "a" else -times
        self.lead[method_a] += sign
        self.lead[method_b] -= sign

    def is_full(self) -> bool:
        """Return whether the quota is reached."""
        return self.plan.quota is not None and self.counted >= self.plan.quota

    def read_open(self, limit: int) -> Sequence[Any]:
        """Return what the rater was shown, has not rated, and may still rate."""
        return self.db.execute(_MINE, {"rater": self.who.id, "limit": limit}).all()

    def hold(self, slot_id: int, number: int, side: str) -> None:
        """Let a presentation hold its slot for a lease."""
        until = self.now + self.plan.lease
        self.db.execute(_HOLD, {"slot": slot_id, "holder": number, "until": until, "side": side})

    def claim_next(self) -> int | None:
        """Make the rater's next presentation; None if there is nothing more for it."""
        number = self._claim_gold()
        if number is None and self._repeat_turn(len(self.checks["repeat"])) <= self.counted:
            number = self._claim_repeat()
        if number is None and not self.is_full():
            number = self._claim_slot()
        # when the study has nothing more for the rater, what is left of the repeats comes at the end
        return self._claim_repeat() if number is None else number

    def _claim_slot(self) -> int | None:
        """Show a pair in an open slot, on the side that a coin draws unless a method would lead by too much.

        A slot whose side is fixed comes before one of a pair that nobody was shown: so the last raters find
        pairs that they can be shown on either side.
        """
        coin = "ab"[self._draw(2, "side", self.who.name, self.shown)]

        def cost(option: tuple[Row[Any], str]) -> tuple[int, bool, bool]:
            row, side = option
            sign = 1 if side == "a" else -1
            lead = max(abs(self.lead[row.method_a] + sign), abs(self.lead[row.method_b] - sign))
            return max(_MOST_LEAD, lead), side != coin, row.side is None

        options = [(row, side) for row in self._read_open_slots() for side in row.side or "ab"]
        if not options:
            return None
        row, side = min(options, key=cost)
        number = self._present(row.pair_id, side, slot_id=row.id, number=row.number)
        self.hold(row.id, number, side)
        self._add(row.method_a, row.method_b, side)
        return number

    def _read_open_slots(self) -> list[Row[Any]]:
        """Return a few open slots: those that a roster reserves for the rater, or else seeded ones.

        Of each pair the first one is returned, so that its sides are even whenever a couple is full. Leases
        that are over end when few slots are open: until then nobody needs those slots.
        """
        start = _ring_position(self.plan.seed, self.who.name, self.shown)
        asked = {"rater": self.who.id, "pool": POOLS[self.who.kind], "start": start}
        rows = self.db.execute(_OPEN_SLOTS, asked).all()
        if len(rows) < _CANDIDATES:
            self.db.execute(_END_LEASES, {"now": self.now, "longest": self.now + self.plan.lease})
            rows = self.db.execute(_OPEN_SLOTS, asked).all()
        reserved = [row for row in rows if row.for_rater is not None]
        first = {row.pair_id: row for row in reversed(rows)}
        return reserved or [row for row in rows if first[row.pair_id] is row]

    def _present(self, pair_id: str, first: str, role: Role = "study", **of_slot: int) -> int:
        values = {"pair_id": pair_id, "first": first, "role": role, "number": 0, **of_slot}
        values |= {"rater_id": self.who.id, "handed_out": self.now}
        return int(self.db.execute(_PRESENT, values).scalar_one())

    # Checks: gold pairs and repeats, at positions that the seed draws.

    def _claim_gold(self) -> int | None:
        """Show the gold pair that is due, if there is one."""
        waiting = self._read_gold() - self.checks["gold"]
        if not waiting or self._gold_turn(len(self.checks["gold"])) > self.counted:
            return None
        chosen = min(waiting, key=lambda pair_id: content_id(self.plan.seed, self.who.name, "gold", pair_id))
        self.checks["gold"].add(chosen)
        # the side is drawn, so that a rater with a favourite side fails half of them
        return self._present(chosen, "ba"[self._draw(2, "gold side", self.who.name, chosen)], role="gold")

    def _claim_repeat(self) -> int | None:
        """Show one of the older half of the pairs the rater has rated, with its sides swapped."""
        if len(self.checks["repeat"]) >= self.plan.repeats:
            return None
        rated = self.db.execute(_RATED, {"rater": self.who.id}).all()
        older = {row.pair_id: row.first for row in rated[: len(rated) // 2]}
        waiting = older.keys() - self.checks["repeat"]
        if not waiting:
            return None
        chosen = min(
            waiting, key=lambda pair_id: content_id(self.plan.seed, "repeat", self.who.name, pair_id)
        )
        self.checks["repeat"].add(chosen)
        return self._present(chosen, "b" if older[chosen] == "a" else "a", role="repeat")

    def count_checks(self, pairs: int) -> int:
        """Return how many gold pairs and repeats are still to come for who is shown so many pairs in all."""
        gold = sum(self._gold_turn(turn) <= pairs for turn in range(len(self._read_gold())))
        repeats = min(self.plan.repeats, pairs // 2)
        return max(0, gold - len(self.checks["gold"])) + max(0, repeats - len(self.checks["repeat"]))

    def _read_gold(self) -> set[str]:
        """Return the gold pairs, if the plan has any mixed in."""
        if self.plan.gold_every is None:
            return set()
        return set(self.db.execute(select(pair.c.id).where(pair.c.expected.is_not(None))).scalars())

    def _gold_turn(self, turn: int) -> int:
        """Return after how many of the study's pairs gold pair `turn` (0, 1, …) comes: one in each block."""
        every = self.plan.gold_every or 1
        return turn * every + 1 + self._draw(every, "gold", self.who.name, turn)

    def _repeat_turn(self, turn: int) -> int:
        """Return after how many of the study's pairs repeat `turn` (0, 1, …) comes: one in each block."""
        return (turn + 1) * _REPEAT_EVERY + self._draw(_REPEAT_EVERY, "repeat", self.who.name, turn)

    def _draw(self, below: int, *key: object) -> int:
        return int(content_id(self.plan.seed, *key), 16) % below


def _ring_position(*key: object) -> int:
    return int(content_id("ring", *key)[:8], 16) % _RING_END
