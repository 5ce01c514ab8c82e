"""Who of a roster rates which pair on which side, planned before anybody begins.

Every pair goes to as many raters as it has slots, every rater gets as many pairs as the others within one in
each comparison, and sides are even within one per pair, and per rater and comparison. Of several plans the
one is taken whose sides are nearest to even per rater and method.

The sides are a two-colouring. Each showing is coupled with another of its pair, and with another of its rater
in the same comparison; coupled showings have opposite sides. A showing has at most one coupling of either
sort, so they form paths and even circles, and both can be coloured (Euler's splitting of a bipartite graph).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from guard_eval.errors import StudyError
from guard_eval.records import Plan, content_id
from guard_eval.store import handout, raters
from guard_eval.store.database import Store
from guard_eval.store.schema import pair, presentation, slot

_PLANS = 8
"""How many plans are tried where none has every method within one."""


class Comparison(NamedTuple):
    """What a pair compares."""

    method_a: str
    method_b: str


class Seat(NamedTuple):
    """A showing of a pair to a rater."""

    pair_id: str
    rater_id: int


_Sides = dict[Seat, int]
"""1 with the comparison's first method as A, -1 with the second."""


def assign(store: Store, names: Sequence[str], plan: Plan) -> int:
    """Plan a roster: keep the slots of all pairs that no one was shown for these people; return how many.

    Sides are then even within one per rater and method (see above in which designs), and a kept slot goes to
    no other rater until its own skips the pair, or is revoked or excluded.

    Raises:
        StudyError: A name is unknown, revoked, excluded, no person's, or given twice; no pair is left; or the
            quota is too small.
    """
    with store.write() as (db, _):
        rows = [raters.find(db, name) for name in names]
        for row in rows:
            is_out = row.revoked_at is not None or row.excluded_at is not None
            if row.kind != "person" or is_out:
                state = "revoked or excluded" if is_out else f"a {row.kind}"
                raise StudyError(f"the rater {row.name!r} is {state}; a roster is of people who may rate")
        people = [row.id for row in rows]
        if not people or len(set(people)) < len(people):
            raise StudyError(
                f"the roster {', '.join(names)!r} names no rater, or one twice; name each rater once"
            )
        handout.make_slots(store, db, plan)
        begun = select(slot.c.pair_id).outerjoin(presentation, presentation.c.slot_id == slot.c.id)
        begun = begun.where(slot.c.for_rater.is_not(None) | presentation.c.id.is_not(None))
        columns = (pair.c.id, pair.c.method_a, pair.c.method_b)
        untouched = (slot.c.pool == handout.PEOPLE, slot.c.number == 0, pair.c.id.not_in(begun))
        statement = select(*columns).join(slot, slot.c.pair_id == pair.c.id).where(*untouched)
        pairs = {row.id: Comparison(row.method_a, row.method_b) for row in db.execute(statement)}
        if not pairs:
            raise StudyError(
                "no pair is left to plan a roster for; plan it after guard-eval pair, before anybody rates"
            )
        sides = plan_roster(pairs, people, slots=plan.slots, seed=plan.seed)
        load = max(Counter(seat.rater_id for seat in sides).values())
        if plan.quota is not None and load > plan.quota:
            raise StudyError(
                f"a roster of {len(people)} would rate up to {load} pairs each, and the quota "
                f"is {plan.quota}; name more raters or raise the quota"
            )
        which = (
            slot.c.pool == handout.PEOPLE,
            slot.c.pair_id == bindparam("of"),
            slot.c.number == bindparam("no"),
        )
        keep = update(slot).where(*which).values(for_rater=bindparam("who"), first=bindparam("side"))
        db.execute(keep, list(_number_slots(sides, plan.slots)))
        return len(sides)


def plan_roster(pairs: Mapping[str, Comparison], people: Sequence[int], *, slots: int, seed: int) -> _Sides:
    """Return who is shown each pair, and on which side."""
    seats = _seat(pairs, people, slots, seed)
    parts = _colour(_couple(pairs, seats))
    best: _Sides = {}
    worst = len(seats) + 1
    for attempt in range(_PLANS):
        sides = _turn(pairs, parts, (seed, attempt))
        lead = max(map(abs, count_leads(pairs, sides).values()))
        if lead < worst:
            best, worst = sides, lead
        if worst <= 1:
            break
    return best


