"""GUARD's step, in each of its three formulations (`equations`, `algorithm1`, `released`).

A step is a pure function of logits, of the entropies before, and of the tokens so far. Scores are computed in
log space, ln p + count · ln α_t, so nothing underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from guard_eval.generation.decoding.candidates import scatter, smallest_best, top_candidates
from guard_eval.generation.decoding.context import Context
from guard_eval.generation.decoding.entropy import shannon_entropy, smoothed_entropy
from guard_eval.generation.decoding.guard import algorithm1, equations, released
from guard_eval.generation.decoding.guard.equations import K_MIN, K_RANGE, Adapted
from guard_eval.generation.decoding.guard.released import unless_nothing_is_left
from guard_eval.generation.strategies import Formulation, Guard, apply_step, initial_state, trace_values

_ADAPT: dict[Formulation, Callable[[Tensor, Tensor, float, Guard], Adapted]] = {
    "equations": equations.adapt,
    "algorithm1": algorithm1.adapt,
    "released": released.adapt,
}

TOTAL, WEIGHT = 0, 1
_TRACED = ("H_glob", "k", "alpha", "q", "r_change", "r_difference", "delta_loc", "delta_glob", "lambda_k")
"""How a trace names the columns after these two; that of alpha has ln α_t."""
ENTROPIES = 2 + len(_TRACED)
"""Columns of the state: the sums over and under the line of H_glob,t, H_glob,t, the fields of `Adapted`, and
then H(X)_{t−w+1} … H(X)_t, zeros before the first."""


def score_candidates(
    strategy: Guard, logits: Tensor, state: Tensor, step: int, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the candidates of a step, their scores, and the state that the step leaves, `[B, S]`.

    The candidates are the 15 most likely tokens, or fewer where the vocabulary is smaller, `[B, n]`. A score
    is the penalised ln p, −inf from the k_t-th on, `[B, n]`, float64.

    Args:
        strategy: GUARD.
        logits: `[B, V]`.
        state: What the step before left, `[B, S]`.
        step: 0, 1, …; from the window's length on, it makes no difference.
        tokens: What counts are taken of, `[B, t]`; −1 is no token.

    Source: `eq:hglob` to `eq:alphat`, or as the formulation has it.
    """
    measure = smoothed_entropy if strategy.formulation == "released" else shannon_entropy
    values, ids = top_candidates(logits.float(), K_MIN + K_RANGE)
    entropy, log_z = measure(logits, values[:, :1])
    total = entropy + strategy.decay * state[:, TOTAL]
    weight = 1.0 + strategy.decay * state[:, WEIGHT]
    overall = total / weight  # `eq:hglob`
    window = torch.cat([state[:, ENTROPIES:], entropy[:, None]], 1)
    adapted = _ADAPT[strategy.formulation](
        window[:, -1 - min(step, strategy.window) :].T, overall, math.log(logits.shape[-1]), strategy
    )
    log_p = values - log_z[:, None]  # in float64
    counts = (ids[:, :, None] == tokens[:, None, :]).sum(-1)
    scores = log_p + counts * adapted.log_alpha[:, None]  # `eq:acs`
    left_out = torch.arange(ids.shape[-1], device=ids.device) >= adapted.k[:, None]
    if strategy.formulation == "released":
        scores = unless_nothing_is_left(scores, log_p, ~left_out)
    numbers = torch.stack([total, weight, overall, *adapted], 1)
    after = torch.cat([numbers, window[:, 1:]], 1)
    return ids, scores.masked_fill(left_out, -torch.inf), after


def leave_candidates(
    strategy: Guard, logits: Tensor, state: Tensor, step: int, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the logits that a step leaves, `[B, V]`, and the state `[B, S]`; arguments as above.

    The best of the candidates is left, or with `select="sample"` all of them with their penalised scores.
    """
    ids, scores, after = score_candidates(strategy, logits, state, step, tokens)
    if strategy.select == "sample":
        return scatter(logits, ids, scores.to(logits.dtype)), after
    best = smallest_best(scores, ids)[:, None]
    return scatter(logits, ids.gather(1, best), torch.zeros_like(best, dtype=logits.dtype)), after


@cache
def compile_step() -> Callable[..., tuple[Tensor, Tensor]]:
    """Return `leave_candidates` with its hundred operations joined into a few: each is a launch on a GPU."""
    return torch.compile(leave_candidates, dynamic=True)


@apply_step.register
def guard(strategy: Guard, logits: Tensor, context: Context) -> Tensor:
    """Leave candidates; see `leave_candidates`."""
    tokens = context.tokens if strategy.formulation == "released" else context.written
    leave = compile_step() if context.compiled else leave_candidates
    remaining, state = leave(strategy, logits, context.state, min(context.step, strategy.window), tokens)
    context.state.copy_(state)
    return remaining


@initial_state.register
def first_state(strategy: Guard) -> list[float]:
    """Return zeros: no step was made."""
    return [0.0] * (ENTROPIES + strategy.window)


@trace_values.register
def adapted_values(strategy: Guard, before: Tensor, after: Tensor) -> dict[str, Tensor]:  # noqa: ARG001
    """Return every symbol of the method that a step has: H_t, H_glob,t, k_t, α_t, q, the rates, δ and λ_k."""
    columns = after[:, WEIGHT + 1 : ENTROPIES].unbind(1)
    values = {"H": after[:, -1], **dict(zip(_TRACED, columns, strict=True))}
    return values | {"alpha": values["alpha"].exp()}
