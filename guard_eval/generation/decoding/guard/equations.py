"""GUARD as the paper's equations are printed (`eq:hglob`, `eq:kt` to `eq:alphat`).

Where they are silent: steps count from t = 1; the window H(X)_{t−w:t−1} leaves the current step out and is as
long as the steps before allow; at t = 1, without any, all differences are 0; H_glob,t is a number and so its
own median; arctanh's argument is held within ±(1 − 1e-6); k_t is rounded down; `eq:alphat` takes that whole
number's logarithm for ln|V| within arctanh, and the λ_k of `eq:lanbda`; x_<k_t in `eq:acs` reads x_<t; tokens
are counted among those generated; of equal scores the smallest token id wins.

Scalars are float64. No function copies anything to the host, so that steps queue up on a GPU.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.generation.decoding.entropy import CLAMP, aggregate, apply_mapping
from guard_eval.generation.strategies import Guard, Mapping

EPSILON = 1e-6
K_MIN, K_RANGE = 5, 10
"""k_t lies in 5 … 15 (`eq:kt`)."""


class Adapted(NamedTuple):
    """What a step's entropies make of GUARD's parameters, `[B]` each, float64.

    Attributes:
        k: k_t, a whole number.
        log_alpha: ln α_t, finite where α_t rounds to 0.
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
    """Return q, `[B]`, of r_change and r_difference, `[B]` each; it has no upper bound. Source: `eq:q`."""
    return 1 + change + difference


def differences(entropy: Tensor, local: Tensor, overall: Tensor) -> Tensor:
    """Return H(X)_t − med and med − H_glob,t, `[2, B]`: what `eq:deltaloc` and `eq:deltaglob` divide."""
    return torch.stack([entropy - local, local - overall])


def deltas(
    q: Tensor,
    gaps: Tensor,
    log_size: Tensor | float,
    mapping: Mapping = "arctanh",
    edge: float = CLAMP,
) -> Tensor:
    """Return δ_loc and δ_glob, `[2, B]`.

    Args:
        q: `amplification`, `[B]`.
        gaps: `differences`, `[2, B]`.
        log_size: ln|V| for k_t; ln k_t, `[B]`, for α_t.
        mapping: arctanh, or what is tried in its place.
        edge: Where arctanh's argument is held.

    Source: `eq:deltaloc`, `eq:deltaglob`.
    """
    return q * apply_mapping(gaps / log_size, mapping, edge)


def local_weight(deltas: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Return λ_k, `[B]`, of δ_loc and δ_glob, `[2, B]`. Source: `eq:lanbda`."""
    sizes = deltas.abs()
    return sizes[0] / (sizes.sum(0) + epsilon)


def combine_deltas(weight: Tensor, deltas: Tensor) -> Tensor:
    """Return λ_k δ_loc + (1 − λ_k) δ_glob, `[B]`: the exponent that `eq:kt` and `eq:alphat` share."""
    return deltas[1].lerp(deltas[0], weight)


def candidate_number(exponent: Tensor) -> Tensor:
    """Return k_t, `[B]`, before it is rounded down, of `combine_deltas` with ln|V|. Source: `eq:kt`."""
    return K_RANGE * exponent.sigmoid() + K_MIN


def log_penalty(exponent: Tensor) -> Tensor:
    """Return ln α_t, `[B]`, of `combine_deltas` with ln k_t; finite where α_t rounds to 0.

    Source: `eq:alphat`.
    """
    return torch.nn.functional.logsigmoid(exponent)


def adapt(entropies: Tensor, overall: Tensor, log_vocabulary: float, strategy: Guard) -> Adapted:
    """Return k_t, ln α_t, and what they are made of.

    Args:
        entropies: H(X)_{t−w} … H(X)_t, as far as they exist, `[n, B]`, n ≤ w + 1: the last is the current.
        overall: H_glob,t, `[B]`.
        log_vocabulary: ln|V|.
        strategy: Its aggregation and mapping are used.
    """
    entropy, window = entropies[-1], entropies[:-1]
    if len(window):
        before, local = window[-1], aggregate(window, strategy.aggregation)
    else:
        before = local = overall = entropy
    change = relative_change(entropy, before)
    difference = relative_difference(local, overall)
    q = amplification(change, difference)
    gaps = differences(entropy, local, overall)
    for_k = deltas(q, gaps, log_vocabulary, strategy.mapping)
    weight = local_weight(for_k)
    k = candidate_number(combine_deltas(weight, for_k)).floor()
    for_alpha = deltas(q, gaps, k.log(), strategy.mapping)
    log_alpha = log_penalty(combine_deltas(weight, for_alpha))
    return Adapted(k, log_alpha, q, change, difference, for_k[0], for_k[1], weight)
