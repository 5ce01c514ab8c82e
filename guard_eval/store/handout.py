"""The next pair of a rater, and the slots behind it: the planned showings of every pair.

A slot is free while no presentation holds it. A rater's open pair holds its slot for a lease; then another
rater may take it, and the verdict of the first one, if it still comes, is *surplus*: kept, and not counted.
If nobody took it, the first one has it back. Slots 2k and 2k + 1 of a pair show opposite sides.

A hand-out costs about the same in a study of 100 pairs and of 100 000: the open slots are an index, and it is
entered at a position that the seed draws for each rater and showing. A rater that the database does not know
is a `StudyError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, case, exists, func, select, union_all

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Plan, Rater, Role, content_id
from guard_eval.store import notes
from guard_eval.store.database import Store
from guard_eval.store.schema import (
    FREE,
    MOMENT,
    OPEN,
    PAIR,
    PRESENTATION,
    RATER,
    SLOT,
    UNRATED,
    note,
    pair,
    presentation,
    rater,
    slot,
)
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

_CANDIDATES = 32
"""How many open slots are looked at to find one on the side that is drawn."""

_MOST_LEAD = 5
"""No showing makes a method lead on one side by more than this, or one more: a coin draws which.

A bound that is always odd would be met after odd numbers of pairs alone, and the side of the next be known.
"""

_LAST_SLOTS = 16
"""A rater for whom fewer slots are open is near the end: the sides of those are foreseen."""

_REPEAT_EVERY = 10
"""A rater's own pairs come again one in so many, and the rest of them at the end."""

_RING_END = 2**31 - 1

# Statements of a hand-out are prepared once: building one takes as long as running it.
_OF_RATER = presentation.rater_id == bindparam("rater")
_IN_POOL = slot.pool == bindparam("pool")
_FOR_ANYBODY = slot.for_rater.is_(None)
_NEW = _IN_POOL & ~exists().where(_OF_RATER, presentation.pair_id == slot.pair_id)
SKIPPED = exists().where(note.presentation_id == presentation.id, note.kind == "skip")
_MINE = (
    select(presentation.id, presentation.slot_id, presentation.first, slot.held_by)
    .outerjoin_from(PRESENTATION, SLOT)
    .where(_OF_RATER, UNRATED, ~SKIPPED)
    .where(presentation.slot_id.is_(None) | (slot.held_by == presentation.id) | OPEN)
    .order_by(slot.held_by.is_(None), presentation.id)
    .limit(bindparam("limit"))
)
_HOLD = (
    SLOT.update()
    .where(slot.id == bindparam("slot"))
    .values(held_by=bindparam("holder"), leased_until=bindparam("until"), first=bindparam("side"))
)
_COMPARISON = (pair.method_a, pair.method_b, presentation.first)
_SHOWN = (
    select(*_COMPARISON, func.count().label("times"), func.count(presentation.rated_at).label("rated"))
    .join_from(PRESENTATION, PAIR)
    .where(_OF_RATER, presentation.role == "study")
    .group_by(*_COMPARISON)
)
_COUNT_RATED = select(func.count(presentation.rated_at)).where(_OF_RATER)
_CHECKS = select(presentation.role, presentation.pair_id).where(_OF_RATER, presentation.role != "study")
_RATED = (
    select(presentation.pair_id, presentation.first)
    .where(_OF_RATER, presentation.role == "study", presentation.rated_at.is_not(None))
    .order_by(presentation.id)
)
_TEXTS = (
    select(presentation.id, presentation.first, pair.prompt, pair.text_a, pair.text_b)
    .join_from(PRESENTATION, PAIR)
    .where(presentation.id.in_(bindparam("numbers", expanding=True)))
)
_PRESENT = PRESENTATION.insert().values(slot_id=bindparam("slot_id", None)).returning(presentation.id)
_IS_OVER, _LONGEST = slot.leased_until <= bindparam("now"), bindparam("longest", type_=MOMENT)
_END_LEASES = (
    SLOT.update()
    .where(_IS_OVER | (slot.leased_until > _LONGEST), _FOR_ANYBODY)
    .values(held_by=case((~_IS_OVER, slot.held_by)), leased_until=case((~_IS_OVER, _LONGEST)))
)


