"""Entropy at a step and over the steps so far, for ACS and GUARD. Logarithms are natural.

The paper names the winsorized mean and the logarithmic map (`tab:median_selection`) without formulas. The
formulas here are our interpretation of these names.
"""

from typing import assert_never

import torch
from torch import Tensor

from guard_eval.generation.strategies import Aggregation, Mapping

CLAMP = 1 - 1e-6
"""The largest absolute argument of arctanh. The paper has no limit, but an argument can be above 1, because
the difference of entropies can be larger than ln k_t."""

_NOTHING = -200.0
"""The lower limit of a logit minus the row's largest logit. In float32, exp(−200) · −200 is 0, but
exp(−inf) · −inf is NaN."""

WINSORIZED = 0.1
"""The share of values at each end that the winsorized mean replaces by a quantile."""

SMOOTHING = 1e-5
"""The number that the authors' released program adds to a probability before the logarithm."""


def shannon_entropy(logits: Tensor, largest_logit: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return H(X)_t = −Σ p ln p, in nats, and ln Σ exp(logits).

    A token's ln p is the token's logit minus ln Σ exp(logits). With the largest logit m, Z = Σ exp(x − m) and
    S = Σ exp(x − m)(x − m), the entropy is ln Z − S / Z. This formula needs one pass over the logits and no
    table of probabilities.

    Args:
        logits: The logits, `[B, V]`. −inf marks a token that cannot be chosen.
        largest_logit: The largest logit of each row, `[B, 1]`, float32, if known.

    Returns:
        The two numbers for each row, `[B]` each, float64.

    Source: the display before `eq:hglob`.
    """
    shifted, largest_logit = _subtract_largest_logit(logits, largest_logit)
    weight = shifted.exp()
    z = weight.sum(-1).double()
    log_z = z.log()
    s = weight.mul_(shifted).sum(-1).double()
    return log_z - s / z, log_z + largest_logit[:, 0]


def compute_log_normaliser(logits: Tensor) -> Tensor:
    """Return ln Σ exp(logits) for each row of logits `[B, V]`, as `[B]`, float64."""
    shifted, largest_logit = _subtract_largest_logit(logits, None)
    return shifted.exp_().sum(-1).double().log() + largest_logit[:, 0]


def compute_smoothed_entropy(logits: Tensor, largest_logit: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return −Σ p ln(p + 1e-5), as in the authors' program, and ln Σ exp(logits).

    Arguments and returns are as in `shannon_entropy`. The first result is below the entropy, and far below it
    if tokens with p below 1e-5 have much of the probability. If one token is certain, the first result is
    −1e-5.
    """
    shifted, largest_logit = _subtract_largest_logit(logits, largest_logit)
    weight = shifted.exp_()
    z = weight.sum(-1).double()
    p = weight.mul_(z.reciprocal().float()[:, None])
    return -(p + SMOOTHING).log_().mul_(p).sum(-1).double(), z.log() + largest_logit[:, 0]


def _subtract_largest_logit(logits: Tensor, largest_logit: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return logits minus each row's largest logit, `[B, V]`, at least −200, and the largest, `[B, 1]`."""
    if largest_logit is None:
        largest_logit = logits.amax(-1, keepdim=True).float()
    return (logits.float() - largest_logit).clamp_(min=_NOTHING), largest_logit


def average_entropies(entropies: Tensor, aggregation: Aggregation, *, lower_median: bool = False) -> Tensor:
    """Return the average of each text's entropies in a window of steps, `[B]`.

    Args:
        entropies: The entropies of n ≥ 1 steps, `[n, B]`.
        aggregation: The median, the mean, or the winsorized mean. The winsorized mean clamps values to the
            10 % and 90 % quantiles, which are interpolated between neighbours: the smallest of seven values
            becomes 0.4 times this value plus 0.6 times the second smallest.
        lower_median: For an even number of values, use the lower of the two middle values as the median, not
            the mean of both.
    """
    match aggregation:
        case "mean":
            return entropies.mean(0)
        case "winsorized":
            return _compute_winsorized_mean(entropies.sort(0).values)
        case "median":
            return _compute_median(entropies.sort(0).values, lower_median=lower_median)
        case _:
            assert_never(aggregation)


def _compute_winsorized_mean(sorted_values: Tensor) -> Tensor:
    n = len(sorted_values)
    position = WINSORIZED * (n - 1)
    below = int(position)
    above = min(below + 1, n - 1)
    share = position - below
    low = sorted_values[below].lerp(sorted_values[above], share)
    high = sorted_values[-1 - below].lerp(sorted_values[-1 - above], share)
    return torch.maximum(torch.minimum(sorted_values, high), low).mean(0)


def _compute_median(sorted_values: Tensor, *, lower_median: bool) -> Tensor:
    n = len(sorted_values)
    if lower_median or n % 2:
        return sorted_values[(n - 1) // 2]
    return (sorted_values[n // 2 - 1] + sorted_values[n // 2]) / 2


def compute_clamped_arctanh(x: Tensor, limit: float = CLAMP) -> Tensor:
    """Return arctanh of `x`, clamped to ±`limit` so that the result is finite."""
    return x.clamp(-limit, limit).arctanh()


def map_entropy_gap(x: Tensor, mapping: Mapping, limit: float) -> Tensor:
    """Return arctanh(x), with `x` clamped to ±`limit`, or for the mapping `log` sign(x) · ln(1 + |x|)."""
    match mapping:
        case "arctanh":
            return compute_clamped_arctanh(x, limit)
        case "log":
            return x.abs().log1p().copysign(x)
        case _:
            assert_never(mapping)
