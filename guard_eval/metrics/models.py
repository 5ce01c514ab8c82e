"""What the metrics for which a model reads texts have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from guard_eval.metrics.outcomes import Outcome

if TYPE_CHECKING:  # who measures texts alone needs no torch
    from guard_eval.engines.lazy import LazyModel

KEPT_AT_ONCE = 256
"""Texts after which what a model said is put on disk."""

Item = TypeVar("Item")

Progress = Callable[[str, int, int], None]
"""Told the stage, how many more of its steps are done, and how many it has."""

Found = dict[tuple[str, str], list[Outcome]]
"""Outcomes by dataset and strategy."""


class Models(Protocol):
    """Where models come from."""

    def causal(self, name: str) -> LazyModel:
        """Return a language model."""

    def encoder(self, name: str) -> LazyModel:
        """Return an encoder."""


def in_chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Return items as they are put on disk: so many at once."""
    return [items[start : start + KEPT_AT_ONCE] for start in range(0, len(items), KEPT_AT_ONCE)]
