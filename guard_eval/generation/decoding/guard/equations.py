"""GUARD by the paper's printed equations (`eq:hglob`, `eq:kt` to `eq:alphat`).

The equations do not define some details. This module defines them as follows:

- Steps count from t = 1. The window H(X)_{t−w:t−1} does not contain the current step, and is shorter than w
  at the beginning. At t = 1 the window is empty, and all differences are 0.
- The median of H_glob,t is H_glob,t, because H_glob,t is one number.
- arctanh's argument is clamped to ±(1 − 1e-6).
- k_t is rounded down. For α_t, ln k_t replaces ln|V| within arctanh, and λ_k is not computed again.
- x_<k_t in `eq:acs` means x_<t. Only generated tokens are counted.
- Of equal scores, the smallest token id wins.

Scalars are float64. No function waits for the device, so a GPU always has work in its queue.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.generation.decoding.entropy import CLAMP, average_entropies, map_entropy_gap
from guard_eval.generation.strategies import Guard, Mapping

EPSILON = 1e-6
K_MIN, K_RANGE = 5, 10
"""k_t is from 5 to 15 (`eq:kt`)."""


class AdaptedParameters(NamedTuple):
    """GUARD's parameters k_t and α_t at a step, and their intermediate values, `[B]` each, float64.

    Attributes:
        k: k_t, the number of candidates, a whole number.
        log_alpha: ln α_t, the logarithm of the penalty, which is finite even if α_t rounds to 0.
        q: The amplification q.
        change: r_change, the relative change of the entropy.
        difference: r_difference, the relative difference of the local and the global entropy.
        delta_loc: The local deviation δ_loc, computed with ln|V|.
        delta_glob: The global deviation δ_glob, computed with ln|V|.
        weight: λ_k, the weight of δ_loc.
    """

    k: Tensor
    log_alpha: Tensor
    q: Tensor
    change: Tensor
    difference: Tensor
    delta_loc: Tensor
    delta_glob: Tensor
    weight: Tensor


def compute_relative_change(entropy: Tensor, previous: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return r_change, the relative change from H(X)_{t−1} to H(X)_t, `[B]` each. Source: `eq:rchange`."""
    return (entropy - previous).abs() / (previous + epsilon)


def compute_relative_difference(local: Tensor, global_entropy: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return r_difference of the window's median and H_glob,t, `[B]` each. Source: `eq:rdiff`."""
    return (local - global_entropy).abs() / (local + epsilon)


def compute_amplification(change: Tensor, difference: Tensor) -> Tensor:
    """Return the amplification q = 1 + r_change + r_difference, `[B]` each. Source: `eq:q`."""
    return 1 + change + difference


def compute_entropy_gaps(entropy: Tensor, local: Tensor, global_entropy: Tensor) -> Tensor:
    """Return H(X)_t − med and med − H_glob,t, the numerators of δ_loc and δ_glob, `[2, B]`."""
    return torch.stack([entropy - local, local - global_entropy])


def compute_entropy_deviations(
    q: Tensor,
    gaps: Tensor,
    log_size: Tensor | float,
    mapping: Mapping = "arctanh",
    limit: float = CLAMP,
) -> Tensor:
    """Return the local and global deviations of the entropy, δ_loc and δ_glob, `[2, B]`.

    Args:
        q: The amplification, `[B]`.
        gaps: The result of `compute_entropy_gaps`, `[2, B]`.
        log_size: The divisor within arctanh: ln|V| for k_t, or ln k_t, `[B]`, for α_t.
        mapping: The name of the function: `arctanh`, or `log`, which replaces arctanh.
        limit: The largest absolute argument of arctanh.

    Source: `eq:deltaloc`, `eq:deltaglob`.
    """
    return q * map_entropy_gap(gaps / log_size, mapping, limit)


def compute_local_weight(deltas: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return λ_k, the weight of δ_loc, `[B]`, from δ_loc and δ_glob, `[2, B]`. Source: `eq:lanbda`."""
    sizes = deltas.abs()
    return sizes[0] / (sizes.sum(0) + epsilon)


def combine_entropy_deviations(weight: Tensor, deltas: Tensor) -> Tensor:
    """Return λ_k δ_loc + (1 − λ_k) δ_glob, `[B]`, the exponent of `eq:kt` and `eq:alphat`."""
    return deltas[1].lerp(deltas[0], weight)


def compute_candidate_number(exponent: Tensor) -> Tensor:
    """Return the number of candidates k_t before rounding, 10 σ(exponent) + 5, `[B]`. Source: `eq:kt`."""
    return K_RANGE * exponent.sigmoid() + K_MIN


def compute_log_penalty(exponent: Tensor) -> Tensor:
    """Return ln α_t = ln σ(exponent), `[B]`, which is finite even if α_t rounds to 0. Source: `eq:alphat`."""
    return torch.nn.functional.logsigmoid(exponent)


def adapt_parameters(
    entropies: Tensor, global_entropy: Tensor, log_vocabulary: float, strategy: Guard
) -> AdaptedParameters:
    """Return k_t, ln α_t and their intermediate values.

    Args:
        entropies: The last entropies H(X)_{t−w} … H(X)_t, or fewer in the first steps, `[n, B]`, n ≤ w + 1.
        global_entropy: H_glob,t, `[B]`.
        log_vocabulary: ln|V|.
        strategy: GUARD, with its aggregation and mapping.
    """
    entropy = entropies[-1]
    window = entropies[:-1]
    if len(window):
        before = window[-1]
        local = average_entropies(window, strategy.aggregation)
    else:  # so all differences are 0
        before = local = global_entropy = entropy
    change = compute_relative_change(entropy, before)
    difference = compute_relative_difference(local, global_entropy)
    q = compute_amplification(change, difference)
    gaps = compute_entropy_gaps(entropy, local, global_entropy)
    for_k = compute_entropy_deviations(q, gaps, log_vocabulary, strategy.mapping)
    weight = compute_local_weight(for_k)
    k = compute_candidate_number(combine_entropy_deviations(weight, for_k)).floor()
    for_alpha = compute_entropy_deviations(q, gaps, k.log(), strategy.mapping)
    log_alpha = compute_log_penalty(combine_entropy_deviations(weight, for_alpha))
    return AdaptedParameters(k, log_alpha, q, change, difference, for_k[0], for_k[1], weight)
