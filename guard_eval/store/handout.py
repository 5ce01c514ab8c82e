"""Which pair a rater is shown next, on which side, and for how long it is theirs.

A *slot* is a planned showing of a pair in a pool. Its holder is its one presentation that is not superseded;
an index of the database allows no second. A slot is free when it has no holder, or when its holder is unrated
and its lease is over; then the new presentation supersedes the old, whose verdict, if it comes, is surplus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    false,
    func,
    insert,
    or_,
    select,
    true,
    union,
    update,
)

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Rater, content_id
from guard_eval.store.raters import is_admitted, pool_of
from guard_eval.store.schema import pair, presentation
from guard_eval.store.values import Plan

_BATCH = 500
"""How many ids one statement lists; both databases limit its parameters."""

_FIRST_LOOK = 16
"""How many pairs are looked at first; until others have filled pairs, the first one is free."""


_Item = TypeVar("_Item")
_Holders = dict[tuple[str, int], Row[tuple[object, ...]]]


class Orders:
    """The pairs in the order a rater sees them, remembered because hashing the ids takes milliseconds."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._orders: dict[tuple[int, str], list[str]] = {}

    def refresh(self, connection: Connection) -> None:
        """Notice pairs that were added; pairs are never changed or removed, so their number tells."""
        count = connection.execute(select(func.count()).select_from(pair)).scalar_one()
        if count != len(self._positions):
            rows = connection.execute(select(pair.c.id, pair.c.position))
            self._positions = {row.id: row.position for row in rows}
            self._orders = {}

    def of(self, seed: int, rater: str) -> list[str]:
        """Return the pairs' ids, shuffled for one rater by the study's seed."""
        key = (seed, rater)
        if key not in self._orders:
            self._orders[key] = sorted(self._positions, key=lambda pair_id: content_id(seed, rater, pair_id))
        return self._orders[key]

    def first(self, pair_id: str, slot: int) -> Literal["a", "b"]:
        """Return which text is shown as A: slots of a pair alternate, and so do pairs of a slot."""
        return "b" if (slot + self._positions[pair_id]) % 2 else "a"


class _Turn(NamedTuple):
    """One rater asking, once."""

    connection: Connection
    orders: Orders
    rater: Rater
    plan: Plan
    now: datetime

    @property
    def pool(self) -> str:
        return pool_of(self.rater)

    @property
    def sees_once(self) -> bool:
        return self.rater.kind != "model"

    @property
    def held(self) -> ColumnElement[bool]:
        """True of presentations that keep their slot from this rater: rated, leased, or its own."""
        return and_(
            presentation.c.pool == self.pool,
            presentation.c.superseded == false(),
            or_(
                presentation.c.rated_at.is_not(None),
                presentation.c.leased_until > self.now,
                presentation.c.rater_id == self.rater.id,
            ),
        )


