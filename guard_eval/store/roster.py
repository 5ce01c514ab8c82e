"""Who of a roster rates which pair on which side, planned before anybody begins.

Every pair goes to as many raters as it has slots, every rater gets as many pairs as the others within one in
each comparison, and sides are even within one per pair, and per rater and comparison (and dataset). Of
several plans the one is taken whose sides are nearest to even per rater and method.

The sides are a two-colouring. Each showing is coupled with another of its pair, and with another of its rater
in the same comparison; coupled showings have opposite sides. A showing has at most one coupling of either
sort, so they form paths and even circles, and both can be coloured (Euler's splitting of a bipartite graph).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select, update

from guard_eval.errors import StudyError
from guard_eval.records import Plan, content_id
from guard_eval.store import handout, raters
from guard_eval.store.database import Store
from guard_eval.store.schema import pair, presentation, slot

_Seat = tuple[str, int]
"""A showing: a pair's id and a rater's."""

_Part = dict[_Seat, int]
"""Showings whose sides hang together: 1 with the comparison's first method as A, -1 with the second."""

_Links = dict[_Seat, list[_Seat]]
"""The showings with which each is coupled."""

_PLANS = 8
"""How many plans are tried where none has every method within one."""


class Comparison(NamedTuple):
    """What a pair compares, and on which prompts."""

    method_a: str
    method_b: str
    dataset: str


def assign(store: Store, names: Sequence[str], plan: Plan) -> int:
    """Plan a roster: keep the slots of all pairs that no one was shown for these people; return how many.

    Sides are then even within one per rater and method (see above in which designs), and a kept slot goes to
    no other rater until its own skips the pair, or is revoked or excluded.

    Raises:
        StudyError: A name is unknown, revoked, excluded, no person's, or given twice; no pair is left; or the
            quota is too small.
    """
    with store.write() as (db, _):
        people = [_person(db, name) for name in names]
        if not people or len(set(people)) < len(people):
            raise StudyError(
                f"the roster {', '.join(names)!r} names no rater, or one twice; name each rater once"
            )
        handout.make_slots(store, db, plan)
        untouched = _read_untouched(db)
        if not untouched:
            raise StudyError(
                "no pair is left to plan a roster for; plan it after guard-eval pair, before anybody rates"
            )
        planned = plan_roster(untouched, people, slots=plan.slots, seed=plan.seed)
        load = Counter(who for seats in planned.values() for _, who, _ in seats)
        if plan.quota is not None and max(load.values()) > plan.quota:
            raise StudyError(
                f"a roster of {len(people)} would rate up to {max(load.values())} pairs each, and the quota "
                f"is {plan.quota}; name more raters or raise the quota"
            )
        keep = (
            update(slot)
            .where(
                slot.c.pair_id == bindparam("pair"),
                slot.c.pool == handout.PEOPLE,
                slot.c.number == bindparam("slot"),
            )
            .values(for_rater=bindparam("who"), first=bindparam("side"))
        )
        rows = [
            {"pair": pair_id, "slot": number, "who": who, "side": side}
            for pair_id, seats in planned.items()
            for number, who, side in _even_out(seats, plan.slots)
        ]
        db.execute(keep, rows)
        return sum(load.values())


def _read_untouched(db: Connection) -> dict[str, Comparison]:
    """Return the pairs for people of which no slot is kept for a rater or was ever handed out."""
    people = slot.c.pool == handout.PEOPLE
    begun = (
        select(slot.c.pair_id)
        .join(presentation, presentation.c.slot_id == slot.c.id)
        .where(people)
        .union(select(slot.c.pair_id).where(people, slot.c.for_rater.is_not(None)))
    )
    columns = (pair.c.method_a, pair.c.method_b, pair.c.dataset)
    statement = (
        select(pair.c.id, *columns)
        .join(slot, slot.c.pair_id == pair.c.id)
        .where(people, slot.c.number == 0, pair.c.id.not_in(begun))
    )
    return {pair_id: Comparison(*rest) for pair_id, *rest in db.execute(statement)}


def _even_out(seats: Sequence[tuple[int, int, str]], slots: int) -> list[tuple[int, int | None, str]]:
    """Return the seats, and the slots left beside them on the sides that make each couple even."""
    sides = {number: side for number, _, side in seats}
    unpaired = [number for number in range(slots) if number not in sides and number ^ 1 in sides]
    return [*seats, *((number, None, "b" if sides[number ^ 1] == "a" else "a") for number in unpaired)]


def _person(db: Connection, name: str) -> int:
    row = raters.find(db, name)
    if row.kind != "person":
        raise StudyError(f"the rater {name!r} is a {row.kind}; a roster is of people")
    if row.revoked_at is not None or row.excluded_at is not None:
        raise StudyError(f"the rater {name!r} is revoked or excluded; leave it out of the roster")
    return int(row.id)


