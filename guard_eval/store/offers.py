"""The study's pairs a rater could be shown next, and which of them evens out its sides."""

from __future__ import annotations

from collections.abc import Iterator

from guard_eval.store import slots, vacancies
from guard_eval.store.orders import Place
from guard_eval.store.past import Past
from guard_eval.store.slots import Free, Turn

_CHOICE = 8
"""Among how many pairs the next one is chosen, where there are so many; so many are looked at together."""


class Offers:
    """The next few pairs of a rater's order that have a free slot, looked up as they are needed.

    A roster's rater is offered the pairs that are kept for it, and others only when it is through with them.
    """

    def __init__(self, turn: Turn, past: Past) -> None:
        self._turn = turn
        self._past = past
        self._open: dict[str, list[Free]] = {}
        self._places: dict[str, Place] = {}
        self._ranks: dict[str, int] = {}
        self._groups = [self._looks(vacancies.kept(turn))] if turn.has_roster else []
        self._groups.append(self._looks(vacancies.free(turn, past.shown)))

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
                self._past.add_study(self._places[pair_id], slot.first)
                return pair_id, slot

    def _merit(self, offer: tuple[str, Free]) -> tuple[int, ...]:
        pair_id, slot = offer
        methods, dataset = self._past.sides.cost(self._places[pair_id], slot.first)
        return methods, len(self._open[pair_id]), dataset, self._ranks[pair_id], slot.slot

    def _refill(self) -> None:
        while self._groups and len(self._open) < _CHOICE:
            look = next(self._groups[0], None)
            if look is not None:
                self._places.update(look)
                for pair_id, free in slots.free(self._turn, look).items():
                    self._ranks[pair_id] = len(self._ranks)
                    # slots come in couples of one side each: a pair is even whenever all its couples are full
                    self._open[pair_id] = [slot for slot in free if slot.slot // 2 == free[0].slot // 2]
            elif self._open and len(self._groups) > 1:
                return
            else:
                del self._groups[0]

    def _looks(self, parts: Iterator[dict[str, Place]]) -> Iterator[dict[str, Place]]:
        """Yield the pairs few at a time, each once."""
        for part in parts:
            new = [(pair_id, place) for pair_id, place in part.items() if pair_id not in self._places]
            for start in range(0, len(new), _CHOICE):
                yield dict(new[start : start + _CHOICE])
