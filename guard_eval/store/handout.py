"""Which pair a rater is shown next: its open ones, a check that is due, or one of the study's free slots."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlalchemy import Connection, bindparam, false, func, insert, select, update

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Rater, Role, content_id
from guard_eval.store import mixture, occupancy, showing, slots, vacancies
from guard_eval.store.offers import Offers
from guard_eval.store.orders import First, Orders
from guard_eval.store.past import Past, rated
from guard_eval.store.raters import pool_of, standing
from guard_eval.store.schema import presentation
from guard_eval.store.showing import batches
from guard_eval.store.slots import Free, Turn
from guard_eval.store.values import Plan

_Row = dict[str, object]

_MINE_OPEN = (
    select(presentation.c.id)
    .where(
        presentation.c.rater_id == bindparam("asked_rater"),
        presentation.c.rated_at.is_(None),
        presentation.c.superseded == false(),
    )
    .order_by(presentation.c.id)
)
_MINE_OPEN_LOCKED = _MINE_OPEN.with_for_update()


def hand_out(
    connection: Connection, orders: Orders, rater: Rater, plan: Plan, *, now: datetime, limit: int
) -> list[BlindPair]:
    """Return up to `limit` pairs: first the rater's own unrated ones, with a new lease, then others.

    Must run alone in the rater's pool. A rater that is revoked or excluded gets none.

    Raises:
        StudyError: The plan makes no sense, or the database does not know the rater.
    """
    check(plan)
    sees_once(rater)
    if limit < 1 or any(standing(connection, rater)):
        return []
    known = occupancy.known(connection, pool_of(rater), latest=now + plan.lease)
    if not known.fits(plan.slots):
        make_ready(connection, rater, plan)
        known = occupancy.known(connection, pool_of(rater), latest=now + plan.lease)
    turn = Turn(connection, orders, rater, plan, now, known)
    orders.refresh_gold(connection, known.gold)
    numbers = _renew(turn, limit)
    if len(numbers) < limit:
        if known.late:
            slots.shorten_leases(turn)
        numbers += _insert(turn, list(_next(turn, limit - len(numbers))))
    return showing.blind(connection, numbers)


def progress(
    connection: Connection, orders: Orders, rater: Rater, plan: Plan, *, now: datetime
) -> tuple[int, int]:
    """Return how many presentations the rater has rated, and how many it can still get or has open.

    The pool must be ready (`is_ready`). What it can still get is counted up to `vacancies.MOST_COUNTED` where
    there is no quota.

    Raises:
        StudyError: The database does not know the rater.
    """
    mine = presentation.c.rater_id == rater.id
    done = connection.execute(select(func.count(presentation.c.rated_at)).where(mine)).scalar_one()
    if any(standing(connection, rater)):
        return done, 0
    known = occupancy.known(connection, pool_of(rater))
    turn = Turn(connection, orders, rater, plan, now, known)
    orders.refresh_gold(connection, known.gold)
    opened = len(connection.execute(_MINE_OPEN, {"asked_rater": rater.id}).all())
    return done, opened + _left(turn)


def is_ready(connection: Connection, rater: Rater, plan: Plan) -> bool:
    """Return whether it is marked which pairs are vacant in the rater's pool by this plan."""
    check(plan)
    sees_once(rater)
    return occupancy.known(connection, pool_of(rater)).fits(plan.slots)


def make_ready(connection: Connection, rater: Rater, plan: Plan) -> None:
    """Mark it: for a pool's first hand-out, and where the plan has changed.

    Must run alone in the rater's pool.
    """
    occupancy.complete(connection, pool_of(rater))
    occupancy.mark(connection, pool_of(rater), plan.slots)


def sees_once(rater: Rater) -> None:
    """See that the rater is one that sees a pair once: people and simulations do, models claim their slots.

    Raises:
        ValueError: It is a model.
    """
    if rater.kind == "model":
        raise ValueError(f"the model {rater.name!r} is handed nothing; its run claims pairs: Store.claim")