def _select_open(*wanted: ColumnElement[bool]) -> Any:  # noqa: ANN401 (a query)
    """Return the query for a few open slots of pairs that the rater was not shown.

    `side` is the only one on which a slot can be shown: its own, or the other one than that of its partner.
    """
    partner = (partner_slot := SLOT.alias()).c
    same_pair = (partner.pair_id == slot.pair_id) & (partner.pool == slot.pool)
    beside = same_pair & (partner.number == slot.number + 1 - 2 * (slot.number % 2))
    side = func.coalesce(slot.first, case((partner.first == "a", "b"), (partner.first == "b", "a")))
    columns = (slot.id, slot.pair_id, slot.number, slot.for_rater, side.label("side"))
    rows = select(*columns, pair.method_a, pair.method_b).select_from(SLOT).join(PAIR)
    rows = rows.outerjoin(partner_slot, beside).where(_NEW, OPEN, *wanted).order_by(slot.shuffle, slot.number)
    return select(rows.limit(_CANDIDATES).subquery())


_START: Any = bindparam("start")
_OPEN_SLOTS = union_all(
    _select_open(slot.for_rater == bindparam("rater"), slot.shuffle >= 0),  # so SQLite takes the index
    _select_open(_FOR_ANYBODY, slot.shuffle >= _START),
    _select_open(_FOR_ANYBODY, slot.shuffle < _START),
).limit(_CANDIDATES)


# Slots: how they are made, opened, held and released.


def apply_plan(store: Store, plan: Plan) -> None:
    """Let a plan hold from now on: make the slots that pairs lack, and close those beyond it.

    The owner's commands and the start of the app do this. The hand-out goes by the plan that was applied
    last: a server that began with an older study.toml neither closes nor opens slots.
    """
    with store.write() as (db, _):
        for pool in POOLS.values():
            if pool == PEOPLE or _count_made(db, pool):
                make_slots(db, plan, pool, replaces=True)


def make_slots(db: Connection, plan: Plan, pool: str = PEOPLE, *, replaces: bool = False) -> None:
    """Make the slots for a plan if there are none, or if the plan `replaces` one with another number."""
    before = _count_made(db, pool)
    if before == 0 or (replaces and before != plan.slots):
        put_value(db, f"slots {pool}", str(plan.slots))
        make_missing_slots(db)
        open_slots(db, pool)


def make_missing_slots(db: Connection) -> None:
    """Make the slots that pairs lack for the plans that were used so far."""
    of_people = (pair.expected.is_(None), pair.for_people)
    for pool in POOLS.values():
        for number in range(_count_made(db, pool)):
            same = (slot.pair_id == pair.id, slot.pool == pool, slot.number == number)
            lacking = db.execute(select(pair.id).where(*of_people, ~exists().where(*same))).scalars()
            rows = [{"pair_id": pair_id, "shuffle": _ring_position(pair_id)} for pair_id in lacking]
            if rows:
                db.execute(SLOT.insert().values(pool=pool, number=number), rows)


def _count_made(db: Connection, pool: str) -> int:
    """Return for how many showings a pair has slots."""
    return int(read_value(db, f"slots {pool}") or 0)


def open_slots(db: Connection, pool: str, *wanted: ColumnElement[bool]) -> None:
    """Open as many slots of the wanted pairs as are planned, rated and held ones first; close the others.

    A pair that too many raters skipped has none open; skips of raters who are excluded say nothing.
    """
    of_pairs = (slot.pool == pool, *wanted)
    ranks = [FREE, slot.leased_until.is_not(None), slot.number]
    order = func.row_number().over(partition_by=slot.pair_id, order_by=ranks)
    ranked = select(slot.id, order.label("rank")).where(*of_pairs).subquery()
    planned = select(ranked.c.id).where(ranked.c.rank <= _count_made(db, pool))
    skipped = (
        select(presentation.pair_id)
        .join_from(PRESENTATION, SLOT)
        .join_from(PRESENTATION, RATER)
        .where(*of_pairs, SKIPPED, rater.excluded_at.is_(None))
        .group_by(presentation.pair_id)
        .having(func.count() >= MOST_SKIPS)
    )
    is_open = slot.id.in_(planned) & slot.pair_id.not_in(skipped)
    db.execute(SLOT.update().where(*of_pairs).values(open=is_open))


def end_leases(db: Connection, plan: Plan, now: datetime) -> None:
    """Free what is not rated and whose lease is over, unless it is of a roster.

    A lease that ends later than one of now, as the clock was set back, is shortened to that.
    """
    db.execute(_END_LEASES, {"now": now, "longest": now + plan.lease})