def _seat(pairs: Mapping[str, Comparison], people: Sequence[int], slots: int, seed: int) -> list[Seat]:
    """Return the raters of each pair: those with the fewest of its comparison, then of all, so far."""
    load: Counter[tuple[object, ...]] = Counter()
    seats = []
    for pair_id in sorted(pairs, key=lambda pair_id: (pairs[pair_id], content_id(seed, pair_id))):
        comparison = pairs[pair_id]
        burden = {
            who: (load[who, comparison], load[who,], content_id(seed, "seat", pair_id, who)) for who in people
        }
        for who in sorted(people, key=burden.__getitem__)[:slots]:
            seats.append(Seat(pair_id, who))
            load[who, comparison] += 1
            load[who,] += 1
    return seats


def _couple(pairs: Mapping[str, Comparison], seats: Sequence[Seat]) -> dict[Seat, list[Seat]]:
    """Return the showings with which each is coupled: of its pair, and of its rater and comparison."""
    links: dict[Seat, list[Seat]] = {seat: [] for seat in seats}
    waiting: dict[tuple[object, ...], Seat] = {}
    for seat in seats:
        for group in ((seat.pair_id,), (seat.rater_id, pairs[seat.pair_id])):
            partner = waiting.pop(group, None)
            if partner is None:
                waiting[group] = seat
            else:
                links[seat].append(partner)
                links[partner].append(seat)
    return links


def _colour(links: Mapping[Seat, Sequence[Seat]]) -> list[_Sides]:
    """Return the parts that hang together, with sides: coupled showings have opposite ones."""
    parts: list[_Sides] = []
    done: set[Seat] = set()
    for start in links:
        if start in done:
            continue
        part, waiting = {start: 1}, [start]
        while waiting:
            seat = waiting.pop()
            new = [other for other in links[seat] if other not in part]
            part |= dict.fromkeys(new, -part[seat])
            waiting += new
        parts.append(part)
        done |= part.keys()
    return parts


def _turn(pairs: Mapping[str, Comparison], parts: Iterable[_Sides], key: tuple[int, int]) -> _Sides:
    """Mirror each part by chance, then while that brings the sides of raters and methods nearer to even."""
    turned = []
    for part in parts:
        sign = 1 if int(content_id(*key, "side", *min(part)), 16) % 2 else -1
        turned.append({seat: sign * side for seat, side in part.items()})
    total = count_leads(pairs, {seat: side for part in turned for seat, side in part.items()})
    improved = True
    while improved:
        improved = False
        for part in turned:
            leads = count_leads(pairs, part)
            if sum(value * (value - total[key]) for key, value in leads.items()) < 0:
                improved = True
                part |= {seat: -side for seat, side in part.items()}
                total.subtract({key: 2 * value for key, value in leads.items()})
    return {seat: side for part in turned for seat, side in part.items()}


def count_leads(pairs: Mapping[str, Comparison], sides: _Sides) -> Counter[tuple[int, str]]:
    """Return how often each rater sees each method as A less how often as B."""
    leads: Counter[tuple[int, str]] = Counter()
    for (pair_id, who), side in sides.items():
        leads[who, pairs[pair_id].method_a] += side
        leads[who, pairs[pair_id].method_b] -= side
    return leads


def _number_slots(sides: _Sides, slots: int) -> Iterable[dict[str, object]]:
    """Yield the slots of all showings: even numbers for one side, and odd ones for the other while they last.

    So couples fill up, and a slot that is kept for no rater still evens out its pair.
    """
    free: dict[str, dict[int, list[int]]] = {}
    for (pair_id, who), side in sides.items():
        numbers = free.setdefault(pair_id, {1: list(range(0, slots, 2)), -1: list(range(1, slots, 2))})
        number = (numbers[side] or numbers[-side]).pop(0)
        yield {"of": pair_id, "no": number, "who": who, "side": "a" if side == 1 else "b"}
