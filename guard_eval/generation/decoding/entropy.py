"""Entropy at a step and over the steps so far, as used by ACS and GUARD. Logarithms are natural.

The paper names the winsorized mean and the logarithmic map (`tab:median_selection`) without formulas. The
formulas here are our reading of the names.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor

from guard_eval.generation.strategies import Aggregation, Mapping

CLAMP = 1 - 1e-6
"""The largest absolute argument of arctanh. The paper names none, but an argument can be above 1: the
difference of entropies can be larger than ln k_t."""

_NOTHING = -200.0
"""The smallest shifted logit. exp(−200) is 0 in float32, and 0 · −200 is 0, but 0 · −inf is NaN."""

WINSORIZED = 0.1
"""The share of values at each end that the winsorized mean replaces by a quantile."""

SMOOTHING = 1e-5
"""The number that the authors' released program adds to a probability before the logarithm."""


def shannon_entropy(logits: Tensor, best: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return H(X)_t = −Σ p ln p, in nats, and ln Σ exp(logits). A token's ln p is its logit minus that.

    With the largest logit m, Z = Σ exp(x − m) and S = Σ exp(x − m)(x − m), the entropy is ln Z − S / Z. This
    needs one pass over the logits and no table of probabilities.

    Args:
        logits: The logits, `[B, V]`. −inf marks a token that cannot be chosen.
        best: The largest logit of each row, `[B, 1]`, float32, if it is known.

    Returns:
        The two numbers of each row, `[B]` each, float64.

    Source: the display before `eq:hglob`.
    """
    shifted, best = _subtract_maximum(logits, best)
    weight = shifted.exp()
    z = weight.sum(-1).double()
    log_z = z.log()
    s = weight.mul_(shifted).sum(-1).double()
    return log_z - s / z, log_z + best[:, 0]


def log_normaliser(logits: Tensor) -> Tensor:
    """Return ln Σ exp(logits) of `[B, V]`: `[B]`, float64."""
    shifted, best = _subtract_maximum(logits, None)
    return shifted.exp_().sum(-1).double().log() + best[:, 0]


def smoothed_entropy(logits: Tensor, best: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return −Σ p ln(p + 1e-5), as in the authors' program, and ln Σ exp(logits).

    Arguments and returns are as in `shannon_entropy`. The result is below the entropy, and far below it if
    tokens with p below 1e-5 have much of the probability. If one token is certain, the result is −1e-5.
    """
    shifted, best = _subtract_maximum(logits, best)
    weight = shifted.exp_()
    z = weight.sum(-1).double()
    p = weight.mul_(z.reciprocal().float()[:, None])
    return -(p + SMOOTHING).log_().mul_(p).sum(-1).double(), z.log() + best[:, 0]


def _subtract_maximum(logits: Tensor, best: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return x − m, `[B, V]`, clamped to finite numbers, and m, `[B, 1]`."""
    if best is None:
        best = logits.amax(-1, keepdim=True).float()
    return (logits.float() - best).clamp_(min=_NOTHING), best


def aggregate(window: Tensor, how: Aggregation, *, lower: bool = False) -> Tensor:
    """Return one number for each text's window, `[n, B]` → `[B]`, n ≥ 1.

    Args:
        window: The entropies, one row for each step.
        how: The median, the mean, or the winsorized mean. The last one clamps values to the 10 % and 90 %
            quantiles, which are interpolated between neighbours: of seven values, the smallest becomes
            0.4 times itself plus 0.6 times the second.
        lower: With an even number of values, the median is the lower of the middle two, not their mean.
    """
    match how:
        case "mean":
            return window.mean(0)
        case "winsorized":
            return _winsorized_mean(window.sort(0).values)
        case "median":
            return _median(window.sort(0).values, lower=lower)
        case _:
            assert_never(how)


def _winsorized_mean(ordered: Tensor) -> Tensor:
    n = len(ordered)
    position = WINSORIZED * (n - 1)
    below = int(position)
    above = min(below + 1, n - 1)
    share = position - below
    low = ordered[below].lerp(ordered[above], share)
    high = ordered[-1 - below].lerp(ordered[-1 - above], share)
    return torch.maximum(torch.minimum(ordered, high), low).mean(0)


def _median(ordered: Tensor, *, lower: bool) -> Tensor:
    n = len(ordered)
    if lower or n % 2:
        return ordered[(n - 1) // 2]
    return (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def arctanh(x: Tensor, edge: float = CLAMP) -> Tensor:
    """Return arctanh of `x` clamped to ±`edge`, so that it is finite."""
    return x.clamp(-edge, edge).arctanh()


def apply_mapping(x: Tensor, mapping: Mapping, edge: float) -> Tensor:
    """Return arctanh(x) with `x` clamped to ±`edge`, or sign(x) · ln(1 + |x|)."""
    match mapping:
        case "arctanh":
            return arctanh(x, edge)
        case "log":
            return x.abs().log1p().copysign(x)
        case _:
            assert_never(mapping)
