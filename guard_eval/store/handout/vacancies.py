"""Where a rater's next slots may be: on the ring of pairs, where a lease is over, in its roster.

No statement reads many more rows than it returns, but for what the rater itself has seen: this keeps handing
out a pair as fast in a study of a million as in one of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    String,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
)

from guard_eval.store.handout.occupancy import HOLDS_SLOT, IS_OUT, RING, place
from guard_eval.store.handout.orders import Place, shuffled
from guard_eval.store.handout.slots import Turn
from guard_eval.store.schema import Moment, assignment, occupancy, presentation, rater

WINDOW = 16
"""How many pairs with a free slot are looked up together; a rater's order is an order of these."""

MOST_COUNTED = 10_000
"""Up to how many what a rater without a quota can still get is counted."""

_EVER = datetime(1, 1, 1, tzinfo=UTC)

_PLACE = (
    occupancy.c.pair_id,
    occupancy.c.position,
    occupancy.c.dataset,
    occupancy.c.method_a,
    occupancy.c.method_b,
)

# a sum is in no index: these statements go from what is few, a rater's showings or leases, to the pairs
_held = occupancy.c.held + 0

_seen = presentation.alias("seen")
# the index of what a rater has seen is of these pools, which SQLite knows only if they are written out
_ONCE = literal_column("seen.pool", String).in_([literal_column("'people'"), literal_column("'simulated'")])


def _unseen(pair_id: ColumnElement[str]) -> ColumnElement[bool]:
    mine = (_seen.c.rater_id == bindparam("param_rater"), _seen.c.pair_id == pair_id, _ONCE)
    return ~exists().where(*mine).correlate(occupancy, presentation, assignment)


_LEFT = (
    presentation.c.pool == bindparam("param_pool"),
    HOLDS_SLOT,
    presentation.c.rated_at.is_(None),
    presentation.c.leased_until <= bindparam("param_now"),
    presentation.c.slot < bindparam("param_slots"),
    _unseen(presentation.c.pair_id),
)
# a slot kept for somebody else is free for nobody, whoever held it
_NOT_KEPT = ~exists().where(
    assignment.c.pair_id == presentation.c.pair_id,
    assignment.c.slot == presentation.c.slot,
    assignment.c.rater_id != bindparam("param_rater"),
    rater.c.id == assignment.c.rater_id,
    ~IS_OUT,
).correlate(presentation)
_SAME_PAIR = and_(occupancy.c.pool == presentation.c.pool, occupancy.c.pair_id == presentation.c.pair_id)


def kept(turn: Turn) -> Iterator[dict[str, Place]]:
    """Yield the pairs that a roster keeps for the rater and that it has not seen, in the rater's order."""
    found = {row.pair_id: _place(row) for row in turn.connection.execute(_KEPT, _parameters(turn))}
    yield _in_order(turn, found)


_KEPT = (
    select(*_PLACE)
    .join(assignment, assignment.c.pair_id == occupancy.c.pair_id)
    .where(
        assignment.c.rater_id == bindparam("param_rater"),
        assignment.c.slot < bindparam("param_slots"),
        occupancy.c.pool == bindparam("param_pool"),
        _unseen(occupancy.c.pair_id),
    )
)


def free(turn: Turn, shown: int) -> Iterator[dict[str, Place]]:
    """Yield pairs with a free slot that the rater has not seen, some at a time, each part in its order.

    Where all fit into one part, that is the order of all; otherwise rater and seed decide for each of its
    showings where on the ring the look begins. Of leases that are over the oldest come first.
    """
    statement = _NEXT[turn.has_roster]
    start = place(turn.plan.seed, turn.rater.name, shown)
    reached = {"param_from": start, "param_again": 0, "param_start": start}
    since, after = _EVER, 0
    while True:
        parameters = {
            **_parameters(turn),
            **reached,
            "param_since": since,
            "param_after": after,
            "param_limit": WINDOW,
        }
        rows = turn.connection.execute(statement, parameters).all()
        left = sorted((row for row in rows if row.part == 0), key=lambda row: (row.leased_until, row.id))
        ring = sorted((row for row in rows if row.part), key=lambda row: (row.part, row.ring))[:WINDOW]
        yield _in_order(turn, {row.pair_id: _place(row) for row in (*ring, *left)})
        if max(len(left), len(ring)) < WINDOW:
            return
        if left:
            since, after = left[-1].leased_until, left[-1].id
        if ring:
            _advance(reached, ring[-1])


def _advance(reached: dict[str, int], last: Row[*tuple[Any, ...]]) -> None:
    """Go on behind the last row; other pairs may lie at its place, so that one is looked at again."""
    if last.part == 1:
        reached["param_from"] = last.ring + (last.ring == reached["param_from"])
    else:
        reached["param_from"] = RING
        reached["param_again"] = last.ring + (last.ring == reached["param_again"])


