"""GUARD's step, in each of its three formulations (`guard_equations`, `guard_algorithm1`, `guard_released`).

A step is a pure function of logits, of what earlier steps left behind, and of the tokens so far.
`GuardChooser` keeps that memory for a batch. Scores are computed in log space, ln p + count · ln α_t, so
nothing underflows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.decoding import guard_algorithm1, guard_equations, guard_released
from guard_eval.decoding.candidates import smallest_best, top_candidates
from guard_eval.decoding.entropy import discounted_sum, global_entropy, shannon_entropy, smoothed_entropy
from guard_eval.decoding.guard_equations import K_MIN, K_RANGE, Adapted
from guard_eval.decoding.guard_released import unless_nothing_is_left
from guard_eval.decoding.guard_state import GuardState, StepHistory
from guard_eval.decoding.noise import gumbel
from guard_eval.strategies import Formulation, Guard

_ADAPT: dict[Formulation, Callable[[Tensor, Tensor, float, Guard], Adapted]] = {
    "equations": guard_equations.adapt,
    "algorithm1": guard_algorithm1.adapt,
    "released": guard_released.adapt,
}


class GuardStep(NamedTuple):
    """What comes out of a step.

    Attributes:
        ids: The 15 most likely tokens, or fewer where the vocabulary is smaller, `[B, n]`.
        scores: Their penalised ln p, −inf from the k_t-th on, `[B, n]`, float64.
        best: The index of the best, `[B]`; of equal scores that of the smallest token id.
        notes: What `GuardState` records, `[NOTES, B]`.
    """

    ids: Tensor
    scores: Tensor
    best: Tensor
    notes: Tensor


def token_counts(ids: Tensor, tokens: Tensor) -> Tensor:
    """Return how often each of `ids` `[B, n]` occurs in its row of `tokens` `[B, t]`: `[B, n]`."""
    return (ids[:, :, None] == tokens[:, None, :]).sum(-1)


def penalised(log_p: Tensor, counts: Tensor, log_alpha: Tensor) -> Tensor:
    """Return ln(p · α_t^count), `[B, n]`, of ln p and counts, `[B, n]` each, and ln α_t, `[B]`.

    Source: `eq:acs`.
    """
    return log_p + counts * log_alpha[:, None]


def guard_step(logits: Tensor, past: StepHistory, tokens: Tensor, strategy: Guard) -> GuardStep:
    """Return the candidates of a step with their scores.

    Args:
        logits: `[B, V]`.
        past: What earlier steps left behind.
        tokens: What counts are taken of, `[B, t]`; no token has a negative id.
        strategy: GUARD.

    Source: `eq:hglob` to `eq:alphat`, or as the formulation has it.
    """
    measure = smoothed_entropy if strategy.formulation == "released" else shannon_entropy
    entropy, log_z = measure(logits)
    total = discounted_sum(entropy, past.total, strategy.decay)
    overall = global_entropy(total, past.weights)
    adapted = _ADAPT[strategy.formulation](
        torch.cat([past.entropies, entropy[None]]), overall, math.log(logits.shape[-1]), strategy
    )
    values, ids = top_candidates(logits.float(), K_MIN + K_RANGE)
    log_p = values.double() - log_z[:, None]
    scores = penalised(log_p, token_counts(ids, tokens), adapted.log_alpha)
    allowed = torch.arange(ids.shape[-1], device=ids.device) < adapted.k[:, None]
    if strategy.formulation == "released":
        scores = unless_nothing_is_left(scores, log_p, allowed)
    scores = scores.masked_fill(~allowed, -torch.inf)
    notes = torch.stack([entropy, total, overall, adapted.k, adapted.log_alpha, adapted.q])
    return GuardStep(ids, scores, smallest_best(scores, ids), notes)


def _step_at(
    logits: Tensor, past: StepHistory, tokens: Tensor, counted: Tensor, strategy: Guard
) -> GuardStep:
    """Apply `guard_step` to the first `counted` of `tokens`: of shapes that no step changes."""
    seen = torch.arange(tokens.shape[1], device=tokens.device) < counted
    return guard_step(logits, past, torch.where(seen, tokens, -1), strategy)


@functools.cache
def _compiled(strategy: Guard) -> Callable[..., GuardStep]:
    """Return the step with a full window as one graph, compiled again where the batch changes its size."""
    from guard_eval.decoding.compiling import compiled  # noqa: PLC0415 (only who compiles needs a compiler)

    return compiled(functools.partial(_step_at, strategy=strategy))


class GuardChooser:
    """GUARD for one batch: a `choosers.Chooser` with the memory of its steps."""

    def __init__(
        self,
        strategy: Guard,
        keys: Tensor,
        steps: int,
        *,
        prompts: Tensor | None = None,
        compiled: bool = False,
    ) -> None:
        """Begin before the first step; arguments as in `choosers.chooser`."""
        self._strategy = strategy
        self._keys = keys
        self._prompts = prompts if strategy.formulation == "released" else None
        self._state = GuardState(len(keys), steps, strategy.decay, keys.device)
        self._compiled = _compiled(strategy) if compiled else None
        # As tensors, for a graph that takes the step's number from outside.
        self._numbers = torch.arange(steps, device=keys.device)

    def __call__(self, logits: Tensor, step: int, history: Tensor) -> Tensor:
        """See `choosers.Chooser`."""
        made = self.step(logits, step, history)
        if self._strategy.select == "sample":
            best = (made.scores + gumbel(self._keys, step, made.ids)).argmax(-1)
        else:
            best = made.best
        return made.ids.gather(1, best[:, None])[:, 0]

    def step(self, logits: Tensor, step: int, history: Tensor) -> GuardStep:
        """Return a step's candidates and scores, and remember it; arguments as in `choosers.Chooser`."""
        state = self._state
        past = state.past(step, self._strategy.window)
        if self._compiled is not None and len(past.entropies) == self._strategy.window:
            prompts = history[:, :0] if self._prompts is None else self._prompts
            tokens, counted = torch.cat([prompts, history], 1), self._numbers[step] + prompts.shape[1]
            # Copies: as views into the state, they would be compiled for each place in it.
            made = self._compiled(logits, StepHistory(*(kept.clone() for kept in past)), tokens, counted)
        else:
            made = guard_step(logits, past, self._tokens(history[:, :step]), self._strategy)
        state.write(step, made.notes)
        return made

    def reserve(self, steps: int) -> None:
        """Make room for more steps than were announced."""
        self._state.reserve(steps)

    def keep(self, rows: Tensor) -> None:
        """See `choosers.Chooser`."""
        self._keys = self._keys[rows]
        self._state.keep(rows)
        if self._prompts is not None:
            self._prompts = self._prompts[rows]

    @property
    def trace(self) -> dict[str, Tensor]:
        """See `choosers.Chooser`."""
        return self._state.trace

    def _tokens(self, generated: Tensor) -> Tensor:
        return generated if self._prompts is None else torch.cat([self._prompts, generated], 1)
