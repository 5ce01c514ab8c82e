"""GUARD by the paper's Algorithm 1 (`app:C`), which differs from the paper's equations.

The differences: the window's last entropy is the current entropy. In the first w − 1 steps, q = 1, δ_loc = 0,
and δ_glob compares the current entropy with all entropies so far. r_diff is divided by H_glob,T. For α_t the
deltas are multiplied by ln k_t, but the equations divide by ln k_t within arctanh.

The algorithm does not define some details. This module defines them as follows:

- Arrays count from 1, so `entropy_history[T-1]` is H_{T−1}. If arrays counted from 0, this would be the
  current entropy, and r_change would always be 0.
- For w = 1, r_change is 0 at t = 1.
- k_t is rounded down before its logarithm. arctanh's argument is clamped as in the equations.
"""

import torch
from torch import Tensor

from guard_eval.generation.decoding.entropy import average_entropies
from guard_eval.generation.decoding.guard.equations import (
    AdaptedParameters,
    combine_entropy_deviations,
    compute_amplification,
    compute_candidate_number,
    compute_entropy_deviations,
    compute_entropy_gaps,
    compute_local_weight,
    compute_log_penalty,
    compute_relative_change,
    compute_relative_difference,
)
from guard_eval.generation.strategies import Guard


def adapt_parameters(
    entropies: Tensor, global_entropy: Tensor, log_vocabulary: float, strategy: Guard
) -> AdaptedParameters:
    """Return k_t, ln α_t and their intermediate values. Arguments are as in `equations.adapt_parameters`."""
    entropy = entropies[-1]
    local = average_entropies(entropies[-strategy.window :], strategy.aggregation)
    if len(entropies) < strategy.window:
        change = torch.zeros_like(global_entropy)
        difference = torch.zeros_like(global_entropy)
        gaps = torch.stack([torch.zeros_like(entropy), entropy - local])
    else:
        change = compute_relative_change(entropy, entropies[max(-2, -len(entropies))])
        # The arguments are exchanged, because H_glob,T is the divisor here.
        difference = compute_relative_difference(global_entropy, local)
        gaps = compute_entropy_gaps(entropy, local, global_entropy)
    q = compute_amplification(change, difference)
    both = compute_entropy_deviations(q, gaps, log_vocabulary, strategy.mapping)
    weight = compute_local_weight(both)
    exponent = combine_entropy_deviations(weight, both)
    k = compute_candidate_number(exponent).floor()
    return AdaptedParameters(
        k, compute_log_penalty(exponent * k.log()), q, change, difference, both[0], both[1], weight
    )
