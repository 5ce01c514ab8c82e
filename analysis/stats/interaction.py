"""Does a share depend on a property, such as the language? A permutation test.

If the property does not matter, its values could stand at any of the units (prompts), so the test exchanges
them. If units have several values each, such as raters of two countries on every prompt, they are exchanged
within units. Either way the items of one unit may depend on each other. The statistic is the sum of squares
between the values (Pitman 1938, on the analysis of variance).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval.estimate import Estimate

DRAWS, FEWEST_DRAWS = 9_999, 999
"""Random permutations; large tables have fewer."""
MAX_PERMUTED = 30_000_000
"""Numbers that all permutations together may sort."""
_BLOCK = 1 << 22
_ROUNDING = 1e-9
"""Relative differences of the statistic up to this one are rounding."""


def interaction(
    sums: ArrayLike, sizes: ArrayLike, values: ArrayLike, units: ArrayLike, *, seed: int = 0
) -> Estimate:
    """Test whether the mean depends on a property.

    Args:
        sums: The sum of the scores of each part, which is all of a unit's items with one value, [parts].
        sizes: The number of its items, [parts].
        values: The number of its value, from 0, [parts].
        units: The number of its unit, [parts].
        seed: The seed of the permutations.

    Returns:
        The p-value; `n` is the number of units. Without two values that could be exchanged there is none.
    """
    total, size = np.asarray(sums, dtype=float), np.asarray(sizes, dtype=float)
    labels, unit = np.asarray(values), np.asarray(units)
    is_within = len(np.unique(unit)) < len(unit)
    strata = unit if is_within else np.zeros_like(unit)
    order = np.argsort(strata, kind="stable")
    total, size, labels, strata = total[order], size[order], labels[order], strata[order]
    where = "within prompts" if is_within else "over prompts"
    estimate = Estimate(n=len(np.unique(unit)), method=f"permutations of the values {where}")
    if not _can_change(labels, strata):
        return Estimate(n=estimate.n, method=estimate.method, note="no two values can be exchanged")
    centred = total - size * total.sum() / size.sum()
    observed = _between(centred, size, labels[None, :])[0]
    count, draws = 0, max(FEWEST_DRAWS, min(DRAWS, MAX_PERMUTED // len(labels)))
    rng, left = np.random.default_rng(seed), draws
    while left:
        block = min(left, max(1, _BLOCK // len(labels)))
        # Random numbers below one, added to the numbers of the strata, put each stratum in a random order.
        shuffled = labels[np.argsort(strata + rng.random((block, len(labels))), axis=1)]
        count += int((_between(centred, size, shuffled) >= observed * (1 - _ROUNDING)).sum())
        left -= block
    p = (1 + count) / (1 + draws)
    return Estimate(p=p, n=estimate.n, method=f"{draws:,} random {estimate.method}")


def _can_change(labels: NDArray[np.int64], strata: NDArray[np.int64]) -> bool:
    """Return whether some stratum has two values."""
    parts = np.stack([strata, labels], axis=1)
    return len(np.unique(parts, axis=0)) > len(np.unique(strata))


def _between(
    centred: NDArray[np.float64], size: NDArray[np.float64], labels: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the sum of squares between the values of each row of labels, [rows, parts] → [rows]."""
    result = np.zeros(len(labels))
    for value in range(int(labels.max()) + 1):
        is_value = labels == value
        result += (is_value @ centred) ** 2 / np.maximum(is_value @ size, 1.0)
    return result
