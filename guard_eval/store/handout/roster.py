"""Who of a roster rates which pair on which side, planned before anybody begins.

Every pair goes to as many raters as it has slots, every rater gets as many pairs as the others within one in
each comparison, and sides are even: within one per pair, per rater and comparison (and dataset), and per
rater and method where all comparisons share a method, as when one is compared with all others. In any other
design a method's sides add up over its comparisons, and the best of several plans is taken.

The sides are a two-colouring. Each showing is coupled with another of its pair, and with another of its rater
in the same dataset and comparison where there is one, else in the nearest there is; coupled showings have
opposite sides (or the same, where the method they share is the first of one comparison and the second of the
other). A showing has at most one coupling of either sort, so they form paths and even circles, and both can
be coloured (Euler's splitting of a bipartite graph).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, union

from guard_eval.errors import StudyError
from guard_eval.records import Plan, content_id
from guard_eval.store import raters
from guard_eval.store.handout import occupancy
from guard_eval.store.handout.occupancy import First
from guard_eval.store.schema import assignment, presentation
from guard_eval.store.schema import occupancy as table

_Seat = tuple[str, int]
"""A showing: a pair's id and a rater's."""

_Part = dict[_Seat, int]
"""Showings whose sides hang together: 1 with the comparison's first method as A, -1 with the second."""

_Links = dict[_Seat, list[tuple[_Seat, int]]]
"""What each showing is coupled with, and whether it is on the same side (1) or on the other (-1)."""


class Place(NamedTuple):
    """A pair's place in the study."""

    position: int
    dataset: str
    method_a: str
    method_b: str


class KeptSlot(NamedTuple):
    """A slot that is kept for one rater, and which text it shows as A."""

    slot: int
    rater_id: int
    first: First


_PLANS = 24
"""How many plans are tried where none has every method within one."""


def plan_roster(
    places: Mapping[str, Place], raters: Sequence[int], *, slots: int, seed: int
) -> dict[str, list[KeptSlot]]:
    """Return the slots of each pair that are kept for a rater, and which text they show as A."""
    seats = _seat(places, raters, slots, seed)
    best: list[_Part] = []
    worst = 0
    for attempt in range(_PLANS):
        parts = _sides(places, seats, (seed, attempt))
        found = max(map(abs, _by_method(places, parts).values()), default=0)
        if not best or found < worst:
            best, worst = parts, found
        if worst <= 1:
            break
    sides = {seat: side for part in best for seat, side in part.items()}
    return {
        pair_id: _slots([(who, sides[pair_id, who]) for who in seated], slots)
        for pair_id, seated in seats.items()
    }


def _seat(places: Mapping[str, Place], raters: Sequence[int], slots: int, seed: int) -> dict[str, list[int]]:
    """Return the raters of each pair: those with the fewest of its comparison, then of all, so far."""
    load: Counter[tuple[object, ...]] = Counter()
    seats = {}
    for pair_id in sorted(places, key=lambda pair_id: (_group(places[pair_id]), content_id(seed, pair_id))):
        comparison = _group(places[pair_id])[:2]
        burden = {
            who: (load[who, comparison], load[who, ()], content_id(seed, "seat", pair_id, who))
            for who in raters
        }
        seats[pair_id] = sorted(raters, key=burden.__getitem__)[:slots]
        for who in seats[pair_id]:
            load[who, comparison] += 1
            load[who, ()] += 1
    return seats


def _group(place: Place) -> tuple[str, str, str]:
    return place.method_a, place.method_b, place.dataset


def _sides(
    places: Mapping[str, Place], seats: Mapping[str, Sequence[int]], key: tuple[int, int]
) -> list[_Part]:
    """Return the sides of all showings, in the parts that can be mirrored each by itself."""
    links: _Links = {(pair_id, who): [] for pair_id, seated in seats.items() for who in seated}
    for pair_id, seated in seats.items():
        for one, other in zip(seated[::2], seated[1::2], strict=False):
            _couple(links, (pair_id, one), (pair_id, other), -1)
    left = [_couple_alike(places, links, who) for who in sorted({who for _, who in links})]
    for seats_left in left:
        _couple_sharing(places, links, sorted(seats_left, key=lambda seat: content_id(*key, *seat)))
    parts = _colour(links, key)
    _exchange(places, parts)
    return parts


def _couple(links: _Links, one: _Seat, other: _Seat, relation: int) -> None:
    links[one].append((other, relation))
    links[other].append((one, relation))


def _couple_alike(places: Mapping[str, Place], links: _Links, who: int) -> list[_Seat]:
    """Couple a rater's showings within dataset and comparison, then comparison; return what is left."""
    seats = [seat for seat in links if seat[1] == who]
    for length in (3, 2):
        groups: dict[tuple[str, ...], list[_Seat]] = {}
        for seat in seats:
            groups.setdefault(_group(places[seat[0]])[:length], []).append(seat)
        seats = []
        for group in groups.values():
            for one, other in zip(group[::2], group[1::2], strict=False):
                _couple(links, one, other, -1)
            seats += group[len(group) & ~1 :]
    return seats


