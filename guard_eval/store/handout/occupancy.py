"""How full each pair is, stored beside the presentations: a free slot is found without counting them all.

In every pool whose raters see a pair once (people, simulations) a pair for people has a row: what hand-out
needs of it but its texts, and `held`, how many of its slots have a holder or are kept for a rater. While
those are fewer than the study's plan asks for the pair is `vacant`, unless `MOST_SKIPS` raters skipped it.
The pairs lie on a ring, each where the hash of its id puts it. Hand-out starts somewhere on it and takes the
next vacant pairs: a range of an index, however large the study is and however full. A slot whose lease ran
out is still held here; the index of leases finds it.

All of it can be counted again from the presentations and the roster (`recount`). To count at each hand-out
instead takes 45 ms and more near the end of a large study (benchmarks/store.py count).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy import (
    Connection,
    Integer,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    union,
    update,
)

from guard_eval.records import content_id
from guard_eval.store import schema
from guard_eval.store.schema import (
    HOLDS_SLOT,
    assignment,
    gold,
    meta,
    occupancy,
    pair,
    presentation,
    rater,
)

PEOPLE = "people"
"""The pool that all people share; the only one that has a roster."""

RING = 2**31 - 1
"""How many places the ring has: what a column of integers holds."""

MOST_SKIPS = 3
"""A pair that so many raters could not judge is given to no new rater."""

_PART = 10_000
"""How many rows are made at once."""

IS_OUT = or_(rater.c.revoked_at.is_not(None), rater.c.excluded_at.is_not(None))
"""True of raters for whom a roster keeps no slot any more."""


First = Literal["a", "b"]
"""Which of a pair's texts is shown as A."""


class PoolState(NamedTuple):
    """What is read before anything is handed out; nothing in it is counted over the pairs.

    Attributes:
        pairs: How many pairs the study has for people.
        ready: How many of them have their row in the pool.
        slots: For how many slots it is marked which pairs are vacant; 0 before the first hand-out.
        roster: Whether slots are kept for anybody.
        earliest_lease: When the first lease of an unrated pair ends, or ended; None where there is none.
        latest_lease: When the last one ends.
    """

    pairs: int
    ready: int
    slots: int
    roster: bool
    earliest_lease: datetime | None
    latest_lease: datetime | None

    def is_marked_for(self, slots: int) -> bool:
        """Return whether every pair has its row in the pool, marked for so many slots."""
        return self.pairs == self.ready and self.slots == slots


# built once: building a statement takes as long as running it
_VALUE = select(meta.c.value.cast(Integer))
_SLOTS = _VALUE.where(meta.c.key == bindparam("param_slots_key")).scalar_subquery()
_POOL_STATE = select(
    func.coalesce(_VALUE.where(meta.c.key == f"pairs in {PEOPLE}").scalar_subquery(), 0),
    func.coalesce(_VALUE.where(meta.c.key == bindparam("param_ready_key")).scalar_subquery(), 0),
    func.coalesce(_SLOTS, 0),
    exists(select(assignment.c.slot)),
    *(
        select(bound(presentation.c.leased_until))
        .where(presentation.c.pool == bindparam("param_pool"), HOLDS_SLOT, presentation.c.rated_at.is_(None))
        .scalar_subquery()
        for bound in (func.min, func.max)
    ),
)

_MISSING = (
    select(pair.c.id, pair.c.position, pair.c.dataset, pair.c.method_a, pair.c.method_b)
    .where(
        pair.c.id > bindparam("param_after"),
        pair.c.id.not_in(select(gold.c.pair_id)),
        pair.c.for_people == true(),
        ~exists().where(occupancy.c.pool == bindparam("param_pool"), occupancy.c.pair_id == pair.c.id),
    )
    .order_by(pair.c.id)
    .limit(_PART)
)

