"""On which side a rater has seen the methods so far, and which showing would even it out."""

from __future__ import annotations

from collections import Counter

from guard_eval.store.orders import First, Place


class Sides:
    """One rater's sides: how often each method, and each comparison's first one, was A less how often B."""

    def __init__(self) -> None:
        self._methods: Counter[str] = Counter()
        self._comparisons: Counter[tuple[str, str]] = Counter()
        self._datasets: Counter[tuple[str, str, str]] = Counter()

    def add(self, place: Place, first: First, *, times: int = 1) -> None:
        """Count a showing, or several alike."""
        sign = times if first == "a" else -times
        self._methods[place.method_a] += sign
        self._methods[place.method_b] -= sign
        self._comparisons[place.method_a, place.method_b] += sign
        self._datasets[place.method_a, place.method_b, place.dataset] += sign

    def cost(self, place: Place, first: First) -> tuple[int, int]:
        """Return how far a showing would move the sides from even: negative when it evens them out.

        First comes what it does to the two methods and to their comparison together, as the growth of the
        sum of squared differences but for a constant; then what it does within the dataset.
        """
        sign = 1 if first == "a" else -1
        methods = self._methods[place.method_a] - self._methods[place.method_b]
        comparison = self._comparisons[place.method_a, place.method_b]
        dataset = self._datasets[place.method_a, place.method_b, place.dataset]
        return sign * (methods + comparison), sign * dataset
