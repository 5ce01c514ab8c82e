"""Which pair a rater is shown next: its open ones, a check that is due, or one of the study's free slots."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, false, func, insert, select, update

from guard_eval.records import PEOPLE_OF, BlindPair, Plan, Rater, Role, content_id
from guard_eval.store import verdicts
from guard_eval.store.handout import occupancy, slots
from guard_eval.store.handout.history import RaterHistory, rated
from guard_eval.store.handout.occupancy import First
from guard_eval.store.handout.slots import TOGETHER, FreeSlot, Methods, Turn
from guard_eval.store.raters import Standing, pool_of, standing
from guard_eval.store.schema import batches, gold, presentation

_Row = dict[str, Any]

_MINE_OPEN = (
    select(presentation.c.id)
    .where(
        presentation.c.rater_id == bindparam("param_rater"),
        presentation.c.rated_at.is_(None),
        presentation.c.superseded == false(),
    )
    .order_by(presentation.c.id)
)
_GOLD = select(gold.c.pair_id).distinct()
_INSERT = insert(presentation).returning(presentation.c.id, sort_by_parameter_order=True)


def hand_out(
    connection: Connection,
    rater: Rater,
    plan: Plan,
    *,
    now: datetime,
    limit: int,
    found: Standing | None = None,
) -> list[BlindPair]:
    """Return up to `limit` pairs (`Store.hand_out`); must run alone in the rater's pool.

    `found` is the rater's standing where this transaction has read it.
    """
    sees_once(rater)
    if limit < 1 or any(found or standing(connection, rater)):
        return []
    turn = Turn(connection, rater, plan, now, occupancy.make_ready(connection, pool_of(rater), plan.slots))
    history = RaterHistory.of(turn)
    numbers = _renew(turn, limit) if history.opened else []
    if len(numbers) < limit:
        slots.shorten_leases(turn)
        numbers += _insert(turn, list(_next(turn, history, limit - len(numbers))))
    return verdicts.blind(connection, numbers)


def progress(connection: Connection, rater: Rater, plan: Plan, *, now: datetime) -> tuple[int, int]:
    """Return how many presentations the rater has rated, and how many it can still get or has open.

    What it can still get is counted up to `slots.MOST_COUNTED` where there is no quota.
    """
    mine = presentation.c.rater_id == rater.id
    done = connection.execute(select(func.count(presentation.c.rated_at)).where(mine)).scalar_one()
    if any(standing(connection, rater)):
        return done, 0
    turn = Turn(connection, rater, plan, now, occupancy.make_ready(connection, pool_of(rater), plan.slots))
    opened = len(connection.execute(_MINE_OPEN, {"param_rater": rater.id}).all())
    return done, opened + _left(turn)


def is_ready(connection: Connection, rater: Rater, plan: Plan) -> bool:
    """Return whether it is marked which pairs are vacant in the rater's pool by this plan."""
    sees_once(rater)
    return occupancy.pool_state(connection, pool_of(rater)).is_marked_for(plan.slots)


def sees_once(rater: Rater) -> None:
    """Raise a `ValueError` for a model: it claims slots, while people and simulations see a pair once."""
    if rater.kind in PEOPLE_OF:
        raise ValueError(f"the model {rater.name!r} is handed nothing; its run claims pairs: Store.claim")


def _renew(turn: Turn, limit: int) -> list[int]:
    numbers = list(turn.connection.execute(_MINE_OPEN, {"param_rater": turn.rater.id}).scalars())[:limit]
    for ids in batches(numbers):
        turn.connection.execute(
            update(presentation)
            .where(presentation.c.id.in_(ids))
            .values(leased_until=turn.now + turn.plan.lease)
        )
    return numbers


def _insert(turn: Turn, rows: list[_Row]) -> list[int]:
    if not rows:
        return []
    numbers = list(turn.connection.execute(_INSERT, rows).scalars())
    occupancy.recount(turn.connection, turn.pool, [row["pair_id"] for row in rows if row["role"] == "study"])
    return numbers


def _next(turn: Turn, history: RaterHistory, limit: int) -> Iterator[_Row]:
    """Yield what the rater is shown next."""
    offers = _Offers(turn, history)
    for _ in range(limit):
        row = _due(turn, history)
        if row is None and (turn.plan.quota is None or history.shown < turn.plan.quota):
            taken = offers.take()
            row = None if taken is None else _row(turn, *taken)
        # when the study has nothing more for the rater, what is left of the repeats comes at the end
        row = row or _repeat(turn, history)
        if row is None:
            return
        yield row


def _due(turn: Turn, history: RaterHistory) -> _Row | None:
    """Return the check whose place has come, if there is one."""
    plan, name = turn.plan, turn.rater.name
    if plan.gold_every is not None and _gold_place(plan, name, len(history.gold)) <= history.shown:
        waiting = set(turn.connection.execute(_GOLD).scalars()) - history.gold
        if waiting:
            chosen = min(waiting, key=lambda pair_id: content_id(plan.seed, name, "gold", pair_id))
            # the side is drawn, so that a rater with a favourite side fails half of them
            side: First = "a" if int(content_id(plan.seed, "gold side", name, chosen), 16) % 2 else "b"
            history.gold.add(chosen)
            return _row(turn, chosen, FreeSlot(0, side, None, 0), role="gold")
    number = len(history.repeated)
    if number < plan.repeats:
        place = _repeat_place(plan, name, number, pairs=turn.state.pairs)
        if place <= history.shown:
            return _repeat(turn, history)
    return None