def release(db: Connection, *wanted: ColumnElement[bool]) -> None:
    """Free the slots that these presentations hold; a verdict that still comes may be surplus."""
    held = select(presentation.id).where(*wanted)
    free = {"held_by": None, "leased_until": None, "for_rater": None}
    db.execute(SLOT.update().where(slot.held_by.in_(held)).values(free))


def release_rater(db: Connection, rater_id: int, *, rated: bool) -> None:
    """Free what a rater holds and has not rated, with `rated` all that it holds, and its part of a roster."""
    release(db, presentation.rater_id == rater_id, *(() if rated else (UNRATED,)))
    db.execute(SLOT.update().where(slot.for_rater == rater_id, FREE).values(for_rater=None))


def hold_again(db: Connection, rater_id: int) -> None:
    """Give a rater's rated presentations their slots back, unless another rater has taken them."""
    rated = (presentation.rater_id == rater_id, presentation.rated_at.is_not(None))
    latest = select(func.max(presentation.id)).where(presentation.slot_id == slot.id, *rated)
    slots = select(presentation.slot_id).where(*rated)
    db.execute(SLOT.update().where(FREE, slot.id.in_(slots)).values(held_by=latest.scalar_subquery()))


# A rater: its next pair, and what is left for it.


def claim(store: Store, who: Rater, plan: Plan, limit: int = 1) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's own open ones, with a new lease, then open slots.

    None are returned if none is left, or if the rater is revoked or excluded. A model gets no slots: that is
    a `KeyError`.
    """
    with store.write() as (db, now):
        if notes.find_rater(db, who).is_out:
            return []
        make_slots(db, plan, POOLS[who.kind])
        visit = _Visit(db, who, plan, now, limit)
        for row in visit.open:
            if row.slot_id is not None:
                visit.hold(row.slot_id, row.id, row.first)
        numbers = [row.id for row in visit.open]
        while len(numbers) < limit and (number := visit.claim_next()) is not None:
            numbers.append(number)
        return blind(db, numbers)


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
    """
    with store.write() as (db, now):
        make_slots(db, plan, POOLS[who.kind])
        visit = _Visit(db, who, plan, now, MOST_COUNTED)
        done = db.execute(_COUNT_RATED, visit.asked).scalar_one()
        if notes.find_rater(db, who).is_out:
            return done, 0
        free = FREE | (slot.leased_until <= now)
        for_rater = _FOR_ANYBODY | (slot.for_rater == who.id)
        pairs = select(slot.pair_id).where(_NEW, free, slot.open, for_rater).distinct()
        counted = select(func.count()).select_from(pairs.limit(visit.count_left()).subquery())
        new = int(db.execute(counted, visit.asked).scalar_one())
        return done, len(visit.open) + new + visit.count_checks(visit.counted + new)


def waits_until(store: Store, who: Rater, plan: Plan) -> datetime | None:
    """Return until when a rater who is handed nothing should wait, as others have its last pairs open.

    None if nothing more will come for it: the quota is reached, no pair is left that it has not seen, or it
    has waited for a whole lease.
    """
    with store.write() as (db, now):
        visit = _Visit(db, who, plan, now, 1)
        if notes.find_rater(db, who).is_out or not visit.count_left():
            return None
        leased = (slot.open, slot.leased_until > now, _FOR_ANYBODY)
        statement = select(func.min(slot.leased_until)).where(_NEW, *leased)
        lease_end: datetime | None = db.execute(statement, visit.asked).scalar_one()
        # no longer than a lease after the rater did something: a lease can be renewed for ever
        rated = select(presentation.rated_at.label("at")).where(presentation.rater_id == who.id)
        did = union_all(rated, select(note.at).where(note.rater_id == who.id)).subquery()
        longest = min(db.execute(select(func.max(did.c.at))).scalar_one() or now, now) + plan.lease
        return None if lease_end is None or longest <= now else min(lease_end, longest)


