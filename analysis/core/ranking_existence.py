"""Whether comparisons determine finite strengths, and which methods are to blame where they do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph

Floats = NDArray[np.float64]


def why_undefined(wins: Floats, ties: Floats, methods: Sequence[str]) -> str:
    """Return why Davidson's likelihood has no finite maximum, or an empty string where it has one.

    It has one if and only if two things hold. Every method can be reached from every other along comparisons
    that the first did not lose (for Bradley–Terry: Ford 1957). And, if there are ties, some cycle of such
    comparisons holds more wins than ties: otherwise numbers δ exist with δ_i − δ_j ≥ 1 wherever i beat j and
    |δ_i − δ_j| ≤ 1 wherever they tied, and moving the strengths along 2δ and log ν along 1 never lowers the
    likelihood of any verdict. Such δ are the potentials of a graph without a negative cycle.
    """
    groups = components_of(wins, ties, methods)
    if len(groups) > 1:
        names = " and ".join("{" + ", ".join(group) + "}" for group in groups)
        return f"the groups {names} are never compared with each other; rank each by itself"
    held = (wins > 0) | (ties > 0)
    count, group_of = csgraph.connected_components(held.astype(float), directed=True, connection="strong")
    if count > 1:
        return _one_way(held, methods, group_of)
    if not ties.any():
        return ""
    lengths = np.where(wins > 0, -1.0, np.where(ties > 0, 1.0, 0.0))
    try:
        csgraph.bellman_ford(lengths, directed=True, indices=[0])
    except csgraph.NegativeCycleError:
        return ""
    blame = _blame(
        [name for name, lost in zip(methods, wins.sum(axis=0), strict=True) if not lost],
        [name for name, won in zip(methods, wins.sum(axis=1), strict=True) if not won],
    )
    cause = "no cycle of comparisons holds more wins than ties, so strengths and ν would grow without limit"
    return f"{blame}; {cause}" if blame else cause


def _one_way(held: NDArray[np.bool_], methods: Sequence[str], group_of: NDArray[np.int32]) -> str:
    best: list[str] = []
    worst: list[str] = []
    for group in range(int(group_of.max()) + 1):
        inside = group_of == group
        names = [name for name, member in zip(methods, inside, strict=True) if member]
        if not held[np.ix_(~inside, inside)].any():
            best += names
        if not held[np.ix_(inside, ~inside)].any():
            worst += names
    return _blame(best, worst, " or tie against the other methods") + "; their strengths would be infinite"


def components_of(wins: Floats, ties: Floats, methods: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of methods that comparisons connect, directly or through others."""
    count, group_of = csgraph.connected_components(wins + ties, directed=False)
    return tuple(
        tuple(name for name, its in zip(methods, group_of, strict=True) if its == group)
        for group in range(count)
    )


def _blame(best: Sequence[str], worst: Sequence[str], more: str = "") -> str:
    parts = [
        f"without a {what}{more}: {', '.join(names)}"
        for names, what in ((best, "loss"), (worst, "win"))
        if names
    ]
    return "; ".join(parts)
