"""GUARD's step, in each of its three formulations (`equations`, `algorithm1`, `released`).

A step is a pure function of logits, of what earlier steps left behind, and of the tokens so far.
`GuardChooser` keeps that memory for a batch. Scores are computed in log space, ln p + count · ln α_t, so
nothing underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from guard_eval.decoding.candidates import smallest_best, top_candidates
from guard_eval.decoding.entropy import (
    discount_sums,
    discounted_sum,
    global_entropy,
    shannon_entropy,
    smoothed_entropy,
)
from guard_eval.decoding.guard import algorithm1, equations, released
from guard_eval.decoding.guard.equations import K_MIN, K_RANGE, Adapted
from guard_eval.decoding.guard.released import unless_nothing_is_left
from guard_eval.decoding.noise import gumbel
from guard_eval.strategies import Formulation, Guard

_ADAPT: dict[Formulation, Callable[[Tensor, Tensor, float, Guard], Adapted]] = {
    "equations": equations.adapt,
    "algorithm1": algorithm1.adapt,
    "released": released.adapt,
}


ENTROPY, TOTAL, OVERALL, K, LOG_ALPHA, Q = range(6)
NOTES = 6
"""How many numbers a step leaves behind: H_t, the numerator of H_glob,t, H_glob,t, k_t, ln α_t and q."""


class StepHistory(NamedTuple):
    """What a step finds.

    Attributes:
        entropies: H(X)_i of up to w steps before, `[n, B]`, oldest first.
        total: Σ_i λ^(t−1−i) H(X)_i over all steps before, `[B]`; 0 at the first.
        weights: Σ_i λ^(t−i) over these and the present one, without dimensions.
    """

    entropies: Tensor
    total: Tensor
    weights: Tensor


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
    values, ids = top_candidates(logits.float(), K_MIN + K_RANGE)
    entropy, log_z = measure(logits, values[:, :1])
    total = discounted_sum(entropy, past.total, strategy.decay)
    overall = global_entropy(total, past.weights)
    adapted = _ADAPT[strategy.formulation](
        torch.cat([past.entropies, entropy[None]]), overall, math.log(logits.shape[-1]), strategy
    )
    log_p = values - log_z[:, None]  # in float64
    scores = penalised(log_p, token_counts(ids, tokens), adapted.log_alpha)
    left_out = torch.arange(ids.shape[-1], device=ids.device) >= adapted.k[:, None]
    if strategy.formulation == "released":
        scores = unless_nothing_is_left(scores, log_p, ~left_out)
    scores = scores.masked_fill(left_out, -torch.inf)
    notes = torch.stack([entropy, total, overall, adapted.k, adapted.log_alpha, adapted.q])
    return GuardStep(ids, scores, smallest_best(scores, ids), notes)


def _step_at(
    logits: Tensor, past: StepHistory, tokens: Tensor, counted: Tensor, strategy: Guard
) -> GuardStep:
    """Apply `guard_step` to the first `counted` of `tokens`: of shapes that no step changes."""
    seen = torch.arange(tokens.shape[1], device=tokens.device) < counted
    return guard_step(logits, past, torch.where(seen, tokens, -1), strategy)


class GuardState:
    """The numbers of up to `steps` steps of a batch of `rows` texts; more when `reserve` is called."""

    def __init__(self, rows: int, steps: int, decay: float, device: torch.device) -> None:
        self._decay = decay
        # Line t holds step t − 1, so that the line before the first exists, and is zero.
        self.lines = torch.zeros(steps + 1, NOTES, rows, dtype=torch.float64, device=device)
        self.weights = torch.tensor(discount_sums(steps, decay), dtype=torch.float64, device=device)
        self.done = 0

    def past(self, step: int | Tensor, window: int) -> StepHistory:
        """Return what a step 0, 1, … finds; a tensor's step is not before the `window`-th."""
        if isinstance(step, Tensor):
            before = torch.arange(1 - window, 1, device=step.device) + step
            lines = self.lines.index_select(0, before)
            weights = self.weights.index_select(0, step[None])[0]
            return StepHistory(lines[:, ENTROPY], lines[-1, TOTAL], weights)
        return StepHistory(
            self.lines[max(1, step + 1 - window) : step + 1, ENTROPY],
            self.lines[step, TOTAL],
            self.weights[step],
        )

    def write(self, step: int | Tensor, notes: Tensor) -> None:
        """Record the `NOTES` of a step, `[NOTES, B]`."""
        if isinstance(step, Tensor):  # whose value only the device knows
            self.lines.index_copy_(0, step[None] + 1, notes[None])
            self.done = len(self.lines) - 1
            return
        self.lines[step + 1] = notes
        self.done = max(self.done, step + 1)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows `[B']`."""
        self.lines = self.lines[:, :, rows]

    def reserve(self, steps: int) -> None:
        """Make room for as many steps, and as many again, if there is not enough."""
        lines, notes, rows = self.lines.shape
        if steps < lines:
            return
        more = self.lines.new_zeros(2 * steps + 1, notes, rows)
        more[:lines] = self.lines
        self.lines = more
        self.weights = self.weights.new_tensor(discount_sums(2 * steps, self._decay))

    @property
    def trace(self) -> dict[str, Tensor]:
        """The paper's H_t, H_glob,t, k_t, α_t and q of the steps done, `[B, steps]` each."""
        done = self.lines[1 : self.done + 1]
        return {
            "H": done[:, ENTROPY].T,
            "H_glob": done[:, OVERALL].T,
            "k": done[:, K].T,
            "alpha": done[:, LOG_ALPHA].T.exp(),
            "q": done[:, Q].T,
        }


class GuardChooser:
    """GUARD for one batch: a `choosers.Chooser` with the memory of its steps."""

    def __init__(
        self,
        strategy: Guard,
        keys: Tensor,
        steps: int,
        *,
        prompts: Tensor | None = None,
    ) -> None:
        """Begin before the first step; arguments as in `choosers.chooser`."""
        self._strategy = strategy
        self.fixed_from = strategy.window
        self._keys = keys
        self._prompts = prompts if strategy.formulation == "released" else None
        self._state = GuardState(len(keys), steps, strategy.decay, keys.device)

    def __call__(self, logits: Tensor, step: int | Tensor, history: Tensor) -> Tensor:
        """See `choosers.Chooser`."""
        made = self.step(logits, step, history)
        if self._strategy.select == "sample":
            best = (made.scores + gumbel(self._keys, step, made.ids)).argmax(-1)
        else:
            best = made.best
        return made.ids.gather(1, best[:, None])[:, 0]

    def step(self, logits: Tensor, step: int | Tensor, history: Tensor) -> GuardStep:
        """Return a step's candidates and scores, and remember it; arguments as in `choosers.Chooser`."""
        state = self._state
        past = state.past(step, self._strategy.window)
        if isinstance(step, Tensor):
            prompts = history[:, :0] if self._prompts is None else self._prompts
            tokens, counted = torch.cat([prompts, history], 1), step + prompts.shape[1]
            made = _step_at(logits, past, tokens, counted, self._strategy)
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
