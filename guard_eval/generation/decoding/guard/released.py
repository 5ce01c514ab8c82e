"""GUARD as its authors' released program computes it, where that departs from the paper's equations.

The entropy is −Σ p ln(p + 1e-5). Windows end with the current step; the one compared with H_glob,t is a step
shorter. Of an even count the median is the lower of the middle two. Until there are w steps, δ_glob and
r_difference are 0, and δ_loc compares with all so far. Both rates are held within [0, 1], and weigh a tenth
in q. ε is 1e-4 throughout, also where arctanh is held. For α_t, ln(k_t + 1e-4) of the unrounded k_t stands
within arctanh, and the weight λ is computed again. Tokens are counted in the prompt, too.

Unlike in that program: padding is not counted; each text has its own history; the scalars are float64, and
scores are logarithms. Candidates whose product of probability and penalty vanishes, in float32, for all of
them keep their unpenalised scores, as in that program, which tests the product, not its sum over the
vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from guard_eval.generation.decoding.entropy import aggregate
from guard_eval.generation.decoding.guard.equations import (
    Adapted,
    candidate_number,
    combine_deltas,
    deltas,
    local_weight,
    log_penalty,
    relative_change,
    relative_difference,
)
from guard_eval.generation.strategies import Guard

EPSILON = 1e-4
CLAMP = 1 - EPSILON


def damped_amplification(change: Tensor, difference: Tensor) -> Tensor:
    """Return q, `[B]`, between 1 and 1.2, of the two rates, `[B]` each."""
    return 0.9 + 0.1 * (1 + change.clamp(0, 1) + difference.clamp(0, 1))


def adapt(entropies: Tensor, overall: Tensor, log_vocabulary: float, strategy: Guard) -> Adapted:
    """Return k_t, ln α_t, and what they are made of; arguments as in `equations.adapt`."""
    entropy, before = entropies[-1], entropies[max(-2, -len(entropies))]
    change = relative_change(entropy, before, EPSILON)
    if len(entropies) < strategy.window:
        # At the same level as H_glob,t, the shorter window makes δ_glob and r_difference 0.
        local = aggregate(entropies, strategy.aggregation, lower=True)
        shorter = overall
    else:
        local = aggregate(entropies[-strategy.window :], strategy.aggregation, lower=True)
        shorter = aggregate(entropies[1 - strategy.window :], strategy.aggregation, lower=True)
    difference = relative_difference(shorter, overall, EPSILON)
    q = damped_amplification(change, difference)
    gaps = torch.stack([entropy - local, shorter - overall])
    for_k = deltas(q, gaps, log_vocabulary, strategy.mapping, CLAMP)
    weight = local_weight(for_k, EPSILON)
    k = candidate_number(combine_deltas(weight, for_k))
    for_alpha = deltas(q, gaps, (k + EPSILON).log(), strategy.mapping, CLAMP)
    log_alpha = log_penalty(combine_deltas(local_weight(for_alpha, EPSILON), for_alpha))
    return Adapted(k.floor(), log_alpha, q, change, difference, for_k[0], for_k[1], weight)


def unless_nothing_is_left(penalised: Tensor, log_p: Tensor, allowed: Tensor) -> Tensor:
    """Return the penalised scores, or where all vanish in float32 the unpenalised ones.

    Args:
        penalised: ln(p · α_t^count), `[B, n]`, float64.
        log_p: ln p, `[B, n]`, float64.
        allowed: Which are candidates, `[B, n]`.
    """
    product = log_p.float().exp() * (penalised - log_p).float().exp()
    remaining = ((product > 0) & allowed).any(-1, keepdim=True)
    return torch.where(remaining, penalised, log_p)
