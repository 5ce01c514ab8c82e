"""One step of GUARD, in each of its three formulations (`equations`, `algorithm1`, `released`).

A step is a pure function of the logits, the earlier entropies and the tokens so far. Scores are logarithms,
ln p + count · ln α_t, so they do not underflow.
"""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from guard_eval.generation.decoding.candidates import (
    find_best_score_index,
    find_top_candidates,
    set_logits_and_mask_others,
)
from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.entropy import compute_smoothed_entropy, shannon_entropy
from guard_eval.generation.decoding.guard import equations
from guard_eval.generation.decoding.guard.equations import K_MIN, K_RANGE, AdaptedParameters
from guard_eval.generation.strategies import Formulation, Guard, apply_step, initial_state, list_trace_values

_ADAPT: dict[Formulation, Callable[[Tensor, Tensor, float, Guard], AdaptedParameters]] = {
    "equations": equations.adapt_parameters,
    "algorithm1": equations.adapt_by_algorithm1,
    "released": equations.adapt_by_released_program,
}

TOTAL = 0
WEIGHT = 1
_TRACED = ("H_glob", "k", "alpha", "q", "r_change", "r_difference", "delta_loc", "delta_glob", "lambda_k")
"""The names of the values in a trace, in the order of the state's columns from column 2 on. The state has
ln α_t instead of α_t."""
ENTROPIES = 2 + len(_TRACED)
"""The index of the state's first column with an entropy. Columns 0 and 1 have the numerator and the
denominator of H_glob,t. The next columns have H_glob,t and the fields of `AdaptedParameters`. The last
columns have H(X)_{t−w+1} … H(X)_t, or zeros before the first step."""


def score_candidates(
    strategy: Guard, logits: Tensor, state: Tensor, step: int, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the candidates of a step, their scores, and the state after the step, `[B, S]`.

    The candidates are the 15 most likely tokens, or all tokens of a smaller vocabulary, `[B, n]`. The scores
    `[B, n]`, float64, are the penalised ln p for the first k_t candidates, and −inf for others.

    Args:
        strategy: GUARD.
        logits: The logits, `[B, V]`.
        state: The state after the previous step, `[B, S]`.
        step: The step 0, 1, …. Steps with a full window give the same result for any number.
        tokens: The earlier tokens, which are penalised, `[B, t]`. −1 marks a position without a token.

    Source: `eq:hglob` to `eq:alphat`; see `equations`.
    """
    measure = compute_smoothed_entropy if strategy.formulation == "released" else shannon_entropy
    values, ids = find_top_candidates(logits.float(), K_MIN + K_RANGE)
    entropy, log_z = measure(logits, values[:, :1])
    # H_glob,t is a mean with decaying weights, so both sums decay at each step.
    total = entropy + strategy.decay * state[:, TOTAL]
    weight = 1.0 + strategy.decay * state[:, WEIGHT]
    global_entropy = total / weight  # `eq:hglob`
    window = torch.cat([state[:, ENTROPIES:], entropy[:, None]], 1)
    entropies = window[:, -1 - min(step, strategy.window) :].T
    adapt = _ADAPT[strategy.formulation]
    adapted = adapt(entropies, global_entropy, math.log(logits.shape[-1]), strategy)
    log_p = values - log_z[:, None]  # in float64
    counts = (ids[:, :, None] == tokens[:, None, :]).sum(-1)
    scores = log_p + counts * adapted.log_alpha[:, None]  # `eq:acs`
    rank = torch.arange(ids.shape[-1], device=ids.device)
    allowed = rank < adapted.k[:, None]
    if strategy.formulation == "released":
        scores = keep_unpenalised_if_all_vanish(scores, log_p, allowed)
    numbers = torch.stack([total, weight, global_entropy, *adapted], 1)
    after = torch.cat([numbers, window[:, 1:]], 1)
    return ids, scores.masked_fill(~allowed, -torch.inf), after


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


def mask_all_but_best(
    strategy: Guard, logits: Tensor, state: Tensor, step: int, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Mask all tokens except the best candidate. Return the logits `[B, V]` and the new state `[B, S]`.

    With `select="sample"`, the logits of all candidates are their scores. Arguments: see `score_candidates`.
    """
    ids, scores, after = score_candidates(strategy, logits, state, step, tokens)
    if strategy.select == "sample":
        return set_logits_and_mask_others(logits, ids, scores.to(logits.dtype)), after
    best = find_best_score_index(scores, ids)[:, None]
    zeros = torch.zeros_like(best, dtype=logits.dtype)
    return set_logits_and_mask_others(logits, ids.gather(1, best), zeros), after


@cache
def compile_guard_step() -> Callable[..., tuple[Tensor, Tensor]]:
    """Compile `mask_all_but_best`, so that a GPU starts a few kernels instead of a hundred."""
    return torch.compile(mask_all_but_best, dynamic=True)


@apply_step.register
def apply_guard(strategy: Guard, logits: Tensor, context: Context) -> Tensor:
    """Run a step of GUARD: mask all tokens except the best candidate, or all candidates if one is drawn."""
    tokens = context.tokens if strategy.formulation == "released" else context.written
    run_step = compile_guard_step() if context.compiled else mask_all_but_best
    step = min(context.step, strategy.window)
    masked, state = run_step(strategy, logits, context.state, step, tokens)
    context.state.copy_(state)
    return masked


@initial_state.register
def make_first_state(strategy: Guard) -> list[float]:
    """Return GUARD's state before the first step, a list of zeros."""
    return [0.0] * (ENTROPIES + strategy.window)


@list_trace_values.register
def trace_guard_step(strategy: Guard, state_before: Tensor, state_after: Tensor) -> dict[str, Tensor]:  # noqa: ARG001
    """Return GUARD's values at a step by name, such as `k` and `alpha`, `[B]` each."""
    columns = state_after[:, WEIGHT + 1 : ENTROPIES].unbind(1)
    values = {"H": state_after[:, -1], **dict(zip(_TRACED, columns, strict=True))}
    return values | {"alpha": values["alpha"].exp()}