def skip(store: Store, number: int, problems: Sequence[str], *, rater: Rater, comment: str = "") -> bool:
    """Leave a presentation unrated and its slot to another rater; the rater is not shown the pair again.

    It is no verdict, but noted with its reason. A pair that `MOST_SKIPS` raters skipped is given to no new
    rater. Returns False, and changes nothing, if the rater has skipped too many already.

    Raises:
        StudyError: The presentation was not handed to this rater or is rated, the rater is revoked, or no
            problem is given.
    """
    with store.write() as (db, _):
        notes.check_owner(db, rater, number)
        notes.check_admitted(db, rater)
        columns = (presentation.pair_id, presentation.rated_at, SKIPPED.label("skipped"))
        row = db.execute(select(*columns).where(presentation.id == number)).one()
        if row.skipped:
            return True
        if row.rated_at is not None or not problems:
            raise StudyError(f"presentation {number} was rated, or no reason to skip it is given; rate it")
        rated = db.execute(_COUNT_RATED, {"rater": rater.id}).scalar_one()
        skips = select(func.count()).where(note.rater_id == rater.id, note.kind == "skip")
        if db.execute(skips).scalar_one() >= rated + SPARE_SKIPS:
            return False
        notes.write(store, rater, "skip", ", ".join(problems), presentation=number)
        notes.write(store, rater, "comment", comment, presentation=number, unless_same=True)
        release(db, presentation.id == number)
        open_slots(db, POOLS[rater.kind], slot.pair_id == row.pair_id)
        return True


