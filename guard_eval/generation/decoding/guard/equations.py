"""GUARD's k_t and α_t by the paper's printed equations (`eq:hglob`, `eq:kt` to `eq:alphat`).

`adapt_by_algorithm1` and `adapt_by_released_program` are the two other formulations. The equations do not
define some details. `adapt_parameters` defines them as follows:

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
RELEASED_EPSILON = 1e-4
RELEASED_CLAMP = 1 - RELEASED_EPSILON
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


def adapt_by_algorithm1(
    entropies: Tensor, global_entropy: Tensor, log_vocabulary: float, strategy: Guard
) -> AdaptedParameters:
    """Return k_t, ln α_t and their intermediate values by the paper's Algorithm 1 (`app:C`).

    The differences from the equations: the window's last entropy is the current entropy. In the first w − 1
    steps, q = 1, δ_loc = 0, and δ_glob compares the current entropy with all entropies so far. r_diff is
    divided by H_glob,T. For α_t the deltas are multiplied by ln k_t, but the equations divide by ln k_t
    within arctanh.

    The algorithm does not define some details. This function defines them as follows:

    - Arrays count from 1, so `entropy_history[T-1]` is H_{T−1}. If arrays counted from 0, this would be the
      current entropy, and r_change would always be 0.
    - For w = 1, r_change is 0 at t = 1.
    - k_t is rounded down before its logarithm. arctanh's argument is clamped as in the equations.

    Arguments are as in `adapt_parameters`.
    """
    entropy = entropies[-1]
    local = average_entropies(entropies[-strategy.window :], strategy.aggregation)
    if len(entropies) < strategy.window:
        change = difference = torch.zeros_like(global_entropy)
        gaps = torch.stack([change, entropy - local])
    else:
        change = compute_relative_change(entropy, entropies[-2:][0])
        # The arguments are exchanged, because H_glob,T is the divisor here.
        difference = compute_relative_difference(global_entropy, local)
        gaps = compute_entropy_gaps(entropy, local, global_entropy)
    q = compute_amplification(change, difference)
    both = compute_entropy_deviations(q, gaps, log_vocabulary, strategy.mapping)
    weight = compute_local_weight(both)
    exponent = combine_entropy_deviations(weight, both)
    k = compute_candidate_number(exponent).floor()
    log_alpha = compute_log_penalty(exponent * k.log())
    return AdaptedParameters(k, log_alpha, q, change, difference, both[0], both[1], weight)


def adapt_by_released_program(
    entropies: Tensor, global_entropy: Tensor, log_vocabulary: float, strategy: Guard
) -> AdaptedParameters:
    """Return k_t, ln α_t and their intermediate values by the authors' released program.

    The differences from the equations:

    - The entropy is −Σ p ln(p + 1e-5).
    - Windows end with the current step, and the window that is compared with H_glob,t is one step shorter.
      The median of an even number of values is the lower of the middle two.
    - In the first w − 1 steps, δ_glob and r_difference are 0, and δ_loc compares the current entropy with all
      entropies so far.
    - r_change and r_difference are clamped to [0, 1] and have the weight 0.1 in q.
    - ε is always 1e-4, also for the clamp of arctanh. For α_t, the divisor within arctanh is ln(k_t + 1e-4)
      with the unrounded k_t, and λ_k is computed again.
    - Tokens of the prompt are also counted. The penalty is dropped if the product of probability and penalty
      is 0 in float32 for every candidate.

    There are four differences from the authors' program: padding is not counted, each text has a separate
    history, scalars are float64, and scores are logarithms.

    Arguments are as in `adapt_parameters`.
    """
    entropy = entropies[-1]
    before = entropies[-2:][0]  # at the first step, this is the current entropy
    change = compute_relative_change(entropy, before, RELEASED_EPSILON)
    window = entropies[-strategy.window :]
    local = average_entropies(window, strategy.aggregation, lower_median=True)
    shorter = global_entropy  # so δ_glob and r_difference are 0 until the window is full
    if len(window) == strategy.window:
        shorter = average_entropies(window[1:], strategy.aggregation, lower_median=True)
    difference = compute_relative_difference(shorter, global_entropy, RELEASED_EPSILON)
    q = 0.9 + 0.1 * (1 + change.clamp(0, 1) + difference.clamp(0, 1))
    gaps = torch.stack([entropy - local, shorter - global_entropy])
    for_k = compute_entropy_deviations(q, gaps, log_vocabulary, strategy.mapping, RELEASED_CLAMP)
    weight = compute_local_weight(for_k, RELEASED_EPSILON)
    k = compute_candidate_number(combine_entropy_deviations(weight, for_k))
    for_alpha = compute_entropy_deviations(
        q, gaps, (k + RELEASED_EPSILON).log(), strategy.mapping, RELEASED_CLAMP
    )
    weight_for_alpha = compute_local_weight(for_alpha, RELEASED_EPSILON)
    log_alpha = compute_log_penalty(combine_entropy_deviations(weight_for_alpha, for_alpha))
    return AdaptedParameters(k.floor(), log_alpha, q, change, difference, for_k[0], for_k[1], weight)
