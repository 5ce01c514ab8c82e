"""The next pair of a rater: its open ones, a check that is due, or a free slot of the study.

A rater's open pair keeps its slot for a lease. Then another rater may take the slot, and the verdict of the
first one, if it still comes, is *surplus*: kept, and not counted. If nobody took it, the first one has it
back.

A hand-out costs about the same in a study of 100 pairs and of 100 000: the free slots are an index, and it is
entered at a place that the seed draws for each rater and showing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    Connection,
    Row,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Plan, Rater, Role, content_id
from guard_eval.store import notes, slots
from guard_eval.store.database import Store
from guard_eval.store.schema import FREE, UNRATED, note, pair, presentation, rater, slot

First = Literal["a", "b"]

CANDIDATES = 16
"""How many free slots are looked at to find one on the side that is drawn."""

SPARE_SKIPS = 2
"""A rater may skip so many pairs more than it has rated: else a few could take every pair from the others."""

MOST_COUNTED = 10_000
"""Up to how many what a rater without a quota can still get is counted."""

_MOST_LEAD = 5
"""So many times more on one side than on the other, the next showing of a method is on the other."""

# prepared once: building a statement takes as long as running it
_STANDING = select(rater.c.name, rater.c.kind, slots.IS_OUT).where(rater.c.id == bindparam("rater"))
SKIPPED = exists().where(note.c.presentation_id == presentation.c.id, note.c.kind == "skip")
_MINE = (
    select(presentation.c.id, presentation.c.slot_id, slot.c.held_by)
    .outerjoin(slot, slot.c.id == presentation.c.slot_id)
    .where(
        presentation.c.rater_id == bindparam("rater"),
        UNRATED,
        or_(
            presentation.c.slot_id.is_(None),
            slot.c.held_by == presentation.c.id,
            and_(FREE, slot.c.shuffle.is_not(None), slot.c.number < bindparam("slots")),
        ),
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
_COUNTS = case(
    (presentation.c.rated_at.is_not(None), 1),
    (exists().where(slot.c.held_by == presentation.c.id), 1),
    else_=0,
)
_SHOWN = (
    select(
        pair.c.method_a,
        pair.c.method_b,
        presentation.c.first,
        func.count().label("times"),
        func.sum(_COUNTS).label("counted"),
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
_POOL = (slot.c.pool == bindparam("pool"), slot.c.number < bindparam("slots"), ~_SEEN)
_CANDIDATES, _KEPT = (
    select(
        slot.c.id,
        slot.c.pair_id,
        slot.c.number,
        slot.c.first,
        slot.c.for_rater,
        pair.c.method_a,
        pair.c.method_b,
    )
    .join(pair)
    .where(*_POOL, FREE, whose, slot.c.shuffle >= bindparam("start"), slot.c.shuffle < bindparam("end"))
    .order_by(slot.c.shuffle, slot.c.number)
    .limit(CANDIDATES)
    for whose in (slot.c.for_rater.is_(None), slot.c.for_rater == bindparam("rater"))
)
_TEXTS = (
    select(presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    .join(pair)
    .where(presentation.c.id.in_(bindparam("numbers", expanding=True)))
)
_INSERT = insert(presentation).returning(presentation.c.id)


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

    def add(self, method_a: str, method_b: str, first: str, times: int, counted: int) -> None:
        """Add showings of a comparison that are alike."""
        self.shown += times
        self.counted += counted
        sign = times if first == "a" else -times
        self.lead[method_a] += sign
        self.lead[method_b] -= sign


def claim(store: Store, who: Rater, plan: Plan, limit: int = 1) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's own open ones, with a new lease, then free slots.

    None are returned if none is left, or if the rater is revoked or excluded.

    Raises:
        StudyError: The database does not know the rater.
        ValueError: The rater is a model.
    """
    with store.write() as (db, now):
        return blind(db, claim_in(store, db, who, plan, now=now, limit=limit))


