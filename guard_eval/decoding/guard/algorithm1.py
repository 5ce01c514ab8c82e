"""GUARD as the paper's Algorithm 1 has it (`app:C`), where that departs from its equations.

The window's last entropy is the current one. Until there are w of them, q = 1, δ_loc = 0 and δ_glob compares
the current entropy with all so far. r_diff is divided by H_glob,T. For α_t the deltas are multiplied by
ln k_t, where the equations divide by it within arctanh.

Where it is silent or cannot be meant: arrays count from 1, so `entropy_history[T-1]` is H_{T−1} (counted from
0 it would be the current entropy, and r_change always 0); at t = 1 of w = 1, without any before, r_change is
0; k_t is rounded down before its logarithm is taken; arctanh's argument is held as in the equations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from guard_eval.decoding.entropy import CLAMP, aggregate, apply_mapping
from guard_eval.decoding.guard.equations import (
    EPSILON,
    Adapted,
    amplification,
    candidate_number,
    combine_deltas,
    deltas,
    differences,
    local_weight,
    log_penalty,
    relative_change,
)
from guard_eval.strategies import Guard


def relative_difference(local: Tensor, overall: Tensor) -> Tensor:
    """Return r_diff, `[B]`, of med_H_recent and H_glob,T, `[B]` each: divided by the latter."""
    return (local - overall).abs() / (overall + EPSILON)


def first_deltas(entropies: Tensor, log_vocabulary: float, strategy: Guard) -> Tensor:
    """Return δ_loc = 0 and δ_global, `[2, B]`, while t < w, of all entropies so far, `[t, B]`."""
    gaps = entropies[-1] - aggregate(entropies, strategy.aggregation)
    mapped = apply_mapping(gaps / log_vocabulary, strategy.mapping, CLAMP)
    return torch.stack([torch.zeros_like(mapped), mapped])


def later_deltas(
    entropies: Tensor, overall: Tensor, log_vocabulary: float, strategy: Guard
) -> tuple[Tensor, Tensor]:
    """Return q, `[B]`, and δ_loc, δ_global, `[2, B]`, from t = w on; arguments as in `adapt`."""
    entropy, before = entropies[-1], entropies[max(-2, -len(entropies))]
    local = aggregate(entropies[-strategy.window :], strategy.aggregation)
    q = amplification(relative_change(entropy, before), relative_difference(local, overall))
    return q, deltas(q, differences(entropy, local, overall), log_vocabulary, strategy.mapping)


def adapt(entropies: Tensor, overall: Tensor, log_vocabulary: float, strategy: Guard) -> Adapted:
    """Return k_t, ln α_t and q; arguments as in `equations.adapt`."""
    if len(entropies) < strategy.window:
        both = first_deltas(entropies, log_vocabulary, strategy)
        q = torch.ones_like(overall)
    else:
        q, both = later_deltas(entropies, overall, log_vocabulary, strategy)
    exponent = combine_deltas(local_weight(both), both)
    k = candidate_number(exponent).floor()
    return Adapted(k, log_penalty(exponent * k.log()), q)
