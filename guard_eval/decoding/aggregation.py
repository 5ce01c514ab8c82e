"""What GUARD makes of a window of entropies, and of a deviation: the paper's choices and the ablated ones.

The paper names the winsorized mean and the logarithmic map (`tab:median_selection`) without a formula; those
here are our reading of the names.
"""

from __future__ import annotations

import torch
from torch import Tensor

from guard_eval.decoding.entropy import arctanh
from guard_eval.strategies import Aggregation, Mapping

WINSORIZED = 0.1
"""The share of a window, at either end, that the winsorized mean draws in."""


def aggregate(window: Tensor, how: Aggregation, *, lower: bool = False) -> Tensor:
    """Return one number for each row's window, `[n, B]` → `[B]`, n ≥ 1.

    Args:
        window: Entropies, a step per line.
        how: The median, the mean, or the winsorized mean.
        lower: Of an even count, the median is the lower of the middle two rather than their mean.
    """
    if how == "mean":
        return window.mean(0)
    ordered = window.sort(0).values
    if how == "winsorized":
        return winsorized_mean(ordered)
    n = len(ordered)
    if lower or n % 2:
        return ordered[(n - 1) // 2]
    return (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def winsorized_mean(ordered: Tensor) -> Tensor:
    """Return the mean of each row, `[n, B]` in order, its ends drawn in to its 10 % and 90 % quantiles.

    Quantiles lie on the line between neighbours, since a tenth of so few values is less than one value: of
    seven, the smallest becomes 0.4 of itself and 0.6 of the second.
    """
    position = WINSORIZED * (len(ordered) - 1)
    below = int(position)
    share = position - below
    above = min(below + 1, len(ordered) - 1)
    low = ordered[below].lerp(ordered[above], share)
    high = ordered[-1 - below].lerp(ordered[-1 - above], share)
    return torch.maximum(torch.minimum(ordered, high), low).mean(0)


def stretched(x: Tensor, mapping: Mapping, edge: float) -> Tensor:
    """Return arctanh(x) with `x` held within ±`edge`, or sign(x) · ln(1 + |x|)."""
    if mapping == "arctanh":
        return arctanh(x, edge)
    return x.abs().log1p().copysign(x)