def plan_roster(
    pairs: Mapping[str, Comparison], raters: Sequence[int], *, slots: int, seed: int
) -> dict[str, list[tuple[int, int, str]]]:
    """Return the slots of each pair that are kept: its number, its rater, and which text it shows as A."""
    seats = _seat(pairs, raters, slots, seed)
    best: list[_Part] = []
    worst = 0
    for attempt in range(_PLANS):
        parts = _sides(pairs, seats, (seed, attempt))
        worst_lead = max(map(abs, _by_method(pairs, parts).values()), default=0)
        if not best or worst_lead < worst:
            best, worst = parts, worst_lead
        if worst <= 1:
            break
    sides = {seat: side for part in best for seat, side in part.items()}
    return {
        pair_id: _number([(who, sides[pair_id, who]) for who in seated], slots)
        for pair_id, seated in seats.items()
    }


def _seat(
    pairs: Mapping[str, Comparison], raters: Sequence[int], slots: int, seed: int
) -> dict[str, list[int]]:
    """Return the raters of each pair: those with the fewest of its comparison, then of all, so far."""
    load: Counter[tuple[object, ...]] = Counter()
    seats = {}
    for pair_id in sorted(pairs, key=lambda pair_id: (pairs[pair_id], content_id(seed, pair_id))):
        comparison = pairs[pair_id][:2]
        burden = {
            who: (load[who, comparison], load[who, ()], content_id(seed, "seat", pair_id, who))
            for who in raters
        }
        seats[pair_id] = sorted(raters, key=burden.__getitem__)[:slots]
        for who in seats[pair_id]:
            load[who, comparison] += 1
            load[who, ()] += 1
    return seats


def _sides(
    pairs: Mapping[str, Comparison], seats: Mapping[str, Sequence[int]], key: tuple[int, int]
) -> list[_Part]:
    """Return the sides of all showings, in the parts that can be mirrored each by itself."""
    links: _Links = {(pair_id, who): [] for pair_id, seated in seats.items() for who in seated}
    for pair_id, seated in seats.items():
        _couple(links, [(pair_id, who) for who in seated])
    for who in {who for _, who in links}:
        single = [seat for seat in links if seat[1] == who]
        # within dataset and comparison, then what is left within the comparison
        for length in (3, 2):
            groups: dict[tuple[str, ...], list[_Seat]] = {}
            for seat in single:
                groups.setdefault(pairs[seat[0]][:length], []).append(seat)
            single = [seat for group in groups.values() for seat in _couple(links, group)]
    parts = _colour(links, key)
    _exchange(pairs, parts)
    return parts


def _couple(links: _Links, seats: Sequence[_Seat]) -> Sequence[_Seat]:
    """Couple showings two by two; return what is left."""
    for item, other in zip(seats[::2], seats[1::2], strict=False):
        links[item].append(other)
        links[other].append(item)
    return seats[len(seats) & ~1 :]


def _colour(links: _Links, key: tuple[int, int]) -> list[_Part]:
    """Return the sides in each part of what is coupled: neighbours are on opposite ones."""
    parts: list[_Part] = []
    done: set[_Seat] = set()
    for start in links:
        if start in done:
            continue
        part, waiting = {start: 1 if int(content_id(*key, "side", *start), 16) % 2 else -1}, [start]
        while waiting:
            seat = waiting.pop()
            new = [other for other in links[seat] if other not in part]
            part |= dict.fromkeys(new, -part[seat])
            waiting += new
        parts.append(part)
        done |= part.keys()
    return parts


def _exchange(pairs: Mapping[str, Comparison], parts: list[_Part]) -> None:
    """Mirror parts while that brings the sides of raters and methods nearer to even."""
    weights = [_by_method(pairs, [part]) for part in parts]
    total = _by_method(pairs, parts)
    improved = True
    while improved:
        improved = False
        for part, weight in zip(parts, weights, strict=True):
            if sum((total[key] - 2 * value) ** 2 - total[key] ** 2 for key, value in weight.items()) < 0:
                improved = True
                for seat in part:
                    part[seat] = -part[seat]
                for key, value in weight.items():
                    total[key] -= 2 * value
                    weight[key] = -value


def _by_method(pairs: Mapping[str, Comparison], parts: Sequence[_Part]) -> dict[tuple[int, str], int]:
    """Return how often each rater sees each method as A less how often as B."""
    weight: Counter[tuple[int, str]] = Counter()
    for part in parts:
        for (pair_id, who), side in part.items():
            weight[who, pairs[pair_id].method_a] += side
            weight[who, pairs[pair_id].method_b] -= side
    return weight


def _number(seated: Sequence[tuple[int, int]], slots: int) -> list[tuple[int, int, str]]:
    """Return the slots of a pair's raters: where one is left, even ones for one side, odd ones for the other.

    So couples fill up, and a slot that is kept for no rater still evens out its pair.
    """
    free = {1: list(range(0, slots, 2)), -1: list(range(1, slots, 2))}
    return [((free[side] or free[-side]).pop(0), who, "a" if side == 1 else "b") for who, side in seated]
