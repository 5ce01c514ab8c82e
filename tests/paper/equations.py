"""GUARD's equations for one step, in plain numbers: a second implementation beside `guard_eval.decoding`.

Where the equations are silent this is silent too: arctanh outside (−1, 1) is an error.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

EPSILON = 1e-6


class Step(NamedTuple):
    """q (`eq:q`), k_t before rounding (`eq:kt`), and α_t (`eq:alphat`): None where arctanh has no value."""

    q: float
    k: float
    alpha: float | None


def sigmoid(x: float) -> float:
    """Return 1 − 1/(exp(x) + 1), without overflow."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def step(entropies: Sequence[float], vocabulary: int, *, window: int = 7, decay: float = 0.95) -> Step:
    """Return GUARD's parameters after `entropies` H_1 … H_t, t ≥ 2.

    Raises:
        ValueError: `eq:deltaloc` or `eq:deltaglob` has no value.
    """
    now, before = entropies[-1], entropies[-2]
    level = statistics.median(entropies[-1 - window : -1])
    raw = [decay**age for age in range(len(entropies))]
    overall = sum(w * h for w, h in zip(raw, reversed(entropies), strict=True)) / sum(raw)
    q = 1 + abs(now - before) / (before + EPSILON) + abs(level - overall) / (level + EPSILON)

    def both(size: float) -> tuple[float, float]:
        return q * math.atanh((now - level) / size), q * math.atanh((level - overall) / size)

    local, trend = both(math.log(vocabulary))
    weight = abs(local) / (abs(local) + abs(trend) + EPSILON)
    k = 10 * sigmoid(weight * local + (1 - weight) * trend) + 5
    try:
        local, trend = both(math.log(math.floor(k)))
    except ValueError:
        return Step(q, k, None)
    return Step(q, k, sigmoid(weight * local + (1 - weight) * trend))