def check(plan: Plan) -> None:
    """See that a plan shows something.

    Raises:
        StudyError: One of its numbers is too small.
    """
    for what, number, least in (
        ("slots per pair", plan.slots, 1),
        ("pairs per rater (quota)", plan.quota, 1),
        ("pairs to one gold pair (gold_every)", plan.gold_every, 1),
        ("repeats", plan.repeats, 0),
    ):
        if number is not None and number < least:
            raise StudyError(f"the plan has {number} {what}; it needs at least {least}")


def _renew(turn: Turn, limit: int) -> list[int]:
    # locked, so that a verdict coming this moment is waited for and seen
    numbers = list(turn.connection.execute(_MINE_OPEN_LOCKED, {"asked_rater": turn.rater.id}).scalars())[
        :limit
    ]
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
    filled = [str(row["pair_id"]) for row in rows if row.pop("fills")]
    occupancy.take(turn.connection, turn.pool, filled, turn.plan.slots)
    statement = insert(presentation).returning(presentation.c.id, sort_by_parameter_order=True)
    return list(turn.connection.execute(statement, rows).scalars())


def _next(turn: Turn, limit: int) -> Iterator[_Row]:
    """Yield what the rater is shown next."""
    past = Past.of(turn)
    offers = Offers(turn, past)
    for _ in range(limit):
        row = _due(turn, past)
        if row is None and (turn.plan.quota is None or past.shown < turn.plan.quota):
            taken = offers.take()
            row = None if taken is None else _row(turn, *taken)
        # when the study has nothing more for the rater, what is left of the repeats comes at the end
        row = row or _repeat(turn, past)
        if row is None:
            return
        yield row


def _due(turn: Turn, past: Past) -> _Row | None:
    """Return the check whose place has come, if there is one."""
    plan, name = turn.plan, turn.rater.name
    if plan.gold_every is not None:
        waiting = [pair_id for pair_id in turn.orders.gold(plan.seed, name) if pair_id not in past.gold]
        if waiting and mixture.gold_place(plan, name, len(past.gold)) <= past.shown:
            # the side is drawn, so that a rater with a favourite side fails half of them
            side: First = "a" if int(content_id(plan.seed, "gold side", name, waiting[0]), 16) % 2 else "b"
            past.gold.add(waiting[0])
            return _row(turn, waiting[0], Free(0, side, None, 0), role="gold")
    number = len(past.repeated)
    if number < plan.repeats:
        place = mixture.repeat_place(plan, name, number, pairs=turn.known.pairs or 0)
        if place <= past.shown:
            return _repeat(turn, past)
    return None


def _repeat(turn: Turn, past: Past) -> _Row | None:
    """Return one of the older half of the pairs the rater has rated, with its sides swapped."""
    if len(past.repeated) >= turn.plan.repeats:
        return None
    mine = rated(turn)
    waiting = {pair_id: first for pair_id, first in mine[: len(mine) // 2] if pair_id not in past.repeated}
    if not waiting:
        return None
    key = (turn.plan.seed, "repeat", turn.rater.name)
    chosen = min(waiting, key=lambda pair_id: content_id(*key, pair_id))
    side: First = "b" if waiting[chosen] == "a" else "a"
    past.repeated.add(chosen)
    return _row(turn, chosen, Free(0, side, None, 0), role="repeat")


def _left(turn: Turn) -> int:
    """Return how many showings are to come for a rater, beside its open ones."""
    plan, past = turn.plan, Past.of(turn)
    most = vacancies.MOST_COUNTED if plan.quota is None else max(0, plan.quota - past.shown)
    study = vacancies.count(turn, most) if most else 0
    total = past.shown + study
    gold = len(turn.orders.gold(plan.seed, turn.rater.name))
    checks = (
        mixture.gold_until(plan, turn.rater.name, total, pairs=gold) - len(past.gold),
        mixture.most_repeats(plan, total) - len(past.repeated),
    )
    return study + sum(max(0, number) for number in checks)


def _row(turn: Turn, pair_id: str, slot: Free, *, role: Role = "study") -> _Row:
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
        # whether one slot more of the pair is held from now on
        "fills": role == "study" and slot.left_by is None and not slot.kept,
    }
