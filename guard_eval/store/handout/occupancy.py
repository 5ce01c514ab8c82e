"""How full each pair is, kept beside the presentations: a free slot is found without counting them all.

In every pool whose raters see a pair once (people, simulations) a pair for people has a row: what hand-out
needs of it but its texts, and `held`, how many of its slots have a holder or are kept for somebody. While
those are fewer than the study's plan asks for the pair is `vacant`. The pairs lie on a ring, each where the
hash of its id puts it. Hand-out starts somewhere on it and takes the next vacant pairs: a range of an index,
however large the study is and however full. A slot whose lease ran out is still held here; the index of
leases finds it.

All of it can be counted again from the presentations and the roster (`recount`). To count at each hand-out
instead takes 45 ms and more near the end of a large study (benchmarks/assignment_count.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Row,
    and_,
    bindparam,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    true,
    union,
    update,
)

from guard_eval.records import Pair, content_id
from guard_eval.store import schema
from guard_eval.store.schema import assignment, gold, occupancy, pair, presentation, rater
from guard_eval.store.schema import meta as meta_table

PEOPLE = "people"
"""The pool that all people share; the only one that has a roster."""

RING = 2**31 - 1
"""How many places the ring has: what a column of integers holds."""

_PART = 10_000
"""How many rows are made at once."""

HOLDS_SLOT = and_(presentation.c.superseded == false(), presentation.c.withdrawn == false())
"""True of a slot's holder, whether or not its lease is over."""

IS_OUT = or_(rater.c.revoked_at.is_not(None), rater.c.excluded_at.is_not(None))
"""True of raters for whom a roster keeps no slot any more."""


class PoolState(NamedTuple):
    """What is read before anything is handed out; nothing in it is counted over the pairs.

    Attributes:
        pairs: How many pairs the study has for people.
        ready: How many of them have their row in the pool.
        slots: For how many slots it is marked which pairs are vacant; None before the first hand-out.
        gold: How many expected answers the gold pairs have.
        roster: Whether slots are kept for anybody.
        late: Whether a lease in the pool ends later than one given now could.
    """

    pairs: int
    ready: int
    slots: int | None
    gold: int
    roster: bool
    late: bool

    def is_marked_for(self, slots: int) -> bool:
        """Return whether every pair has its row in the pool, marked for so many slots."""
        return self.pairs == self.ready and self.slots == slots


_VALUE = select(meta_table.c.value)
_POOL_STATE = select(
    _VALUE.where(meta_table.c.key == "pairs").scalar_subquery(),
    _VALUE.where(meta_table.c.key == bindparam("param_ready")).scalar_subquery(),
    _VALUE.where(meta_table.c.key == bindparam("param_slots")).scalar_subquery(),
    select(func.count()).select_from(gold).scalar_subquery(),
    exists(select(assignment.c.slot)),
    exists().where(
        presentation.c.pool == bindparam("param_pool"),
        HOLDS_SLOT,
        presentation.c.rated_at.is_(None),
        presentation.c.leased_until > bindparam("param_latest"),
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
_IN_POOL = update(occupancy).where(occupancy.c.pool == bindparam("param_pool"))
_RECOUNT = _IN_POOL.values(held=_HOLDERS + _KEPT)
_IS_VACANT = occupancy.c.held < bindparam("param_slots")
_MARK = _IN_POOL.where(occupancy.c.vacant != _IS_VACANT).values(vacant=_IS_VACANT)
_OF_RATER = occupancy.c.pair_id.in_(
    union(
        select(presentation.c.pair_id).where(presentation.c.rater_id == bindparam("param_rater")),
        select(assignment.c.pair_id).where(assignment.c.rater_id == bindparam("param_rater")),
    )
)
_TAKE = _IN_POOL.where(occupancy.c.pair_id == bindparam("param_pair")).values(
    held=occupancy.c.held + 1, vacant=occupancy.c.held + 1 < bindparam("param_slots")
)


def pool_state(connection: Connection, pool: str, *, latest: datetime | None = None) -> PoolState:
    """Return how things stand for a pool; a lease given now ends at `latest`."""
    keys = {"param_ready": f"pairs in {pool}", "param_slots": f"slots in {pool}"}
    row = connection.execute(_POOL_STATE, {**keys, "param_pool": pool, "param_latest": latest}).one()
    pairs, ready, slots = row[:3]
    return PoolState(
        int(pairs or 0),
        int(ready or 0),
        None if slots is None else int(slots),
        row[3],
        bool(row[4]),
        bool(row[5]),
    )


def complete(connection: Connection, pool: str) -> None:
    """Make the rows a pool of simulated raters lacks: all at its first hand-out, then those of new pairs.

    Must run alone in the pool.
    """
    state = pool_state(connection, pool)
    if state.pairs == state.ready:
        return
    after = ""
    while rows := connection.execute(_MISSING, {"param_pool": pool, "param_after": after}).all():
        connection.execute(insert(occupancy), [_row(pool, row.id, row) for row in rows])
        after = rows[-1].id
    schema.put(connection, f"pairs in {pool}", str(state.pairs))


def add(connection: Connection, new: Sequence[Pair]) -> None:
    """Make the rows of pairs just added, in the pool of people; a pair that is not for them gets none.

    Must run alone in it. Other pools make theirs at their next hand-out (`complete`).
    """
    rows = [_row(PEOPLE, pair.id, pair) for pair in new if pair.for_people]
    if not rows:
        return
    pairs = pool_state(connection, PEOPLE).pairs + len(rows)
    connection.execute(insert(occupancy), rows)
    for key in ("pairs", f"pairs in {PEOPLE}"):
        schema.put(connection, key, str(pairs))


def place(*key: object) -> int:
    """Return the place on the ring that a hash of `key` gives."""
    return int(content_id("ring", *key)[:8], 16) % RING


def mark(connection: Connection, pool: str, slots: int) -> None:
    """Mark which pairs are vacant where a pair is to have so many slots.

    Must run alone in the pool.
    """
    connection.execute(_MARK, {"param_pool": pool, "param_slots": slots})
    schema.put(connection, f"slots in {pool}", str(slots))


def take(connection: Connection, pool: str, pair_ids: Sequence[str], slots: int) -> None:
    """Count one slot more of each pair as held, of so many."""
    if pair_ids:
        parameters = {"param_pool": pool, "param_slots": slots}
        connection.execute(_TAKE, [{**parameters, "param_pair": pair_id} for pair_id in pair_ids])


def recount(connection: Connection, pool: str, *, rater_id: int | None = None) -> None:
    """Count again what is held, of all pairs or of those that one rater was shown or has slots kept of.

    Must run alone in the pool.
    """
    changed, marked = (
        statement if rater_id is None else statement.where(_OF_RATER) for statement in (_RECOUNT, _MARK)
    )
    parameters = {"param_pool": pool} if rater_id is None else {"param_pool": pool, "param_rater": rater_id}
    connection.execute(changed, parameters)
    slots = pool_state(connection, pool).slots
    if slots is not None:
        connection.execute(marked, {**parameters, "param_slots": slots})


def _row(pool: str, pair_id: str, stands: Pair | Row[*tuple[Any, ...]]) -> dict[str, object]:
    return {
        "pool": pool,
        "pair_id": pair_id,
        "ring": place(pair_id),
        "held": 0,
        "vacant": True,
        "position": stands.position,
        "dataset": stands.dataset,
        "method_a": stands.method_a,
        "method_b": stands.method_b,
    }