def _couple_sharing(places: Mapping[str, Place], links: _Links, seats: list[_Seat]) -> None:
    """Couple a rater's showings of different comparisons that share a method."""
    while seats:
        one = seats.pop()
        for other in seats:
            relation = _relation(places[one[0]], places[other[0]])
            # what a path joins already may be related in the other way
            if relation and _reached(links, one).get(other, relation) == relation:
                _couple(links, one, other, relation)
                seats.remove(other)
                break


def _relation(one: Place, other: Place) -> int:
    """Return how sides must relate so that a shared method is on either once; 0 if none is shared."""
    if one.method_a == other.method_a or one.method_b == other.method_b:
        return -1
    return int(one.method_a == other.method_b or one.method_b == other.method_a)


def _reached(links: _Links, start: _Seat) -> _Part:
    """Return the showings that couplings join with `start`: 1 for those on its side, -1 for the others."""
    part, waiting = {start: 1}, [start]
    while waiting:
        seat = waiting.pop()
        for other, relation in links[seat]:
            if other not in part:
                part[other] = relation * part[seat]
                waiting.append(other)
    return part


def _colour(links: _Links, key: tuple[int, int]) -> list[_Part]:
    """Return the sides in each part of what is coupled."""
    parts: list[_Part] = []
    done: set[_Seat] = set()
    for start in links:
        if start not in done:
            sign = 1 if int(content_id(*key, "side", *start), 16) % 2 else -1
            parts.append({seat: sign * side for seat, side in _reached(links, start).items()})
            done |= parts[-1].keys()
    return parts


def _exchange(places: Mapping[str, Place], parts: list[_Part]) -> None:
    """Mirror parts while that brings the sides of raters and methods nearer to even."""
    weights = [_by_method(places, [part]) for part in parts]
    total = _by_method(places, parts)
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


def _by_method(places: Mapping[str, Place], parts: Sequence[_Part]) -> dict[tuple[int, str], int]:
    """Return how often each rater sees each method as A less how often as B."""
    weight: Counter[tuple[int, str]] = Counter()
    for part in parts:
        for (pair_id, who), side in part.items():
            weight[who, places[pair_id].method_a] += side
            weight[who, places[pair_id].method_b] -= side
    return weight


def _slots(seated: Sequence[tuple[int, int]], slots: int) -> list[KeptSlot]:
    """Return the slots of a pair's raters: where one is left, even ones for one side, odd ones for the other.

    So couples fill up, and a slot that is kept for no rater still evens out its pair.
    """
    free = {1: list(range(0, slots, 2)), -1: list(range(1, slots, 2))}
    kept = []
    for who, side in seated:
        slot = (free[side] or free[-side]).pop(0)
        first: First = "a" if side == 1 else "b"
        kept.append(KeptSlot(slot, who, first))
    return kept


def assign(connection: Connection, names: Sequence[str], plan: Plan) -> int:
    """Keep slots for people and return how many (`Store.assign`); must run alone in the pool of people."""
    people = [_person(connection, name) for name in names]
    if not people or len(set(people)) < len(people):
        raise StudyError(
            f"the roster {', '.join(names)!r} names no rater, or one twice; name each rater once"
        )
    columns = (table.c.pair_id, table.c.position, table.c.dataset, table.c.method_a, table.c.method_b)
    begun = union(
        select(presentation.c.pair_id).where(presentation.c.pool == raters.PEOPLE),
        select(assignment.c.pair_id),
    )
    untouched = select(*columns).where(table.c.pool == raters.PEOPLE, table.c.pair_id.not_in(begun))
    places = {pair_id: Place(*rest) for pair_id, *rest in connection.execute(untouched)}
    if not places:
        raise StudyError(
            "no pair is left to plan a roster for; plan it after guard-eval pair, before anybody rates"
        )
    planned = plan_roster(places, people, slots=plan.slots, seed=plan.seed)
    load = Counter(kept.rater_id for slots in planned.values() for kept in slots)
    if plan.quota is not None and max(load.values()) > plan.quota:
        raise StudyError(
            f"a roster of {len(people)} would rate up to {max(load.values())} pairs each, and the quota is "
            f"{plan.quota}; name more raters or raise the quota"
        )
    rows = [{"pair_id": pair_id, **kept._asdict()} for pair_id, slots in planned.items() for kept in slots]
    connection.execute(insert(assignment), rows)
    occupancy.recount(connection, raters.PEOPLE)
    return len(rows)


def _person(connection: Connection, name: str) -> int:
    who = raters.find(connection, name)
    if who.kind != "person":
        raise StudyError(f"the rater {name!r} is a {who.kind}; a roster is of people")
    if any(raters.standing(connection, who)):
        raise StudyError(f"the rater {name!r} is revoked or excluded; leave it out of the roster")
    return who.id
