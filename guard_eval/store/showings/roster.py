"""Plan a roster before the first rating: which rater sees which pair on which side.

Each pair is given to one rater per slot. In each comparison, the numbers of pairs of any two raters differ by
at most one. The numbers of showings on the two sides also differ by at most one, for each pair, and for each
rater and comparison. Of several plans, the one with the most even sides for raters and methods is used.

The sides are a two-colouring. Each showing is coupled with another showing of the same pair, and with another
showing to the same rater in the same comparison; coupled showings have opposite sides. A showing has at most
one coupling of each sort, so couplings form paths and even cycles, which can all be coloured (Euler's
splitting of a bipartite graph).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from guard_eval.errors import StudyError
from guard_eval.records import HandOutPlan, make_content_id
from guard_eval.store import raters
from guard_eval.store.database import Store
from guard_eval.store.schema import query
from guard_eval.store.showings.slots import apply_hand_out_plan

_PLANS = 16
"""The number of rosters to plan. The one with the most even sides is used."""

_UNTOUCHED_PAIRS = query("""
    SELECT pair.id, pair.method_a, pair.method_b
    FROM pair JOIN slot ON slot.pair_id = pair.id AND slot.pool = 'people' AND slot.number = 0
    WHERE NOT EXISTS (
        SELECT 1 FROM slot AS begun LEFT JOIN presentation ON presentation.slot_id = begun.id
        WHERE begun.pair_id = pair.id AND (begun.for_rater IS NOT NULL OR presentation.id IS NOT NULL)
    )
""")

_KEEP = query("""
    UPDATE slot SET for_rater = :rater, first = :side
    WHERE pool = 'people' AND pair_id = :pair AND number = :number
""")

_Pairs = Mapping[str, tuple[str, str]]
"""The two methods that a pair compares, by the pair's id."""

_Seat = tuple[str, int]
"""A planned showing: the pair's id and the rater's id."""

_Sides = dict[_Seat, int]
"""For each showing, 1 if the comparison's first method is shown as A, and -1 if it is shown as B."""


def reserve_slots(store: Store, names: Sequence[str], plan: HandOutPlan) -> int:
    """Reserve the slots of all unseen pairs for these people; return the number of slots.

    For each pair and each rater, sides are then as even as possible. A reserved slot goes to another rater
    only if the slot's rater skips the pair, or is revoked or excluded.

    Raises:
        StudyError: A name is unknown, revoked, excluded or not a person's; no unseen pair remains; or the
            quota is too small.
    """
    with store.begin_write() as (db, _):
        rows = [raters.find_rater(db, name, "person") for name in dict.fromkeys(names)]
        if inactive := [row.name for row in rows if row.revoked_at or row.excluded_at]:
            raise StudyError(
                f"{', '.join(inactive)}: revoked or excluded, so they cannot rate; name only other people"
            )
        apply_hand_out_plan(store, plan)
        pairs = {row.id: (row.method_a, row.method_b) for row in _UNTOUCHED_PAIRS(db)}
        if not pairs:
            raise StudyError("every pair was already shown or reserved; plan the roster before anybody rates")
        sides = plan_roster(pairs, [row.id for row in rows], slots=plan.slots, seed=plan.seed)
        load = max(Counter(rater_id for _, rater_id in sides).values())
        if plan.quota is not None and load > plan.quota:
            raise StudyError(
                f"one rater would get {load} pairs, but the quota is {plan.quota}; name more raters"
            )
        _KEEP(db, list(_assign_slot_numbers(sides, plan.slots)))
        return len(sides)


def plan_roster(pairs: _Pairs, people: Sequence[int], *, slots: int, seed: int) -> _Sides:
    """Plan several rosters with different sides, and return the roster with the most even sides."""
    seats = _assign_raters(pairs, people, slots, seed)
    components = _alternate_sides_in_components(pairs, seats)
    plans = (_balance_component_sides(pairs, components, (seed, attempt)) for attempt in range(_PLANS))
    return min(plans, key=lambda sides: max(map(abs, count_side_imbalance(pairs, sides).values())))


def _assign_raters(pairs: _Pairs, people: Sequence[int], slots: int, seed: int) -> list[_Seat]:
    """Choose raters for each pair: those with the fewest pairs of this comparison, then in total."""
    load: Counter[int] = Counter()
    load_of_comparison: Counter[tuple[int, tuple[str, str]]] = Counter()
    seats = []
    for pair_id in sorted(pairs, key=lambda pair_id: (pairs[pair_id], make_content_id(seed, pair_id))):
        comparison = pairs[pair_id]
        burdens = {
            who: (load_of_comparison[who, comparison], load[who], make_content_id(seed, "seat", pair_id, who))
            for who in people
        }
        for who in sorted(people, key=burdens.__getitem__)[:slots]:
            seats.append((pair_id, who))
            load_of_comparison[who, comparison] += 1
            load[who] += 1
    return seats


def _alternate_sides_in_components(pairs: _Pairs, seats: Sequence[_Seat]) -> list[_Sides]:
    """Give coupled showings opposite sides. Return each connected component of showings with its sides."""
    links: dict[_Seat, list[_Seat]] = {seat: [] for seat in seats}
    waiting: dict[object, _Seat] = {}
    for seat in seats:
        pair_id, who = seat
        for group in (pair_id, (who, pairs[pair_id])):
            partner = waiting.pop(group, None)
            if partner is None:
                waiting[group] = seat
            else:
                links[seat].append(partner)
                links[partner].append(seat)
    components = []
    while links:
        queue = [next(iter(links))]
        component = {queue[0]: 1}
        while queue:
            seat = queue.pop()
            new = [partner for partner in links.pop(seat) if partner not in component]
            component |= dict.fromkeys(new, -component[seat])
            queue += new
        components.append(component)
    return components


def _balance_component_sides(pairs: _Pairs, components: Sequence[_Sides], key: tuple[int, int]) -> _Sides:
    """Swap the sides of whole components, in random order, where this makes the sides more even."""
    leads: Counter[tuple[int, str]] = Counter()
    sides: _Sides = {}
    for drawn, component in sorted(
        (make_content_id(*key, "side", *min(component)), component) for component in components
    ):
        added = count_side_imbalance(pairs, component)
        pull = sum(count * leads[group] for group, count in added.items())
        coin = int(drawn, 16) % 2
        sign = -1 if pull > 0 or (pull == 0 and coin) else 1
        sides |= {seat: sign * side for seat, side in component.items()}
        leads.update({group: sign * count for group, count in added.items()})
    return sides


def count_side_imbalance(pairs: _Pairs, sides: _Sides) -> Counter[tuple[int, str]]:
    """Return, by rater and method, the number of showings as text A minus the number as text B."""
    leads: Counter[tuple[int, str]] = Counter()
    for (pair_id, who), side in sides.items():
        method_a, method_b = pairs[pair_id]
        leads[who, method_a] += side
        leads[who, method_b] -= side
    return leads


def _assign_slot_numbers(sides: _Sides, slots: int) -> Iterator[dict[str, object]]:
    """Yield the slots of all showings, with even numbers for one side and odd numbers for the other.

    So slots 2k and 2k + 1 are filled together, and a slot without a reserved rater still balances the pair.
    """
    free: dict[str, dict[int, list[int]]] = {}
    for (pair_id, who), side in sides.items():
        numbers = free.setdefault(pair_id, {1: list(range(0, slots, 2)), -1: list(range(1, slots, 2))})
        number = (numbers[side] or numbers[-side]).pop(0)
        yield {"pair": pair_id, "number": number, "rater": who, "side": "a" if side == 1 else "b"}
