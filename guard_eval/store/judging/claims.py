"""Which pairs a run of a judge takes: those that an ended run left, then those that were never shown.

A model sees every slot of a pair: slot 2k + i is its k-th sample in the i-th order. Claims belong to the run,
so that two processes may let the same model rate at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple

from sqlalchemy import Connection, and_, bindparam, exists, false, func, insert, or_, select, update

from guard_eval.records import BlindPair, Plan, Rater, content_id
from guard_eval.store import verdicts
from guard_eval.store.judging import runs
from guard_eval.store.judging.schema import request
from guard_eval.store.judging.values import JudgeProgress, JudgeRun, Showing
from guard_eval.store.raters import pool_of, standing
from guard_eval.store.schema import batches, gold, pair, presentation

_PART = 500
"""How many pairs are looked at with one statement."""

_HOLDS = and_(presentation.c.superseded == false(), presentation.c.withdrawn == false())

_IN_BATCH = exists(
    select(request.c.key).where(
        request.c.presentation_id == presentation.c.id,
        request.c.state == "open",
        request.c.batch_id.is_not(None),
    )
)

_LEFT = (
    select(presentation.c.id, presentation.c.pair_id, presentation.c.slot)
    .where(
        presentation.c.rater_id == bindparam("asked_rater"),
        presentation.c.rated_at.is_(None),
        _HOLDS,
        or_(
            presentation.c.run_id.is_(None), presentation.c.run_id.not_in(bindparam("going", expanding=True))
        ),
        ~_IN_BATCH,
    )
    .order_by(presentation.c.id)
)

_SHOWN = select(
    presentation.c.pair_id, presentation.c.slot, presentation.c.attempt, _HOLDS.label("holds")
).where(
    presentation.c.pool == bindparam("asked_pool"),
    presentation.c.pair_id.in_(bindparam("asked_pairs", expanding=True)),
)

_RATED = select(presentation.c.pair_id, presentation.c.slot).where(
    presentation.c.pool == bindparam("asked_pool"),
    presentation.c.rated_at.is_not(None),
    presentation.c.superseded == false(),
)

_ELSEWHERE = select(func.count()).where(
    presentation.c.rater_id == bindparam("asked_rater"),
    presentation.c.rated_at.is_(None),
    _HOLDS,
)


_COUNT = select(func.count()).select_from(pair)


class Orders:
    """The pairs in the order a judge sees them, remembered as hashing takes time.

    Attributes:
        positions: Of each of the study's pairs; `refresh` reads them.
    """

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self._known = 0
        self._order: dict[tuple[int, str], list[str]] = {}

    def refresh(self, connection: Connection) -> None:
        """Notice what was added; pairs are never changed or removed, so their number is enough."""
        known = connection.execute(_COUNT).scalar_one()
        if known == self._known:
            return
        study = select(pair.c.id, pair.c.position).where(pair.c.id.not_in(select(gold.c.pair_id)))
        self.positions = {row.id: row.position for row in connection.execute(study)}
        self._order = {}
        self._known = known

    def of(self, seed: int, rater: str) -> list[str]:
        """Return the pairs' ids, shuffled for one rater by the study's seed."""
        if (seed, rater) not in self._order:
            self._order[seed, rater] = sorted(
                self.positions, key=lambda pair_id: content_id(seed, rater, pair_id)
            )
        return self._order[seed, rater]

    def first(self, pair_id: str, slot: int) -> Literal["a", "b"]:
        """Return which text of a pair a judge sees as A: its slots alternate, and so do pairs of a slot."""
        return "b" if (slot + self.positions[pair_id]) % 2 else "a"


class ClaimRequest(NamedTuple):
    """What one call of `claim` works with."""

    connection: Connection
    orders: Orders
    run: JudgeRun
    plan: Plan
    now: datetime


class Claims:
    """What is remembered between claims: how far each run has gone through the pairs."""

    def __init__(self) -> None:
        self._reached: dict[int, tuple[list[str], int]] = {}

    def claim(
        self, connection: Connection, orders: Orders, this: JudgeRun, plan: Plan, *, now: datetime, limit: int
    ) -> list[Showing]:
        """Return up to `limit` showings for `this` run; see `Judging.claim`.

        Must run alone in the rater's pool.
        """
        if limit < 1 or any(standing(connection, this.rater)):
            return []
        runs.renew(connection, this, now)
        orders.refresh(connection)
        claim = ClaimRequest(connection, orders, this, plan, now)
        taken = _take_left(claim, limit)
        if len(taken) < limit:
            taken |= self._take_new(claim, limit - len(taken))
        return _showings(connection, taken)

    def _take_new(self, claim: ClaimRequest, limit: int) -> dict[int, int]:
        """Take what was never shown; return the slot of each new presentation."""
        pair_ids = claim.orders.of(claim.plan.seed, claim.run.rater.name)
        known, start = self._reached.get(claim.run.id, (pair_ids, 0))
        if known is not pair_ids:  # pairs were added
            start = 0
        rows: list[dict[str, object]] = []
        while start < len(pair_ids) and len(rows) < limit:
            part = pair_ids[start : start + min(limit, _PART)]
            rows += islice(_free(claim, part), limit - len(rows))
            if len(rows) < limit:  # otherwise the last pairs may have slots left
                start += len(part)
        self._reached[claim.run.id] = (pair_ids, start)
        if not rows:
            return {}
        statement = insert(presentation).returning(
            presentation.c.id, presentation.c.slot, sort_by_parameter_order=True
        )
        return {row.id: row.slot for row in claim.connection.execute(statement, rows)}


def elsewhere(connection: Connection, this: JudgeRun, now: datetime) -> tuple[int, bool]:
    """Return how many unrated showings other runs hold, and whether one of them is known to be going."""
    others = runs.live(connection, this.rater, now)
    others.pop(this.id, None)
    held = _ELSEWHERE.where(presentation.c.run_id.in_(list(others)))
    count = connection.execute(held, {"asked_rater": this.rater.id}).scalar_one()
    return count, any(others.values())


def progress(connection: Connection, orders: Orders, rater: Rater, plan: Plan) -> JudgeProgress:
    """Return how far a model is, over all runs and for all that `plan` shows it."""
    orders.refresh(connection)
    asked = {"asked_pool": pool_of(rater)}
    rated = sum(_wanted(orders, plan, row.pair_id, row.slot) for row in connection.execute(_RATED, asked))
    total = sum(len(slots(orders, plan, pair_id)) for pair_id in orders.positions)
    batched = _ELSEWHERE.where(_IN_BATCH)
    in_batch = connection.execute(batched, {"asked_rater": rater.id}).scalar_one()
    return JudgeProgress(rated=rated, left=total - rated, in_batch=in_batch)


def waiting(connection: Connection, orders: Orders, name: str, plan: Plan) -> list[Showing]:
    """Return every showing of `plan` that the model of that name has not rated, in the order to come."""
    orders.refresh(connection)
    asked = {"asked_pool": pool_of(Rater(id=0, name=name, kind="model"))}
    done = {(row.pair_id, row.slot) for row in connection.execute(_RATED, asked)}
    texts = {row.id: row for row in connection.execute(select(pair))}
    shown = []
    for pair_id in orders.of(plan.seed, name):
        row = texts[pair_id]
        for slot in slots(orders, plan, pair_id):
            if (pair_id, slot) not in done:
                sides = (row.text_a, row.text_b)
                a, b = sides if orders.first(pair_id, slot) == "a" else sides[::-1]
                blind = BlindPair.of(0, row.prompt, a, b)
                shown.append(Showing(blind=blind, sample=slot // 2))
    return shown


def shown(connection: Connection, numbers: Sequence[int]) -> list[Showing]:
    """Return what a model was shown under these numbers, in their order."""
    found: dict[int, int] = {}
    for part in batches(numbers):
        statement = select(presentation.c.id, presentation.c.slot).where(presentation.c.id.in_(part))
        found.update((row.id, row.slot) for row in connection.execute(statement))
    shown = dict(zip(found, _showings(connection, found), strict=True))
    return [shown[number] for number in numbers]


def slots(orders: Orders, plan: Plan, pair_id: str) -> range:
    """Return the slots of a pair that a model is shown: all, or of one order every other one.

    Which order is drawn by the seed for every two neighbouring pairs, the second of which has the other: so
    either method stands first equally often, whatever the draw.
    """
    if not plan.one_order:
        return range(plan.slots)
    block = orders.positions[pair_id] // 2
    return range(int(content_id(plan.seed, "order", block), 16) % 2, plan.slots, 2)


def _wanted(orders: Orders, plan: Plan, pair_id: str, slot: int) -> bool:
    return pair_id in orders.positions and slot in slots(orders, plan, pair_id)


def _take_left(claim: ClaimRequest, limit: int) -> dict[int, int]:
    """Take what an ended run left; what it found unjudgeable is tried once more by this one."""
    connection, orders, this, plan, now = claim
    going = [*runs.live(connection, this.rater, now), this.id]
    left = connection.execute(_LEFT, {"asked_rater": this.rater.id, "going": going})
    taken = {row.id: row.slot for row in left if _wanted(orders, plan, row.pair_id, row.slot)}
    taken = dict(islice(taken.items(), limit))
    for part in batches(list(taken)):
        mine = update(presentation).where(presentation.c.id.in_(part))
        connection.execute(mine.values(run_id=this.id, leased_until=now + this.lease))
    return taken


def _free(claim: ClaimRequest, pair_ids: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield a row of `presentation` for each slot of these pairs that nobody holds."""
    connection, orders, this, plan, now = claim
    attempts: dict[tuple[str, int], int] = {}  # how often each was given before
    held: set[tuple[str, int]] = set()
    asked = {"asked_pool": pool_of(this.rater), "asked_pairs": list(pair_ids)}
    for row in connection.execute(_SHOWN, asked):
        place = row.pair_id, row.slot
        attempts[place] = max(attempts.get(place, 0), row.attempt + 1)
        if row.holds:
            held.add(place)
    for place in ((pair_id, slot) for pair_id in pair_ids for slot in slots(orders, plan, pair_id)):
        if place not in held:
            yield {
                "pair_id": place[0],
                "rater_id": this.rater.id,
                "pool": pool_of(this.rater),
                "slot": place[1],
                "attempt": attempts.get(place, 0),
                "first": orders.first(*place),
                "handed_out": now,
                "leased_until": now + this.lease,
                "superseded": False,
                "withdrawn": False,
                "role": "study",
                "run_id": this.id,
            }


def _showings(connection: Connection, taken: Mapping[int, int]) -> list[Showing]:
    """Return the showings of presentations, given with their slots."""
    blinds = verdicts.blind(connection, list(taken))
    return [
        Showing(blind=blind, sample=slot // 2) for blind, slot in zip(blinds, taken.values(), strict=True)
    ]