def _next(*, roster: bool) -> Select[tuple[object, ...]]:
    """Return the statement for the next of the leases that are over, and of the vacant pairs on the ring.

    The ring has two parts, from where the look began to its end, and from its beginning to there.
    """
    since = presentation.c.leased_until >= bindparam("param_since")
    later = presentation.c.leased_until > bindparam("param_since")
    left = (
        select(
            literal_column("0").label("part"),
            *_PLACE,
            occupancy.c.ring,
            presentation.c.leased_until,
            presentation.c.id,
        )
        .join(presentation, _SAME_PAIR)
        .where(*_LEFT, since, or_(later, presentation.c.id > bindparam("param_after")))
        .where(*([_NOT_KEPT] if roster else []))
        .order_by(presentation.c.leased_until, presentation.c.id)
        .limit(bindparam("param_limit"))
    )
    ring = [
        select(
            literal_column(str(part)).label("part"),
            *_PLACE,
            occupancy.c.ring,
            null().cast(Moment).label("leased_until"),
            literal_column("0").label("id"),
        )
        .where(
            occupancy.c.pool == bindparam("param_pool"),
            occupancy.c.vacant == true(),
            occupancy.c.ring >= bindparam(begin),
            occupancy.c.ring < end,
            _unseen(occupancy.c.pair_id),
        )
        .order_by(occupancy.c.ring)
        .limit(bindparam("param_limit"))
        for part, begin, end in ((1, "param_from", RING), (2, "param_again", bindparam("param_start")))
    ]
    return select(union_all(*(select(each.subquery()) for each in (left, *ring))).subquery("found"))


_NEXT = {roster: _next(roster=roster) for roster in (False, True)}


def count(turn: Turn, most: int) -> int:
    """Return how many pairs the rater can still be shown, `most` where there are more.

    Its open ones do not count.
    """
    parameters = {**_parameters(turn), "param_limit": most}
    seen: int = turn.connection.execute(_SEEN_VACANT, parameters).scalar_one()
    found: int = turn.connection.execute(_VACANT, {**parameters, "param_limit": most + seen}).scalar_one()
    total = found - seen
    if total < most:
        left = _LEFT_FULL.where(_NOT_KEPT) if turn.has_roster else _LEFT_FULL
        total += turn.connection.execute(
            select(func.count()).select_from(left.subquery()), parameters
        ).scalar_one()
    if total < most and turn.has_roster:
        total += turn.connection.execute(_KEPT_FULL, parameters).scalar_one()
    return min(total, most)


_VACANT = select(func.count()).select_from(
    select(occupancy.c.ring)
    .where(
        occupancy.c.pool == bindparam("param_pool"),
        occupancy.c.vacant == true(),
    )
    .limit(bindparam("param_limit"))
    .subquery()
)

_SEEN_VACANT = (
    select(func.count())
    .select_from(presentation)
    .join(occupancy, _SAME_PAIR)
    .where(
        presentation.c.rater_id == bindparam("param_rater"),
        presentation.c.pool == bindparam("param_pool"),
        _held < bindparam("param_slots"),
    )
)

_LEFT_FULL = (
    select(presentation.c.pair_id)
    .distinct()
    .join(occupancy, _SAME_PAIR)
    .where(*_LEFT, _held >= bindparam("param_slots"))
    .limit(bindparam("param_limit"))
)

_KEPT_FULL = (
    select(func.count())
    .select_from(assignment)
    .join(occupancy, occupancy.c.pair_id == assignment.c.pair_id)
    .where(
        assignment.c.rater_id == bindparam("param_rater"),
        assignment.c.slot < bindparam("param_slots"),
        occupancy.c.pool == bindparam("param_pool"),
        _held >= bindparam("param_slots"),
        _unseen(assignment.c.pair_id),
        ~exists()
        .where(
            presentation.c.pool == bindparam("param_pool"),
            presentation.c.pair_id == assignment.c.pair_id,
            presentation.c.slot == assignment.c.slot,
            HOLDS_SLOT,
        )
        .correlate(assignment),
    )
)


def _parameters(turn: Turn) -> dict[str, object]:
    return {**turn.parameters, "param_slots": turn.plan.slots}


def _place(row: Row[*tuple[Any, ...]]) -> Place:
    return Place(row.position, row.dataset, row.method_a, row.method_b)


def _in_order(turn: Turn, places: dict[str, Place]) -> dict[str, Place]:
    order = shuffled(places, turn.plan.seed, turn.rater.name)
    return {pair_id: places[pair_id] for pair_id in order}
