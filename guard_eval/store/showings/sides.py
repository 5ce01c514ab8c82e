"""Choose the open slot that a rater sees next, and its side: a function of values alone.

Sides should be even for each method and each rater, and nobody should be able to predict them. So a coin
draws the side, unless a method would lead by too much.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from guard_eval.frozen import record

Side = Literal["a", "b"]
"""Which of a pair's texts is shown as A."""

MOST_LEAD = 5
"""No showing makes a method lead on one side by more than this, or one more: a coin draws which.

A bound that is always odd would be met after odd numbers of pairs alone, and the side of the next be known.
"""

LAST_SLOTS = 16
"""A rater for whom fewer slots are open is near the end: the sides of those are foreseen."""

DRAWS = 16
"""The number of different draws: two bounds times eight steps of the coin."""


@record
class OpenSlot:
    """A slot that a rater can be shown.

    Attributes:
        side: The only side on which it can be shown; None if both are possible.
        reserved: Whether a roster reserves it for the rater.
        was_read: Whether the rater has just read its prompt, in another pair.
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
    """Return how a showing on this side changes the side imbalance of each method.

    >>> compute_imbalance_change("guard", "greedy", "b")
    {'guard': -1, 'greedy': 1}
    """
    lead = times if side == "a" else -times
    return {method_a: lead, method_b: -lead}


def choose_slot(
    open_slots: Sequence[OpenSlot], lead: Counter[str], draw: int
) -> tuple[OpenSlot, Side] | None:
    """Return the slot to show next and its side; None if no slot is open.

    A slot that a roster keeps for the rater comes first. Of each pair the first slot is taken, so that its
    sides are even whenever a couple is full. A slot whose side is fixed comes before one of a pair that
    nobody was shown, and the coin leans to the side on which more of them are fixed: so the last raters find
    pairs that they can be shown on either side. A prompt that the rater has just read waits if it can.

    Args:
        open_slots: The slots in the order of hand-out.
        lead: How often each method was text A less how often it was text B on the rater's screen.
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

    def cost(option: tuple[OpenSlot, Side]) -> tuple[int, int, bool, bool, bool]:
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
    return min(options, key=cost, default=None)
