"""Choose the open slot that a rater sees next, and the side, without access to the database.

Sides should be even for each method and each rater, and nobody should be able to predict them. So a coin
draws the side, unless a method would be on one side too often.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from guard_eval.records import record

Side = Literal["a", "b"]
"""The text of a pair, a or b, that is shown as A."""

MOST_LEAD = 5
"""The highest side imbalance of a method is this number or one more: a coin draws which limit applies.

A limit that is always odd could be reached only after an odd number of pairs, and would reveal the next side.
"""

LAST_SLOTS = 16
"""With fewer open slots than this, a rater is near the end, and all remaining slots affect each side."""

DRAWS = 16
"""The number of different random draws: one of two limits, and one of eight values of the coin."""


@record
class OpenSlot:
    """A slot whose pair a rater can see next.

    Attributes:
        side: The only side on which the slot can be shown; None if both sides are possible.
        reserved: Whether a roster reserves the slot for the rater.
        was_read: Whether the rater has just read the same prompt in another pair.
    """

    id: int
    pair_id: str
    number: int
    method_a: str
    method_b: str
    side: Side | None = None
    reserved: bool = False
    was_read: bool = False


def compute_imbalance_change(method_a: str, method_b: str, side: Side, times: int = 1) -> dict[str, int]:
    """Return the change in each method's side imbalance if a pair is shown on this side.

    >>> compute_imbalance_change("guard", "greedy", "b")
    {'guard': -1, 'greedy': 1}
    """
    lead = times if side == "a" else -times
    return {method_a: lead, method_b: -lead}


def choose_slot_and_side(
    open_slots: Sequence[OpenSlot], lead: Counter[str], draw: int
) -> tuple[OpenSlot, Side] | None:
    """Return the next slot to show, and the side; None if no slot is open.

    A slot that a roster reserves for the rater comes first. The first slot of each pair is used, so that the
    pair's sides are even whenever slots 2k and 2k + 1 are full. Slots with a fixed side come before slots of
    pairs that nobody has seen, and the coin prefers the side on which more slots are fixed. So pairs that can
    be shown on either side remain for the last raters. A prompt that the rater has just read comes later, if
    possible.

    Args:
        open_slots: The slots in the order of hand-out.
        lead: For each method, the times this rater saw it as text A minus the times as text B.
        draw: A random number below `DRAWS`.
    """
    slots = [slot for slot in open_slots if slot.reserved] or open_slots
    candidates = {slot.pair_id: slot for slot in reversed(slots)}.values()
    fixed = Counter(slot.side for slot in candidates if not slot.reserved)
    coin: Side = "a" if draw // 2 < DRAWS // 4 + fixed["a"] - fixed["b"] else "b"
    final_lead = lead.copy()
    is_near_end = len(slots) < LAST_SLOTS and any(slot.side for slot in candidates)
    if is_near_end:
        for slot in candidates:
            if slot.side is not None:
                final_lead.update(compute_imbalance_change(slot.method_a, slot.method_b, slot.side))

    def rank_slot_and_side(option: tuple[OpenSlot, Side]) -> tuple[int, int, bool, bool, bool]:
        slot, side = option
        change = compute_imbalance_change(slot.method_a, slot.method_b, side)
        next_lead = max(abs(lead[method] + change[method]) for method in change)
        last_lead = 0
        if is_near_end:
            last = Counter(final_lead)
            if slot.side is None:
                last.update(change)
            last_lead = max(map(abs, last.values()))
        bounded = max(MOST_LEAD + draw % 2, next_lead), max(MOST_LEAD - 1, last_lead)
        return *bounded, slot.was_read, side != coin, slot.side is None

    sides: tuple[Side, Side] = ("a", "b")
    options = [(slot, side) for slot in candidates for side in sides if slot.side in {None, side}]
    return min(options, key=rank_slot_and_side, default=None)
