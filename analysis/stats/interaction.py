"""Test whether a share depends on a property, such as the language, with random permutations.

If the property has no effect, each unit (prompt) could have any value of the property, so the test exchanges
the values between units. If each unit has several values, such as raters of two countries, the test exchanges
the values within units. In both cases the items of one unit may depend on each other. The statistic is the
sum of squares between the values (Pitman 1938, on the analysis of variance).
"""

import numpy as np
from numpy.typing import ArrayLike

from guard_eval.estimate import ROUNDING, Estimate, Floats, Integers

DRAWS = 9_999
"""The number of random permutations."""
FEWEST_DRAWS = 999
"""The smallest number of random permutations, for large tables."""
MAX_PERMUTED = 30_000_000
"""The largest number of values that all permutations together may sort."""
_BLOCK = 1 << 22
_ROUNDING = 1e-9
"""Smaller relative differences of the statistic are rounding errors."""


def run_interaction_test(
    sums: ArrayLike,
    sizes: ArrayLike,
    values: ArrayLike,
    units: ArrayLike,
    *,
    name: str = "prompts",
    seed: int = 0,
) -> Estimate:
    """Test whether the mean depends on a property.

    Args:
        sums: The sum of the scores of each part, [parts]. A part is all items of one unit with one value.
        sizes: The number of items of each part, [parts].
        values: The value of each part, numbered from 0, [parts].
        units: The unit of each part, a number or a name, [parts].
        name: The units' name in the plural.
        seed: The seed of the permutations.

    Returns:
        The p-value; `n` is the number of units. p is None if no two values can be exchanged.
    """
    unit = np.unique(units, return_inverse=True)[1]
    count = int(unit.max()) + 1
    is_within = count < len(unit)
    scope = "within" if is_within else "over"
    strata = unit if is_within else np.zeros_like(unit)
    order = np.argsort(strata, kind="stable")
    strata, labels, total, size = (np.asarray(column)[order] for column in (strata, values, sums, sizes))
    method = f"permutations of the values {scope} {name}"
    cells = {*zip(strata.tolist(), labels.tolist(), strict=True)}
    if len(cells) == len({*strata.tolist()}):
        return Estimate(n=count, method=method, note="no two values can be exchanged")
    mean = total.sum() / size.sum()
    centred = total - size * mean
    observed = _sum_squares_between_values(centred, size, labels[None, :])[0]
    draws = max(FEWEST_DRAWS, min(DRAWS, MAX_PERMUTED // len(labels)))
    block = max(1, _BLOCK // len(labels))
    rng = np.random.default_rng(seed)
    reached = 0
    for begin in range(0, draws, block):
        rows = min(block, draws - begin)
        # Adding random numbers below one to the numbers of the strata gives each stratum a random order.
        keys = strata + rng.random((rows, len(labels)))
        shuffled = labels[np.argsort(keys, axis=1)]
        between = _sum_squares_between_values(centred, size, shuffled)
        is_reached = between >= observed * (1 - _ROUNDING) - ROUNDING
        reached += int(is_reached.sum())
    p = (1 + reached) / (1 + draws)
    return Estimate(p=p, n=count, method=f"{draws:,} random {method}")


def _sum_squares_between_values(centred: Floats, size: Floats, labels: Integers) -> Floats:
    """Compute the sum of squares between the values, for each row of labels, [rows, parts] → [rows]."""
    result = np.zeros(len(labels))
    for value in range(int(labels.max()) + 1):
        is_value = labels == value
        sizes = np.maximum(is_value @ size, 1.0)
        result += (is_value @ centred) ** 2 / sizes
    return result
