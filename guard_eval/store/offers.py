"""The study's pairs a rater could be shown next, and which of them evens out its sides."""

from __future__ import annotations

from collections.abc import Iterator

from guard_eval.store import slots
from guard_eval.store.past import Past
from guard_eval.store.slots import Free, Turn

_CHOICE = 8
"""Among how many pairs the next one is chosen, where there are so many."""

_LOOK = 16
"""How many pairs are looked at together."""


class Offers:
    """The next few pairs of a rater's order that have a free slot, looked up as they are needed.

    A roster's rater is offered the pairs that are kept for it, and others only when it is through with them.
    """

    def __init__(self, turn: Turn, past: Past) -> None:
        self._turn = turn
        self._past = past
        self._open: dict[str, list[Free]] = {}
        self._ranks: dict[str, int] = {}
        order = [
            pair_id for pair_id in turn.orders.of(turn.plan.seed, turn.rater.name) if pair_id not in past.seen
        ]
        mine = {pair_id for pair_id in order if self._is_kept(pair_id)} if turn.has_roster else set()
        self._groups = [self._looks([pair_id for pair_id in order if pair_id in mine])] if mine else []
        self._groups.append(
            self._looks([pair_id for pair_id in order if pair_id not in mine] if mine else order)
        )

    def take(self) -> tuple[str, Free] | None:
        """Take the slot that evens out the rater's sides best, and count it as shown; None if there is none.

        Of slots that do so equally, one of a pair that leaves no choice of sides comes first: the others will
        still do when that is gone.
        """
        while True:
            self._refill()
            offers = [(pair_id, slot) for pair_id in self._open for slot in self._open[pair_id]]
            if not offers:
                return None
            pair_id, slot = min(offers, key=self._merit)
            del self._open[pair_id]
            if slots.take(self._turn, slot):
                self._past.add(self._turn, pair_id, slot.first, "study")
                return pair_id, slot

    def _merit(self, offer: tuple[str, Free]) -> tuple[int, ...]:
        pair_id, slot = offer
        methods, dataset = self._past.sides.cost(self._turn.orders.places[pair_id], slot.first)
        return methods, len(self._open[pair_id]), dataset, self._ranks[pair_id], slot.slot

    def _refill(self) -> None:
        while self._groups and len(self._open) < _CHOICE:
            look = next(self._groups[0], None)
            if look is not None:
                for pair_id, free in slots.free(self._turn, look).items():
                    self._ranks[pair_id] = len(self._ranks)
                    # slots come in couples of one side each: a pair is even whenever all its couples are full
                    self._open[pair_id] = [slot for slot in free if slot.slot // 2 == free[0].slot // 2]
            elif self._open and len(self._groups) > 1:
                return
            else:
                del self._groups[0]

    def _is_kept(self, pair_id: str) -> bool:
        kept = self._turn.orders.kept.get(pair_id, ())
        return any(slot.rater_id == self._turn.rater.id for slot in kept)

    def _looks(self, pair_ids: list[str]) -> Iterator[list[str]]:
        """Yield the pairs in parts; after the first, those that others have filled are left out."""
        yield pair_ids[:_LOOK]
        if len(pair_ids) > _LOOK:
            full = slots.unavailable(self._turn)
            rest = [pair_id for pair_id in pair_ids[_LOOK:] if pair_id not in full]
            for start in range(0, len(rest), _LOOK):
                yield rest[start : start + _LOOK]