_HOLDERS = (
    select(func.count())
    .where(presentation.c.pool == occupancy.c.pool, presentation.c.pair_id == occupancy.c.pair_id, HOLDS_SLOT)
    .correlate(occupancy)
    .scalar_subquery()
)
_KEPT = (
    select(func.count())
    .select_from(assignment.join(rater))
    .where(
        occupancy.c.pool == PEOPLE,
        assignment.c.pair_id == occupancy.c.pair_id,
        ~IS_OUT,
        ~exists()
        .where(
            presentation.c.pool == PEOPLE,
            presentation.c.pair_id == assignment.c.pair_id,
            presentation.c.slot == assignment.c.slot,
            HOLDS_SLOT,
        )
        .correlate(assignment),
    )
    .correlate(occupancy)
    .scalar_subquery()
)
_SKIPPED = (
    select(presentation.c.pair_id)
    .join(rater)
    .where(
        presentation.c.pool == bindparam("param_pool"),
        presentation.c.skipped == true(),
        rater.c.excluded_at.is_(None),
    )
    .group_by(presentation.c.pair_id)
    .having(func.count() >= MOST_SKIPS)
)
_MAY_BE_GIVEN = occupancy.c.pair_id.not_in(_SKIPPED)
_IN_POOL = update(occupancy).where(occupancy.c.pool == bindparam("param_pool"))
_IS_VACANT = and_(occupancy.c.held < _SLOTS, _MAY_BE_GIVEN)
_MARK = _IN_POOL.where(occupancy.c.vacant != _IS_VACANT).values(vacant=_IS_VACANT)
# before the first hand-out there is no number of slots, and all pairs are marked then
_RECOUNT = _IN_POOL.values(
    held=_HOLDERS + _KEPT, vacant=and_(func.coalesce(_SLOTS, 1) > _HOLDERS + _KEPT, _MAY_BE_GIVEN)
)
_RECOUNT_ONE = _RECOUNT.where(occupancy.c.pair_id == bindparam("param_pair"))
_OF_RATER = union(
    *(
        select(table.c.pair_id).where(table.c.rater_id == bindparam("param_rater"))
        for table in (presentation, assignment)
    )
)


def pool_state(connection: Connection, pool: str) -> PoolState:
    """Return how things stand for a pool."""
    return PoolState(*connection.execute(_POOL_STATE, _parameters(pool)).one())


def complete(connection: Connection, pool: str) -> None:
    """Make the rows that a pool lacks: for people when pairs are added, for others at their next hand-out.

    Must run alone in the pool.
    """
    made, after = pool_state(connection, pool).ready, ""
    while rows := connection.execute(_MISSING, {"param_pool": pool, "param_after": after}).all():
        new = [
            {
                "pool": pool,
                "pair_id": row.id,
                "ring": place(row.id),
                "held": 0,
                "vacant": True,
                "position": row.position,
                "dataset": row.dataset,
                "method_a": row.method_a,
                "method_b": row.method_b,
            }
            for row in rows
        ]
        connection.execute(insert(occupancy), new)
        made, after = made + len(rows), rows[-1].id
    schema.put(connection, _ready_key(pool), str(made))


def forget(connection: Connection) -> None:
    """Forget how many rows the pools have: there are none any more."""
    connection.execute(delete(meta).where(meta.c.key.startswith(_ready_key(""))))


def place(*key: object) -> int:
    """Return the place on the ring that a hash of `key` gives."""
    return int(content_id("ring", *key)[:8], 16) % RING


def shuffled(pair_ids: Iterable[str], *key: object) -> list[str]:
    """Return the ids in the order of a hash of `key` and the id."""
    return sorted(pair_ids, key=lambda pair_id: content_id(*key, pair_id))


def mark(connection: Connection, pool: str, slots: int) -> None:
    """Mark which pairs are vacant where a pair is to have so many slots.

    Must run alone in the pool.
    """
    schema.put(connection, _slots_key(pool), str(slots))
    connection.execute(_MARK, _parameters(pool))


def make_ready(connection: Connection, pool: str, slots: int) -> PoolState:
    """Mark which pairs are vacant where that is not done, alone in the pool; return the pool's state."""
    state = pool_state(connection, pool)
    if state.is_marked_for(slots):
        return state
    if state.ready < state.pairs:
        complete(connection, pool)
    mark(connection, pool, slots)
    return pool_state(connection, pool)


def recount(connection: Connection, pool: str, pair_ids: Sequence[str] | None = None) -> None:
    """Count again what is held, of all pairs or of some, and mark which of them are vacant.

    Must run alone in the pool.
    """
    if pair_ids is None:
        connection.execute(_RECOUNT, _parameters(pool))
        return
    if pair_ids:
        same = _parameters(pool)
        connection.execute(_RECOUNT_ONE, [{**same, "param_pair": pair_id} for pair_id in pair_ids])


def recount_of(connection: Connection, pool: str, rater_id: int) -> None:
    """Count again the pairs that a rater was shown, or of which slots are kept for it."""
    recount(connection, pool, list(connection.execute(_OF_RATER, {"param_rater": rater_id}).scalars()))


def _parameters(pool: str) -> dict[str, object]:
    return {
        "param_pool": pool,
        "param_ready_key": _ready_key(pool),
        "param_slots_key": _slots_key(pool),
    }


def _ready_key(pool: str) -> str:
    return f"pairs in {pool}"


def _slots_key(pool: str) -> str:
    return f"slots in {pool}"