class _Visit:
    """A rater of the study: what it was shown, and what comes next.

    Attributes:
        open: Up to `limit` presentations that the rater has not rated, and may still rate.
        shown: How many pairs of the study it was shown, with those that it lost.
        counted: Those that are rated, or open: the quota is about them.
        lead: How often each method was A less how often it was B.
        checks: The gold pairs and repeats that it was shown besides.
    """

    def __init__(self, db: Connection, who: Rater, plan: Plan, now: datetime, limit: int) -> None:
        self.db, self.who, self.plan, self.now = db, who, plan, now
        self.asked = {"rater": who.id, "pool": POOLS[who.kind], "limit": limit}
        self.open = list(db.execute(_MINE, self.asked))
        self.counted = sum(row.slot_id is not None for row in self.open)
        self.shown, self.lead = 0, Counter[str]()
        for row in db.execute(_SHOWN, self.asked):
            self.counted += row.rated
            self._add(row, row.first, row.times)
        # what the rater lost, and nobody took, comes back as far as the quota goes
        lost = [row for row in self.open if row.slot_id is not None and row.held_by is None]
        while lost and plan.quota is not None and self.counted > plan.quota:
            self.open.remove(lost.pop())
            self.counted -= 1
        self.checks: dict[Role, set[str]] = {"gold": set(), "repeat": set()}
        if plan.gold_every is not None or plan.repeats:
            for role, pair_id in db.execute(_CHECKS, self.asked):
                self.checks[role].add(pair_id)

    def _add(self, row: Any, side: str, times: int = 1) -> None:  # noqa: ANN401 (a row of a query)
        self.lead.update(_step(row, side, times))
        self.shown += times

    def count_left(self) -> int:
        """Return how many more pairs the quota allows."""
        return MOST_COUNTED if self.plan.quota is None else max(0, self.plan.quota - self.counted)

    def hold(self, slot_id: int, number: int, side: str) -> None:
        """Let a presentation hold its slot for a lease."""
        until = self.now + self.plan.lease
        self.db.execute(_HOLD, {"slot": slot_id, "holder": number, "until": until, "side": side})

    def claim_next(self) -> int | None:
        """Make the rater's next presentation; None if there is nothing more for it."""
        roles: tuple[Role, ...] = ("gold", "repeat")
        for role in roles:
            is_due = self._turn(role, len(self.checks[role])) <= self.counted
            if is_due and (number := self._claim_check(role)) is not None:
                return number
        number = self._claim_slot() if self.count_left() else None
        # when the study has nothing more for the rater, what is left of the repeats comes at the end
        return self._claim_check("repeat") if number is None else number

    def _claim_slot(self) -> int | None:
        """Show a pair in an open slot, on the side that a coin draws unless a method would lead by too much.

        A slot whose side is fixed comes before one of a pair that nobody was shown, and the coin leans to the
        side on which more of them are fixed: so the last raters find pairs that they can be shown on either
        side. Of each pair the first slot is taken, so that its sides are even whenever a couple is full.
        """
        rows = self._read_open_slots()
        firsts = {row.pair_id: row for row in reversed(rows)}.values()
        sides = Counter(row.side for row in firsts if row.for_rater is None)
        lean = 4 + sides["a"] - sides["b"]
        draw = self._draw(16, "side", self.who.name, self.shown)
        most_lead = _MOST_LEAD + draw % 2
        coin = "a" if draw // 2 < lean else "b"
        fixed = [row for row in firsts if row.side and len(rows) < _LAST_SLOTS]
        last = self.lead.copy()
        for row in fixed:
            last.update(_step(row, row.side))

        def cost(option: tuple[Any, str]) -> tuple[int, int, bool, bool]:
            row, side = option
            step = _step(row, side)
            lead = max(abs(self.lead[method] + step[method]) for method in step)
            ahead = _largest(last, {} if row.side else step) if fixed else 0
            return max(most_lead, lead), max(_MOST_LEAD - 1, ahead), side != coin, row.side is None

        options = [(row, side) for row in firsts for side in row.side or "ab"]
        if not options:
            return None
        row, side = min(options, key=cost)
        number = self._present(row.pair_id, side, slot_id=row.id, number=row.number)
        self.hold(row.id, number, side)
        self.counted += 1
        self._add(row, side)
        return number

    def _read_open_slots(self) -> list[Any]:
        """Return a few open slots: those that a roster reserves for the rater, or else seeded ones.

        Leases that are over end when few slots are open: until then nobody needs those slots.
        """
        asked = self.asked | {"start": _ring_position(self.plan.seed, self.who.name, self.shown)}
        rows = self.db.execute(_OPEN_SLOTS, asked).all()
        if len(rows) < _LAST_SLOTS:
            end_leases(self.db, self.plan, self.now)
            rows = self.db.execute(_OPEN_SLOTS, asked).all()
        return [row for row in rows if row.for_rater is not None] or list(rows)

    def _present(self, pair_id: str, first: str, role: Role = "study", **of_slot: int) -> int:
        shown = {"pair_id": pair_id, "first": first, "role": role, "number": 0, **of_slot}
        to_whom = {"rater_id": self.who.id, "handed_out": self.now}
        return int(self.db.execute(_PRESENT, shown | to_whom).scalar_one())

    # Checks: gold pairs and repeats, at positions that the seed draws.

    def _claim_check(self, role: Role) -> int | None:
        """Show a gold pair or a repeat that the rater was not shown; None if there is none."""
        sides = self._read_gold() if role == "gold" else self._read_older()
        waiting = sides.keys() - self.checks[role]
        if not waiting:
            return None
        chosen = min(waiting, key=lambda pair_id: content_id(self.plan.seed, role, self.who.name, pair_id))
        self.checks[role].add(chosen)
        return self._present(chosen, sides[chosen], role=role)

    def _read_gold(self) -> dict[str, str]:
        """Return the gold pairs on sides that are drawn: a rater with a favourite side fails half of them."""
        if self.plan.gold_every is None:
            return {}
        gold = self.db.execute(select(pair.id).where(pair.expected.is_not(None))).scalars()
        return {pair_id: "ba"[self._draw(2, "gold side", self.who.name, pair_id)] for pair_id in gold}

    def _read_older(self) -> dict[str, str]:
        """Return the older half of the pairs the rater has rated, sides swapped, if a repeat is to come."""
        if len(self.checks["repeat"]) >= self.plan.repeats:
            return {}
        rated = self.db.execute(_RATED, self.asked).all()
        return {row.pair_id: "b" if row.first == "a" else "a" for row in rated[: len(rated) // 2]}

    def count_checks(self, pairs: int) -> int:
        """Return how many gold pairs and repeats are still to come for who is shown so many pairs in all."""
        gold = sum(self._turn("gold", index) <= pairs for index in range(len(self._read_gold())))
        repeats = min(self.plan.repeats, pairs // 2)
        return max(0, gold - len(self.checks["gold"])) + max(0, repeats - len(self.checks["repeat"]))

    def _turn(self, role: Role, index: int) -> int:
        """Return after how many of the study's pairs a check (0, 1, …) comes: one in each block of pairs."""
        gold_every = self.plan.gold_every or 1
        every, start = (gold_every, 1) if role == "gold" else (_REPEAT_EVERY, _REPEAT_EVERY)
        return start + every * index + self._draw(every, role, self.who.name, index)

    def _draw(self, below: int, *key: object) -> int:
        return int(content_id(self.plan.seed, *key), 16) % below


def _step(row: Any, side: str, times: int = 1) -> dict[str, int]:  # noqa: ANN401 (a row of a query)
    """Return by how much the leads of a row's methods change when it is shown on this side."""
    step = times if side == "a" else -times
    return {row.method_a: step, row.method_b: -step}


def _largest(lead: Counter[str], step: dict[str, int]) -> int:
    return max(abs(lead[method] + step.get(method, 0)) for method in {*lead, *step})


def _ring_position(*key: object) -> int:
    return int(content_id("ring", *key)[:8], 16) % _RING_END