def claim_in(
    store: Store, db: Connection, who: Rater, plan: Plan, *, now: datetime, limit: int = 1
) -> list[int]:
    """Claim up to `limit` presentations within a transaction; return their numbers."""
    if limit < 1 or _is_out(db, who):
        return []
    slots.make(store, db, plan, slots.pool_of(who))
    until = now + plan.lease
    mine = db.execute(_MINE, {**_parameters(who, plan), "limit": limit}).all()
    lost = [row for row in mine if row.slot_id is not None and row.held_by is None]
    numbers = [row.id for row in mine if row not in lost]
    for row in mine:
        if row.held_by is not None:
            db.execute(_HOLD, {"slot": row.slot_id, "holder": row.id, "until": until})
    if len(numbers) == limit:
        return numbers
    slots.end_leases(db, now, plan)
    history = _read_history(db, who, plan)
    for row in lost:
        if plan.quota is None or history.counted < plan.quota:
            db.execute(_HOLD, {"slot": row.slot_id, "holder": row.id, "until": until})
            history.counted += 1
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
    with store.read() as db:
        rated = select(func.count(presentation.c.rated_at)).where(presentation.c.rater_id == who.id)
        done = db.execute(rated).scalar_one()
        if _is_out(db, who):
            return done, 0
        mine = db.execute(_MINE, {**_parameters(who, plan), "limit": MOST_COUNTED}).all()
        history = _read_history(db, who, plan)
        history.counted += sum(row.slot_id is not None and row.held_by is None for row in mine)
        most = MOST_COUNTED if plan.quota is None else max(0, plan.quota - history.counted)
        pairs = _count_left(store, db, who, plan, most)
        total = history.counted + pairs
        checks = (
            _gold_until(plan, who.name, total, pairs=len(_gold_ids(db))) - len(history.gold),
            min(plan.repeats, total // 2) - len(history.repeated),
        )
        return done, len(mine) + pairs + sum(max(0, number) for number in checks)


def waits_until(store: Store, who: Rater, plan: Plan) -> datetime | None:
    """Return until when a rater who is handed nothing should wait, as others have its last pairs open.

    None if nothing more will come for it: the quota is reached, no pair is left that it has not seen, or it
    has waited for a whole lease.
    """
    with store.read() as db:
        now = store.time(db)
        history = _read_history(db, who, plan)
        if _is_out(db, who) or (plan.quota is not None and history.counted >= plan.quota):
            return None
        leased = select(func.min(slot.c.leased_until)).where(
            *_POOL, slot.c.leased_until > now, slot.c.for_rater.is_(None)
        )
        asked = _parameters(who, plan)
        lease_end: datetime | None = db.execute(leased, asked).scalar_one()
        if lease_end is None:
            return None
        # no longer than a lease after the last sign of the rater: a lease can be renewed for ever
        signs = (
            select(func.max(presentation.c.rated_at)).where(presentation.c.rater_id == who.id),
            select(func.max(note.c.at)).where(note.c.rater_id == who.id),
        )
        seen = [at for sign in signs if (at := db.execute(sign).scalar_one()) is not None]
        longest = min(max(seen, default=now), now) + plan.lease
        return min(lease_end, longest) if longest > now else None


def skip(store: Store, number: int, problems: Sequence[str], *, rater: Rater, comment: str = "") -> bool:
    """Leave a presentation unrated and its slot to another rater; the rater is not shown the pair again.

    It is no verdict, but noted with its reason. A pair that `slots.MOST_SKIPS` raters skipped is given to no
    new rater. Returns False, and changes nothing, if the rater has skipped too many already.

    Raises:
        StudyError: The presentation was not handed to this rater or is rated, the rater is revoked, or no
            problem is given.
    """
    with store.write() as (db, now):
        notes.check_owner(db, rater, number)
        check_admitted(db, rater)
        row = db.execute(
            select(presentation, SKIPPED.label("skipped")).where(presentation.c.id == number)
        ).one()
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
        slots.release(db, presentation.c.id == number)
        slots.close_skipped(db, slots.pool_of(rater))
        return True


def check_admitted(db: Connection, who: Rater) -> None:
    """Raise a `StudyError` if a rater is revoked."""
    if db.execute(select(rater.c.revoked_at).where(rater.c.id == who.id)).scalar_one() is not None:
        raise StudyError(f"the rater {who.name!r} is revoked; ask the study's owner for a new invitation")


def _parameters(who: Rater, plan: Plan) -> dict[str, object]:
    return {"rater": who.id, "pool": slots.pool_of(who), "slots": plan.slots}


def _is_out(db: Connection, who: Rater) -> bool:
    row = db.execute(_STANDING, {"rater": who.id}).one_or_none()
    if row is None or (row[0], row[1]) != (who.name, who.kind):
        raise StudyError(
            f"the rater {who.name!r} is not of this study; invite it with: guard-eval raters add"
        )
    return bool(row[2])


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
    if number is None and (plan.quota is None or history.counted < plan.quota):
        row = _choose_slot(db, who, plan, history)
        if row is not None:
            number = _insert(db, who, row.pair_id, row.first, now=now, slot_id=row.id, number=row.number)
            db.execute(_HOLD, {"slot": row.id, "holder": number, "until": now + plan.lease})
            history.add(row.method_a, row.method_b, row.first, 1, 1)
    # when the study has nothing more for the rater, what is left of the repeats comes at the end
    return _claim_repeat(db, who, plan, history, now=now) if number is None else number


def _choose_slot(db: Connection, who: Rater, plan: Plan, history: _History) -> Any | None:  # noqa: ANN401
    """Return a free slot: one that a roster keeps for the rater, else from a place that the seed draws.

    Of the next few, the first is taken whose side is the one that is drawn for it.
    """
    start = slots.shuffle_key(plan.seed, who.name, history.shown)
    asked = _parameters(who, plan)
    rows: list[Any] = []
    for statement, low, high in (
        (_KEPT, 0, slots.END),
        (_CANDIDATES, start, slots.END),
        (_CANDIDATES, 0, start),
    ):
        if len(rows) < CANDIDATES and not (rows and statement is _CANDIDATES and rows[0].for_rater):
            rows += db.execute(statement, {**asked, "start": low, "end": high}).all()
    if not rows:
        return None
    couples: dict[str, int] = {}
    # a pair's first couple fills up first, so that its sides are even whenever it is full
    rows = [row for row in rows if couples.setdefault(row.pair_id, row.number // 2) == row.number // 2]
    drawn = (row for row in rows if row.first == _draw_side(row, plan, who, history))
    few = len(rows) < CANDIDATES // 2  # the sides of the rater's last pairs are what others left
    return (None if few else next(drawn, None)) or min(rows, key=lambda row: max(_leads_after(row, history)))


def _leads_after(row: Row[Any], history: _History) -> tuple[int, int]:
    """Return how far both methods would be from balance if this slot were shown."""
    sign = 1 if row.first == "a" else -1
    return abs(history.lead[row.method_a] + sign), abs(history.lead[row.method_b] - sign)


def _draw_side(row: Row[Any], plan: Plan, who: Rater, history: _History) -> First:
    """Return a side by a coin that is fair until a method leads by `_MOST_LEAD`."""
    lead = max(history.lead[row.method_a], -history.lead[row.method_b], key=abs)
    if abs(lead) >= _MOST_LEAD:
        return "b" if lead > 0 else "a"
    draw = int(content_id(plan.seed, "side", who.name, history.shown, row.pair_id), 16) / 16**16
    return "a" if draw < 0.5 else "b"


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
    values = {
        "slot_id": slot_id,
        "pair_id": pair_id,
        "rater_id": who.id,
        "number": number,
        "first": first,
        "role": role,
        "handed_out": now,
    }
    return int(db.execute(_INSERT, values).scalar_one())


def _count_left(store: Store, db: Connection, who: Rater, plan: Plan, most: int) -> int:
    """Return how many pairs the rater can still be shown beside its open ones, `most` if there are more."""
    if plan.slots != store.slots_made.get(slots.pool_of(who)):
        # they are made with the first hand-out
        seen = select(presentation.c.pair_id).where(presentation.c.rater_id == who.id)
        wanted = (pair.c.expected.is_(None), pair.c.for_people, pair.c.id.not_in(seen))
        statement = select(pair.c.id).where(*wanted).limit(most)
    else:
        free = or_(FREE, slot.c.leased_until <= store.time(db))
        mine = or_(slot.c.for_rater.is_(None), slot.c.for_rater == who.id)
        statement = (
            select(slot.c.pair_id)
            .where(*_POOL, free, mine, slot.c.shuffle.is_not(None))
            .distinct()
            .limit(most)
        )
    counted = select(func.count()).select_from(statement.subquery())
    return int(db.execute(counted, _parameters(who, plan)).scalar_one())


def _claim_check(db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime) -> int | None:
    """Show the gold pair or the repeat whose place has come, if there is one."""
    if plan.gold_every is not None and _gold_place(plan, who.name, len(history.gold)) <= history.counted:
        waiting = _gold_ids(db) - history.gold
        if waiting:
            chosen = min(waiting, key=lambda pair_id: content_id(plan.seed, who.name, "gold", pair_id))
            # the side is drawn, so that a rater with a favourite side fails half of them
            first = "ba"[int(content_id(plan.seed, "gold side", who.name, chosen), 16) % 2]
            history.gold.add(chosen)
            return _insert(db, who, chosen, first, now=now, role="gold")
    turn = len(history.repeated)
    if turn < plan.repeats and _repeat_place(db, plan, who, turn) <= history.counted:
        return _claim_repeat(db, who, plan, history, now=now)
    return None


def _claim_repeat(db: Connection, who: Rater, plan: Plan, history: _History, *, now: datetime) -> int | None:
    """Show one of the older half of the pairs the rater has rated, with its sides swapped."""
    if len(history.repeated) >= plan.repeats:
        return None
    rated = db.execute(
        select(presentation.c.pair_id, presentation.c.first)
        .where(
            presentation.c.rater_id == who.id,
            presentation.c.role == "study",
            presentation.c.rated_at.is_not(None),
        )
        .order_by(presentation.c.id)
    ).all()
    waiting = {
        row.pair_id: row.first for row in rated[: len(rated) // 2] if row.pair_id not in history.repeated
    }
    if not waiting:
        return None
    chosen = min(waiting, key=lambda pair_id: content_id(plan.seed, "repeat", who.name, pair_id))
    history.repeated.add(chosen)
    return _insert(db, who, chosen, "b" if waiting[chosen] == "a" else "a", now=now, role="repeat")


def _gold_ids(db: Connection) -> set[str]:
    return set(db.execute(select(pair.c.id).where(pair.c.expected.is_not(None))).scalars())


def _gold_place(plan: Plan, name: str, turn: int) -> int:
    """Return after how many of the study's pairs gold pair `turn` (0, 1, …) comes: one in each block."""
    every = plan.gold_every or 1
    return turn * every + 1 + _drawn(every, plan.seed, "gold", name, turn)


def _gold_until(plan: Plan, name: str, shown: int, *, pairs: int) -> int:
    """Return how many of `pairs` gold pairs a rater of `shown` of the study's pairs has had."""
    if plan.gold_every is None:
        return 0
    blocks = min(pairs, shown // plan.gold_every + 1)
    return sum(_gold_place(plan, name, turn) <= shown for turn in range(blocks))


def _repeat_place(db: Connection, plan: Plan, who: Rater, turn: int) -> int:
    """Return after how many of the study's pairs repeat `turn` (0, 1, …) comes: in the second half."""
    pairs = (
        select(literal(1))
        .where(slot.c.pool == slots.pool_of(who), slot.c.number == 0)
        .limit(plan.quota or slots.END)
    )
    expected = int(db.execute(select(func.count()).select_from(pairs.subquery())).scalar_one())
    half = (expected + 1) // 2
    start, end = (half + each * (expected - half) // plan.repeats for each in (turn, turn + 1))
    return max(1, start + _drawn(max(1, end - start), plan.seed, "repeat", who.name, turn))


def _drawn(below: int, *key: object) -> int:
    return int(content_id(*key), 16) % below
