"""GUARD by the paper's printed equations (`eq:hglob`, `eq:kt` to `eq:alphat`).

Where the equations do not define a detail: steps count from t = 1; the window H(X)_{t−w:t−1} is without the
current step, and shorter than w at the beginning; at t = 1 it is empty, and all differences are 0; H_glob,t
is one number, so it is its own median; arctanh's argument is clamped to ±(1 − 1e-6); k_t is rounded down;
`eq:alphat` has the logarithm of this whole number in place of ln|V| within arctanh, and the λ_k of
`eq:lanbda`; x_<k_t in `eq:acs` means x_<t; counts are over generated tokens; of equal scores, the smallest
token id wins.

Scalars are float64. No function waits for the device, so a GPU always has work in its queue.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.generation.decoding.entropy import CLAMP, apply_mapping, average_entropies
from guard_eval.generation.strategies import Guard, Mapping

EPSILON = 1e-6
K_MIN, K_RANGE = 5, 10
"""k_t is from 5 to 15 (`eq:kt`)."""


class AdaptedParameters(NamedTuple):
    """GUARD's parameters at a step, and the numbers that lead to them, `[B]` each, float64.

    Attributes:
        k: k_t, a whole number.
        log_alpha: ln α_t. It is finite even if α_t rounds to 0.
        q: q.
        change: r_change.
        difference: r_difference.
        delta_loc: δ_loc with ln|V|.
        delta_glob: δ_glob with ln|V|.
        weight: λ_k.
    """

    k: Tensor
    log_alpha: Tensor
    q: Tensor
    change: Tensor
    difference: Tensor
    delta_loc: Tensor
    delta_glob: Tensor
    weight: Tensor


def relative_change(entropy: Tensor, before: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return r_change, `[B]`, of H(X)_t and H(X)_{t−1}, `[B]` each. Source: `eq:rchange`."""
    return (entropy - before).abs() / (before + epsilon)


def relative_difference(local: Tensor, overall: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return r_difference, `[B]`, of the window's median and H_glob,t, `[B]` each. Source: `eq:rdiff`."""
    return (local - overall).abs() / (local + epsilon)


def amplification(change: Tensor, difference: Tensor) -> Tensor:
    """Return q, `[B]`, of r_change and r_difference, `[B]` each. It has no upper limit. Source: `eq:q`."""
    return 1 + change + difference


def entropy_gaps(entropy: Tensor, local: Tensor, overall: Tensor) -> Tensor:
    """Return the numerators of the two δ, H(X)_t − med and med − H_glob,t, `[2, B]`."""
    return torch.stack([entropy - local, local - overall])


def compute_deltas(
    q: Tensor,
    gaps: Tensor,
    log_size: Tensor | float,
    mapping: Mapping = "arctanh",
    edge: float = CLAMP,
) -> Tensor:
    """Return δ_loc and δ_glob, `[2, B]`.

    Args:
        q: The result of `amplification`, `[B]`.
        gaps: The result of `entropy_gaps`, `[2, B]`.
        log_size: ln|V| for k_t, or ln k_t, `[B]`, for α_t.
        mapping: arctanh, or the function that replaces arctanh.
        edge: The largest absolute argument of arctanh.

    Source: `eq:deltaloc`, `eq:deltaglob`.
    """
    return q * apply_mapping(gaps / log_size, mapping, edge)


def local_weight(deltas: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return λ_k, `[B]`, of δ_loc and δ_glob, `[2, B]`. Source: `eq:lanbda`."""
    sizes = deltas.abs()
    return sizes[0] / (sizes.sum(0) + epsilon)


def combine_deltas(weight: Tensor, deltas: Tensor) -> Tensor:
    """Return λ_k δ_loc + (1 − λ_k) δ_glob, `[B]`, the exponent of `eq:kt` and `eq:alphat`."""
    return deltas[1].lerp(deltas[0], weight)


def candidate_number(exponent: Tensor) -> Tensor:
    """Return k_t before rounding, `[B]`, by `combine_deltas` with ln|V|. Source: `eq:kt`."""
    return K_RANGE * exponent.sigmoid() + K_MIN


def log_penalty(exponent: Tensor) -> Tensor:
    """Return ln α_t, `[B]`, by `combine_deltas` with ln k_t. It is finite even if α_t rounds to 0.

    Source: `eq:alphat`.
    """
    return torch.nn.functional.logsigmoid(exponent)


def adapt_parameters(
    entropies: Tensor, overall: Tensor, log_vocabulary: float, strategy: Guard
) -> AdaptedParameters:
    """Return k_t and ln α_t with the numbers that lead to them.

    Args:
        entropies: H(X)_{t−w} … H(X)_t as far as they exist, `[n, B]`, n ≤ w + 1. The last is the current
            entropy.
        overall: H_glob,t, `[B]`.
        log_vocabulary: ln|V|.
        strategy: GUARD, with its aggregation and mapping.
    """
    entropy = entropies[-1]
    window = entropies[:-1]
    if len(window):
        before = window[-1]
        local = average_entropies(window, strategy.aggregation)
    else:  # so all differences are 0
        before = local = overall = entropy
    change = relative_change(entropy, before)
    difference = relative_difference(local, overall)
    q = amplification(change, difference)
    gaps = entropy_gaps(entropy, local, overall)
    for_k = compute_deltas(q, gaps, log_vocabulary, strategy.mapping)
    weight = local_weight(for_k)
    k = candidate_number(combine_deltas(weight, for_k)).floor()
    for_alpha = compute_deltas(q, gaps, k.log(), strategy.mapping)
    log_alpha = log_penalty(combine_deltas(weight, for_alpha))
    return AdaptedParameters(k, log_alpha, q, change, difference, for_k[0], for_k[1], weight)
