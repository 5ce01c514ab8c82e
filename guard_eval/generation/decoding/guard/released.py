"""GUARD by its authors' released program, which differs from the paper's equations.

The differences from the equations:

- The entropy is −Σ p ln(p + 1e-5).
- Windows end with the current step, and the window that is compared with H_glob,t is one step shorter. The
  median of an even number of values is the lower of the middle two.
- In the first w − 1 steps, δ_glob and r_difference are 0, and δ_loc compares the current entropy with all
  entropies so far.
- r_change and r_difference are clamped to [0, 1] and have the weight 0.1 in q.
- ε is always 1e-4, also for the clamp of arctanh. For α_t, the divisor within arctanh is ln(k_t + 1e-4) with
  the unrounded k_t, and λ_k is computed again.
- Tokens of the prompt are also counted. The penalty is dropped if the product of probability and penalty is 0
  in float32 for every candidate.

There are four differences from the authors' program: padding is not counted, each text has a separate
history, scalars are float64, and scores are logarithms.
"""

import torch
from torch import Tensor

from guard_eval.generation.decoding.entropy import average_entropies
from guard_eval.generation.decoding.guard.equations import (
    AdaptedParameters,
    combine_entropy_deviations,
    compute_candidate_number,
    compute_entropy_deviations,
    compute_local_weight,
    compute_log_penalty,
    compute_relative_change,
    compute_relative_difference,
)
from guard_eval.generation.strategies import Guard

EPSILON = 1e-4
CLAMP = 1 - EPSILON


def compute_damped_amplification(change: Tensor, difference: Tensor) -> Tensor:
    """Return the amplification q, between 1 and 1.2, from r_change and r_difference, `[B]` each."""
    return 0.9 + 0.1 * (1 + change.clamp(0, 1) + difference.clamp(0, 1))


def adapt_parameters(
    entropies: Tensor, global_entropy: Tensor, log_vocabulary: float, strategy: Guard
) -> AdaptedParameters:
    """Return k_t, ln α_t and their intermediate values. Arguments are as in `equations.adapt_parameters`."""
    entropy = entropies[-1]
    before = entropies[max(-2, -len(entropies))]  # at the first step, this is the current entropy
    change = compute_relative_change(entropy, before, EPSILON)
    if len(entropies) < strategy.window:
        # The shorter window's value is set to H_glob,t, so that δ_glob and r_difference are 0.
        local = average_entropies(entropies, strategy.aggregation, lower_median=True)
        shorter = global_entropy
    else:
        local = average_entropies(entropies[-strategy.window :], strategy.aggregation, lower_median=True)
        shorter = average_entropies(entropies[1 - strategy.window :], strategy.aggregation, lower_median=True)
    difference = compute_relative_difference(shorter, global_entropy, EPSILON)
    q = compute_damped_amplification(change, difference)
    gaps = torch.stack([entropy - local, shorter - global_entropy])
    for_k = compute_entropy_deviations(q, gaps, log_vocabulary, strategy.mapping, CLAMP)
    weight = compute_local_weight(for_k, EPSILON)
    k = compute_candidate_number(combine_entropy_deviations(weight, for_k))
    for_alpha = compute_entropy_deviations(q, gaps, (k + EPSILON).log(), strategy.mapping, CLAMP)
    weight_for_alpha = compute_local_weight(for_alpha, EPSILON)
    log_alpha = compute_log_penalty(combine_entropy_deviations(weight_for_alpha, for_alpha))
    return AdaptedParameters(k.floor(), log_alpha, q, change, difference, for_k[0], for_k[1], weight)


def keep_unpenalised_if_all_vanish(penalised: Tensor, log_p: Tensor, allowed: Tensor) -> Tensor:
    """Return penalised scores. Rows in which every penalised p is 0 in float32 get unpenalised scores.

    Args:
        penalised: ln(p · α_t^count), `[B, n]`, float64.
        log_p: ln p, `[B, n]`, float64.
        allowed: Whether a token is one of the k_t candidates, `[B, n]`.
    """
    product = log_p.float().exp() * (penalised - log_p).float().exp()
    remaining = ((product > 0) & allowed).any(-1, keepdim=True)
    return torch.where(remaining, penalised, log_p)
