"""Uncertainty at a step and over the steps so far, which ACS and GUARD adapt to. Logarithms are natural.

The paper names the winsorized mean and the logarithmic map (`tab:median_selection`) without a formula; those
here are our reading of the names.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor

from guard_eval.generation.strategies import Aggregation, Mapping

CLAMP = 1 - 1e-6
"""Where the argument of arctanh ends on either side: the paper is silent, and ln k_t does get exceeded."""

_NOTHING = -200.0
"""exp(−200) is 0 in float32, and 0 · −200 is 0, as it should be, where 0 · −inf is no number."""

WINSORIZED = 0.1
"""The share of a window, at either end, that the winsorized mean draws in."""

SMOOTHING = 1e-5
"""What the authors' released program adds to a probability within the logarithm."""


def shannon_entropy(logits: Tensor, best: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return H(X)_t = −Σ p ln p, in nats, and ln Σ exp(logits): ln p of a token is its logit less the latter.

    With m the largest logit, Z = Σ exp(x − m) and S = Σ exp(x − m)(x − m), it is ln Z − S / Z: one pass over
    the logits, and no table of probabilities.

    Args:
        logits: `[B, V]`; −inf is a token that cannot come.
        best: The largest of each row, `[B, 1]`, float32, if it is known.

    Returns:
        `[B]` and `[B]`, float64.

    Source: the display before `eq:hglob`.
    """
    shifted, best = _shifted(logits, best)
    weight = shifted.exp()
    z = weight.sum(-1).double()
    log_z = z.log()
    return log_z - weight.mul_(shifted).sum(-1).double() / z, log_z + best[:, 0]


def log_normaliser(logits: Tensor) -> Tensor:
    """Return ln Σ exp(logits) of `[B, V]`: `[B]`, float64."""
    shifted, best = _shifted(logits, None)
    return shifted.exp_().sum(-1).double().log() + best[:, 0]


def smoothed_entropy(logits: Tensor, best: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return −Σ p ln(p + 1e-5), as the authors' program has it, and ln Σ exp(logits).

    Arguments and returns as in `shannon_entropy`. It is lower than the entropy, the more so the more of the
    probability lies on tokens with p below 1e-5, and −1e-5 where one token is certain.
    """
    shifted, best = _shifted(logits, best)
    weight = shifted.exp_()
    z = weight.sum(-1).double()
    p = weight.mul_(z.reciprocal().float()[:, None])
    return -(p + SMOOTHING).log_().mul_(p).sum(-1).double(), z.log() + best[:, 0]


def _shifted(logits: Tensor, best: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return x − m, `[B, V]`, held where it is a number, and m, `[B, 1]`."""
    best = logits.amax(-1, keepdim=True).float() if best is None else best
    return (logits.float() - best).clamp_(min=_NOTHING), best


def aggregate(window: Tensor, how: Aggregation, *, lower: bool = False) -> Tensor:
    """Return one number for each row's window, `[n, B]` → `[B]`, n ≥ 1.

    Args:
        window: Entropies, a step per line.
        how: The median, the mean, or the winsorized mean, whose ends are drawn in to the 10 % and 90 %
            quantiles. These lie on the line between neighbours, since a tenth of so few values is less than
            one value: of seven, the smallest becomes 0.4 of itself and 0.6 of the second.
        lower: Of an even count, the median is the lower of the middle two rather than their mean.
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
    """Return arctanh of `x` held within ±`edge`, where it is finite."""
    return x.clamp(-edge, edge).arctanh()


def apply_mapping(x: Tensor, mapping: Mapping, edge: float) -> Tensor:
    """Return arctanh(x) with `x` held within ±`edge`, or sign(x) · ln(1 + |x|)."""
    match mapping:
        case "arctanh":
            return arctanh(x, edge)
        case "log":
            return x.abs().log1p().copysign(x)
        case _:
            assert_never(mapping)