def hand_out(
    connection: Connection, orders: Orders, rater: Rater, plan: Plan, *, now: datetime, limit: int
) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's own unrated ones, with a new lease, then free slots.

    Must run alone in the rater's pool. A revoked rater gets none.

    Raises:
        StudyError: The plan has no slots, or the database does not know the rater.
    """
    _check(plan)
    if limit < 1 or not is_admitted(connection, rater):
        return []
    turn = _Turn(connection, orders, rater, plan, now)
    numbers = _renew(turn, limit)
    orders.refresh(connection)
    if len(numbers) < limit:
        numbers += _take(turn, limit - len(numbers))
    return _blind(connection, numbers)


def progress(
    connection: Connection, orders: Orders, rater: Rater, plan: Plan, *, now: datetime
) -> tuple[int, int]:
    """Return how many presentations the rater has rated, and how many it can still get or has open.

    Raises:
        StudyError: The plan has no slots, or the database does not know the rater.
    """
    _check(plan)
    orders.refresh(connection)
    turn = _Turn(connection, orders, rater, plan, now)
    mine = presentation.c.rater_id == rater.id
    rated = connection.execute(select(func.count(presentation.c.rated_at)).where(mine)).scalar_one()
    if not is_admitted(connection, rater):
        return rated, 0
    opened = connection.execute(select(func.count()).where(*_open(rater))).scalar_one()
    pairs = len(orders.of(plan.seed, rater.name))
    if turn.sees_once:
        return rated, opened + pairs - len(_unavailable(turn))
    held = connection.execute(
        select(func.count()).where(turn.held, presentation.c.slot < plan.slots)
    ).scalar_one()
    return rated, opened + pairs * plan.slots - held


def _check(plan: Plan) -> None:
    if plan.slots < 1:
        raise StudyError(f"the plan has {plan.slots} slots per pair; it needs at least 1")


def _open(rater: Rater) -> tuple[ColumnElement[bool], ...]:
    return (
        presentation.c.rater_id == rater.id,
        presentation.c.rated_at.is_(None),
        presentation.c.superseded == false(),
    )


def _renew(turn: _Turn, limit: int) -> list[int]:
    statement = select(presentation.c.id).where(*_open(turn.rater)).order_by(presentation.c.id).limit(limit)
    # locked, so that a verdict coming this moment is waited for and seen
    numbers = list(turn.connection.execute(statement.with_for_update()).scalars())
    for ids in _batches(numbers):
        turn.connection.execute(
            update(presentation)
            .where(presentation.c.id.in_(ids))
            .values(leased_until=turn.now + turn.plan.lease)
        )
    return numbers


def _unavailable(turn: _Turn) -> set[str]:
    """Return the pairs with no slot for this rater: all are held, or it may not see the pair again."""
    full = (
        select(presentation.c.pair_id)
        .where(turn.held, presentation.c.slot < turn.plan.slots)
        .group_by(presentation.c.pair_id)
        .having(func.count() >= turn.plan.slots)
    )
    if not turn.sees_once:
        return set(turn.connection.execute(full).scalars())
    seen = select(presentation.c.pair_id).where(presentation.c.rater_id == turn.rater.id)
    return set(turn.connection.execute(union(full, seen)).scalars())


def _remaining(turn: _Turn) -> list[str]:
    """Return the pairs of which this rater may have another showing, if a slot is free, in its order."""
    most = 1 if turn.sees_once else turn.plan.slots
    seen = (
        select(presentation.c.pair_id)
        .where(presentation.c.rater_id == turn.rater.id)
        .group_by(presentation.c.pair_id)
        .having(func.count() >= most)
    )
    done = set(turn.connection.execute(seen).scalars())
    return [pair_id for pair_id in turn.orders.of(turn.plan.seed, turn.rater.name) if pair_id not in done]


def _take(turn: _Turn, limit: int) -> list[int]:
    rows: list[dict[str, object]] = []
    remaining = _remaining(turn)
    start, size = 0, _FIRST_LOOK
    while start < len(remaining) and len(rows) < limit:
        pair_ids = remaining[start : start + size]
        rows += _fill(turn, pair_ids, limit - len(rows))
        # pairs that others have filled are passed in ever longer steps
        start, size = start + size, min(4 * size, _BATCH)
    if not rows:
        return []
    statement = insert(presentation).returning(presentation.c.id, sort_by_parameter_order=True)
    return list(turn.connection.execute(statement, rows).scalars())


def _fill(turn: _Turn, pair_ids: Sequence[str], limit: int) -> list[dict[str, object]]:
    """Return rows for the lowest free slots of the pairs, one of each pair unless the rater is a model."""
    rows: list[dict[str, object]] = []
    holders = _holders(turn, pair_ids)
    for pair_id in pair_ids:
        for slot, holder in _free_slots(turn, pair_id, holders):
            if len(rows) == limit:
                return rows
            if holder is None or _supersede(turn, holder):
                rows.append(_row(turn, pair_id, slot, attempt=0 if holder is None else holder.attempt + 1))
                if turn.sees_once:
                    break
    return rows


def _holders(turn: _Turn, pair_ids: Sequence[str]) -> _Holders:
    columns = (presentation.c.id, presentation.c.pair_id, presentation.c.slot, presentation.c.attempt)
    statement = select(*columns, turn.held.label("held")).where(
        presentation.c.pool == turn.pool,
        presentation.c.pair_id.in_(pair_ids),
        presentation.c.superseded == false(),
    )
    return {(row.pair_id, row.slot): row for row in turn.connection.execute(statement)}


def _free_slots(
    turn: _Turn, pair_id: str, holders: _Holders
) -> Iterator[tuple[int, Row[tuple[object, ...]] | None]]:
    for slot in range(turn.plan.slots):
        holder = holders.get((pair_id, slot))
        if holder is None or not holder.held:
            yield slot, holder


def _supersede(turn: _Turn, holder: Row[tuple[object, ...]]) -> bool:
    """Take the slot from its holder, unless that has been rated this moment."""
    unrated = (presentation.c.id == holder.id, presentation.c.rated_at.is_(None))
    done = turn.connection.execute(update(presentation).where(*unrated).values(superseded=true()))
    return done.rowcount == 1


def _row(turn: _Turn, pair_id: str, slot: int, *, attempt: int) -> dict[str, object]:
    return {
        "pair_id": pair_id,
        "rater_id": turn.rater.id,
        "pool": turn.pool,
        "slot": slot,
        "attempt": attempt,
        "first": turn.orders.first(pair_id, slot),
        "handed_out": turn.now,
        "leased_until": turn.now + turn.plan.lease,
        "superseded": False,
    }


def _blind(connection: Connection, numbers: Sequence[int]) -> list[BlindPair]:
    found: dict[int, BlindPair] = {}
    for ids in _batches(numbers):
        statement = select(
            presentation.c.id, presentation.c.first, pair.c.prompt, pair.c.text_a, pair.c.text_b
        )
        for row in connection.execute(statement.join(pair).where(presentation.c.id.in_(ids))):
            left, right = (row.text_a, row.text_b) if row.first == "a" else (row.text_b, row.text_a)
            found[row.id] = BlindPair(presentation=row.id, prompt=row.prompt, text_a=left, text_b=right)
    return [found[number] for number in numbers]


def _batches(items: Sequence[_Item]) -> Iterable[Sequence[_Item]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))
