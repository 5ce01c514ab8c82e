"""A judge's runs: processes that let a model rate, whose claims hold, and which pairs each takes.

A run is over when it says so, when its lease runs out, or when its process is known to have ended, which
can be known on the machine it ran on. So what was killed here can be continued at once, and what was killed
elsewhere after one lease.

A run takes the pairs that an ended run left, then those that were never shown. A model sees every slot of a
pair: slot 2k + i is its k-th sample in the i-th order. Claims belong to the run, so that two processes may
let the same model rate at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, bindparam, exists, false, func, insert, or_, select, update

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Plan, Rater, content_id
from guard_eval.store import verdicts
from guard_eval.store.judging.schema import request
from guard_eval.store.judging.values import JudgeProgress, JudgeRun, Showing
from guard_eval.store.raters import pool_of, standing
from guard_eval.store.schema import (
    DRAWING,
    HOLDS_SLOT,
    batches,
    gold,
    meta,
    pair,
    presentation,
    run,
    value_of,
)

_LIVE = select(run.c.id, run.c.host, run.c.process).where(
    run.c.rater_id == bindparam("asked_rater"),
    run.c.ended_at.is_(None),
    run.c.leased_until > bindparam("asked_now"),
)

_PART = 500
"""How many pairs are looked at with one statement."""

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
        HOLDS_SLOT,
        or_(
            presentation.c.run_id.is_(None), presentation.c.run_id.not_in(bindparam("going", expanding=True))
        ),
        ~_IN_BATCH,
    )
    .order_by(presentation.c.id)
)

_SHOWN = select(
    presentation.c.pair_id, presentation.c.slot, presentation.c.attempt, HOLDS_SLOT.label("holds")
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
    HOLDS_SLOT,
)


_KNOWN = select(
    func.count(), select(meta.c.value).where(meta.c.key == DRAWING).scalar_subquery()
).select_from(pair)


class Claims:
    """The pairs in the order each judge sees them, and how far its runs have come.

    Remembered between claims, as hashing takes time.
    """

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._known: tuple[int, str | None] = (0, None)
        self._orders: dict[tuple[int, str], list[str]] = {}
        self._reached: dict[int, tuple[list[str], int]] = {}

    def claim(
        self, connection: Connection, this: JudgeRun, plan: Plan, *, now: datetime, limit: int
    ) -> list[Showing]:
        """Return up to `limit` showings for `this` run (`Store.claim`).

        Must run alone in the rater's pool.
        """
        if limit < 1 or any(standing(connection, this.rater)):
            return []
        renew(connection, this, now)
        if self._refresh(connection) != this.drawing:
            raise StudyError(
                "the study's pairs were drawn again while this judge was running; run it again for the new "
                "pairs"
            )
        taken = self._take_left(connection, this, plan, now=now, limit=limit)
        if len(taken) < limit:
            taken |= self._take_new(connection, this, plan, now=now, limit=limit - len(taken))
        return _showings(connection, taken)

    def progress(self, connection: Connection, rater: Rater, plan: Plan) -> JudgeProgress:
        """Return how far a model is, over all runs and for all that `plan` shows it."""
        self._refresh(connection)
        rated = connection.execute(_RATED, {"asked_pool": pool_of(rater)})
        done = sum(self._is_wanted(plan, row.pair_id, row.slot) for row in rated)
        total = sum(len(self._slots(plan, pair_id)) for pair_id in self._positions)
        batched = _ELSEWHERE.where(_IN_BATCH)
        in_batch = connection.execute(batched, {"asked_rater": rater.id}).scalar_one()
        return JudgeProgress(rated=done, left=total - done, in_batch=in_batch)

    def waiting(self, connection: Connection, name: str, plan: Plan) -> list[Showing]:
        """Return every showing of `plan` that the model of that name has not rated, in the order to come."""
        self._refresh(connection)
        asked = {"asked_pool": pool_of(Rater(id=0, name=name, kind="model"))}
        done = {(row.pair_id, row.slot) for row in connection.execute(_RATED, asked)}
        texts = {row.id: row for row in connection.execute(select(pair))}
        shown = []
        for pair_id in self._order(plan, name):
            row = texts[pair_id]
            for slot in self._slots(plan, pair_id):
                if (pair_id, slot) not in done:
                    sides = (row.text_a, row.text_b)
                    a, b = sides if self._first(pair_id, slot) == "a" else sides[::-1]
                    shown.append(Showing(blind=BlindPair.of(0, row.prompt, a, b), sample=slot // 2))
        return shown

    def _refresh(self, connection: Connection) -> str | None:
        """Notice what was added or drawn again, and return which drawing it is; pairs are never changed."""
        count, drawing = connection.execute(_KNOWN).one()
        known: tuple[int, str | None] = count, drawing
        if known == self._known:
            return known[1]
        study = select(pair.c.id, pair.c.position).where(pair.c.id.not_in(select(gold.c.pair_id)))
        self._positions = {row.id: row.position for row in connection.execute(study)}
        self._orders = {}
        self._known = known
        return known[1]

    def _order(self, plan: Plan, rater: str) -> list[str]:
        """Return the pairs' ids, shuffled for one rater by the study's seed."""
        key = plan.seed, rater
        if key not in self._orders:
            self._orders[key] = sorted(self._positions, key=lambda pair_id: content_id(*key, pair_id))
        return self._orders[key]

    def _first(self, pair_id: str, slot: int) -> Literal["a", "b"]:
        """Return which text of a pair a judge sees as A: its slots alternate, and so do pairs of a slot."""
        return "b" if (slot + self._positions[pair_id]) % 2 else "a"

    def _slots(self, plan: Plan, pair_id: str) -> range:
        """Return the slots of a pair that a model is shown: all, or of one order every other one.

        Which order is drawn by the seed for every two neighbouring pairs, the second of which has the other:
        so either method is first equally often, whatever the draw.
        """
        if not plan.one_order:
            return range(plan.slots)
        block = self._positions[pair_id] // 2
        return range(int(content_id(plan.seed, "order", block), 16) % 2, plan.slots, 2)

    def _is_wanted(self, plan: Plan, pair_id: str, slot: int) -> bool:
        return pair_id in self._positions and slot in self._slots(plan, pair_id)

    def _take_left(
        self, connection: Connection, this: JudgeRun, plan: Plan, *, now: datetime, limit: int
    ) -> dict[int, int]:
        """Take what an ended run left; what it found unjudgeable is tried once more by this one."""
        going = [*live(connection, this.rater, now), this.id]
        left = connection.execute(_LEFT, {"asked_rater": this.rater.id, "going": going})
        found = {row.id: row.slot for row in left if self._is_wanted(plan, row.pair_id, row.slot)}
        taken = dict(islice(found.items(), limit))
        for part in batches(list(taken)):
            mine = update(presentation).where(presentation.c.id.in_(part))
            connection.execute(mine.values(run_id=this.id, leased_until=now + this.lease))
        return taken

    def _take_new(
        self, connection: Connection, this: JudgeRun, plan: Plan, *, now: datetime, limit: int
    ) -> dict[int, int]:
        """Take what was never shown; return the slot of each new presentation."""
        pair_ids = self._order(plan, this.rater.name)
        known, start = self._reached.get(this.id, (pair_ids, 0))
        if known is not pair_ids:  # pairs were added
            start = 0
        rows: list[dict[str, object]] = []
        while start < len(pair_ids) and len(rows) < limit:
            part = pair_ids[start : start + min(limit, _PART)]
            rows += islice(self._free(connection, this, plan, part, now=now), limit - len(rows))
            if len(rows) < limit:  # otherwise the last pairs may have slots left
                start += len(part)
        self._reached[this.id] = (pair_ids, start)
        if not rows:
            return {}
        statement = insert(presentation).returning(
            presentation.c.id, presentation.c.slot, sort_by_parameter_order=True
        )
        return {row.id: row.slot for row in connection.execute(statement, rows)}

    def _free(
        self, connection: Connection, this: JudgeRun, plan: Plan, pair_ids: Sequence[str], *, now: datetime
    ) -> Iterator[dict[str, object]]:
        """Yield a row of `presentation` for each free slot of these pairs."""
        attempts: dict[tuple[str, int], int] = {}  # how often each was given before
        held: set[tuple[str, int]] = set()
        asked = {"asked_pool": pool_of(this.rater), "asked_pairs": list(pair_ids)}
        for row in connection.execute(_SHOWN, asked):
            place = row.pair_id, row.slot
            attempts[place] = max(attempts.get(place, 0), row.attempt + 1)
            if row.holds:
                held.add(place)
        for place in ((pair_id, slot) for pair_id in pair_ids for slot in self._slots(plan, pair_id)):
            if place not in held:
                yield {
                    "pair_id": place[0],
                    "rater_id": this.rater.id,
                    "pool": pool_of(this.rater),
                    "slot": place[1],
                    "attempt": attempts.get(place, 0),
                    "first": self._first(*place),
                    "handed_out": now,
                    "leased_until": now + this.lease,
                    "superseded": False,
                    "withdrawn": False,
                    "role": "study",
                    "run_id": this.id,
                }


def begin(connection: Connection, rater: Rater, lease: timedelta, now: datetime) -> JudgeRun:
    """Note that a run begins; what ended runs had under way counts as lost from here on.

    Raises:
        StudyError: The rater is revoked, or the database does not know it.
    """
    if standing(connection, rater).revoked:
        raise StudyError(
            f"the rater {rater.name!r} is revoked; give the judge another name in study.toml to start "
            "from the beginning"
        )
    mark_lost(connection, rater, now)
    values = {
        "rater_id": rater.id,
        "host": _host(),
        "process": _process(os.getpid()),
        "started_at": now,
        "leased_until": now + lease,
    }
    number = connection.execute(insert(run).values(values).returning(run.c.id)).scalar_one()
    return JudgeRun(id=number, rater=rater, lease=lease, drawing=value_of(connection, DRAWING))


def renew(connection: Connection, this: JudgeRun, now: datetime) -> None:
    """Let the claims of `this` run hold for one more lease from now."""
    connection.execute(update(run).where(run.c.id == this.id).values(leased_until=now + this.lease))


def end(connection: Connection, this: JudgeRun, now: datetime) -> None:
    """Give up what `this` run has claimed and not rated; what it sent without an answer counts as lost."""
    connection.execute(update(run).where(run.c.id == this.id, run.c.ended_at.is_(None)).values(ended_at=now))
    mark_lost(connection, this.rater, now)


def live(connection: Connection, rater: Rater, now: datetime) -> dict[int, bool]:
    """Return the rater's runs that may still be going, and of each whether that is known."""
    found = {}
    for row in connection.execute(_LIVE, {"asked_rater": rater.id, "asked_now": now}):
        here = row.host == _host()
        if not here or is_running(row.process):
            found[row.id] = here
    return found