def _repeat(turn: Turn, history: RaterHistory) -> _Row | None:
    """Return one of the older half of the pairs the rater has rated, with its sides swapped."""
    if len(history.repeated) >= turn.plan.repeats:
        return None
    mine = rated(turn)
    waiting = {pair_id: first for pair_id, first in mine[: len(mine) // 2] if pair_id not in history.repeated}
    if not waiting:
        return None
    key = (turn.plan.seed, "repeat", turn.rater.name)
    chosen = min(waiting, key=lambda pair_id: content_id(*key, pair_id))
    side: First = "b" if waiting[chosen] == "a" else "a"
    history.repeated.add(chosen)
    return _row(turn, chosen, FreeSlot(0, side, None, 0), role="repeat")


def _left(turn: Turn) -> int:
    """Return how many showings are to come for a rater, beside its open ones."""
    plan, history = turn.plan, RaterHistory.of(turn)
    most = slots.MOST_COUNTED if plan.quota is None else max(0, plan.quota - history.shown)
    study = slots.count_free(turn, most) if most else 0
    total = history.shown + study
    golds = len(turn.connection.execute(_GOLD).all())
    checks = (
        _gold_until(plan, turn.rater.name, total, pairs=golds) - len(history.gold),
        _most_repeats(plan, total) - len(history.repeated),
    )
    return study + sum(max(0, number) for number in checks)


def _row(turn: Turn, pair_id: str, slot: FreeSlot, *, role: Role = "study") -> _Row:
    return {
        "pair_id": pair_id,
        "rater_id": turn.rater.id,
        # a check has no slot that another rater could fill
        "pool": turn.pool if role == "study" else f"checks:{turn.rater.id}",
        "slot": slot.slot,
        "attempt": slot.attempt,
        "first": slot.first,
        "handed_out": turn.now,
        "leased_until": turn.now + turn.plan.lease,
        "superseded": False,
        "withdrawn": False,
        "role": role,
    }


class _Offers:
    """The next few pairs of a rater's order that have a free slot, looked up as they are needed.

    A roster's rater is offered the pairs that are kept for it, and others only when it is through with them.
    """

    def __init__(self, turn: Turn, history: RaterHistory) -> None:
        self._turn = turn
        self._history = history
        self._open: dict[str, list[FreeSlot]] = {}
        self._methods: dict[str, Methods] = {}
        self._ranks: dict[str, int] = {}
        self._groups = [self._parts(slots.kept_pairs(turn))] if turn.has_roster else []
        self._groups.append(self._parts(slots.free_pairs(turn, history.shown)))

    def take(self) -> tuple[str, FreeSlot] | None:
        """Take the next slot on the side that is drawn, and count it as shown; None if there is none.

        A draw for each of the next pairs decides, which leans towards balance (`Sides`). The first pair that
        has just that side left comes first, then one that still leaves the choice, then any.
        """
        key = (self._turn.plan.seed, "side", self._turn.rater.name, self._history.shown)
        self._refill()
        offers = []
        for pair_id, free in self._open.items():
            draw = int(content_id(*key, pair_id), 16) / 16**16
            drawn = self._history.sides.first(self._methods[pair_id], draw)
            for slot in free:
                merit = (slot.first not in {drawn, None}, slot.first is None, self._ranks[pair_id])
                offers.append((*merit, slot.slot, pair_id, slot.first or drawn, slot))
        if not offers:
            return None
        *_, pair_id, first, slot = min(offers)
        del self._open[pair_id]
        slots.take(self._turn, slot)
        self._history.add_study(self._methods[pair_id], first)
        return pair_id, slot._replace(first=first)

    def _refill(self) -> None:
        while self._groups and len(self._open) < TOGETHER:
            part = next(self._groups[0], None)
            if part is not None:
                self._methods.update(part)
                for pair_id, free in slots.free_slots(self._turn, part).items():
                    self._ranks[pair_id] = len(self._ranks)
                    self._open[pair_id] = free
            elif self._open and len(self._groups) > 1:
                return
            else:
                del self._groups[0]

    def _parts(self, parts: Iterator[dict[str, Methods]]) -> Iterator[dict[str, Methods]]:
        """Yield the pairs few at a time, each once."""
        for part in parts:
            new = [(pair_id, pair) for pair_id, pair in part.items() if pair_id not in self._methods]
            for start in range(0, len(new), TOGETHER):
                yield dict(new[start : start + TOGETHER])


def _gold_place(plan: Plan, rater: str, number: int) -> int:
    """Return after how many of the study's pairs gold pair `number` (0, 1, …) comes: one in each block."""
    every = plan.gold_every or 1
    return number * every + 1 + _drawn(every, plan.seed, "gold", rater, number)


def _repeat_place(plan: Plan, rater: str, number: int, *, pairs: int) -> int:
    """Return after how many of the study's pairs repeat `number` (0, 1, …) comes: in the second half."""
    expected = min(pairs, pairs if plan.quota is None else plan.quota)
    half = (expected + 1) // 2
    start, end = (half + turn * (expected - half) // plan.repeats for turn in (number, number + 1))
    return max(1, start + _drawn(max(1, end - start), plan.seed, "repeat", rater, number))


def _most_repeats(plan: Plan, shown: int) -> int:
    """Return how many repeats a rater of `shown` pairs gets: only the older half is repeated."""
    return min(plan.repeats, shown // 2)


def _gold_until(plan: Plan, rater: str, shown: int, *, pairs: int) -> int:
    """Return how many of `pairs` gold pairs a rater of `shown` of the study's pairs has had."""
    if plan.gold_every is None:
        return 0
    blocks = min(pairs, shown // plan.gold_every + 1)
    return sum(_gold_place(plan, rater, number) <= shown for number in range(blocks))


def _drawn(below: int, *key: object) -> int:
    return int(content_id(*key), 16) % below