def mark_lost(connection: Connection, rater: Rater, now: datetime) -> None:
    """Note as lost what ended runs of the rater had under way; its money stays set aside."""
    going = list(live(connection, rater, now))
    under_way = (
        request.c.rater_id == rater.id,
        request.c.state == "open",
        request.c.batch_id.is_(None),
        or_(request.c.run_id.is_(None), request.c.run_id.not_in(going)),
    )
    connection.execute(update(request).where(*under_way).values(state="lost", settled_at=now))


def elsewhere(connection: Connection, this: JudgeRun, now: datetime) -> tuple[int, bool]:
    """Return how many unrated showings other runs hold, and whether one of them is known to be going."""
    others = live(connection, this.rater, now)
    others.pop(this.id, None)
    held = _ELSEWHERE.where(presentation.c.run_id.in_(list(others)))
    count = connection.execute(held, {"asked_rater": this.rater.id}).scalar_one()
    return count, any(others.values())


def shown(connection: Connection, numbers: Sequence[int]) -> list[Showing]:
    """Return what a model was shown under these numbers, in their order."""
    found: dict[int, int] = {}
    for part in batches(numbers):
        statement = select(presentation.c.id, presentation.c.slot).where(presentation.c.id.in_(part))
        found.update((row.id, row.slot) for row in connection.execute(statement))
    shown = dict(zip(found, _showings(connection, found), strict=True))
    return [shown[number] for number in numbers]


def _showings(connection: Connection, taken: Mapping[int, int]) -> list[Showing]:
    """Return the showings of presentations, given with their slots."""
    blinds = verdicts.blind(connection, list(taken))
    return [
        Showing(blind=blind, sample=slot // 2) for blind, slot in zip(blinds, taken.values(), strict=True)
    ]


def is_running(process: str) -> bool:
    """Return whether a process of this machine, as `_process` names it, is still running.

    >>> is_running(_process(os.getpid()))
    True
    """
    number, _, began = process.partition(":")
    if os.name != "posix":
        return True  # unknown here; its lease decides
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    now = _began(int(number))
    return now is None or now == began


def _process(number: int) -> str:
    return f"{number}:{_began(number) or ''}"


def _began(number: int) -> str | None:
    """Return when a process began, on Linux; an ended one that was not waited for began never."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    rest = fields.rpartition(")")[2].split()
    return "ended" if rest[0] in {"Z", "X"} else rest[19]


@cache
def _host() -> str:
    """Return an identity of this machine since it was started, and of the processes that it shows."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
