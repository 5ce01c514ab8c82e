"""GUARD in the formulation of the paper's equations as printed (`eq:hglob`, `eq:kt` to `eq:alphat`).

Where they are silent: steps count from t = 1; the window H(X)_{t−w:t−1} leaves the current step out and is as
long as the steps before allow; at t = 1, without any, all differences are 0; H_glob,t is a number and so its
own median; arctanh's argument is held within ±(1 − 1e-6); k_t is rounded down; `eq:alphat` takes that whole
number's logarithm for ln|V| within arctanh, and the λ_k of `eq:lanbda`; x_<k_t in `eq:acs` reads x_<t; tokens
are counted among those generated; of equal scores the smallest token id wins.

Scalars are float64. No function copies anything to the host, so that steps queue up on a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from guard_eval.decoding.candidates import smallest_best, top_candidates
from guard_eval.decoding.entropy import arctanh, discounted_sum, global_entropy, median, shannon_entropy

EPSILON = 1e-6
K_MIN, K_RANGE = 5, 10
"""k_t lies in 5 … 15 (`eq:kt`)."""


@dataclass(frozen=True)
class GuardState:
    """What GUARD remembers of a batch, indexed by step: doing a step again writes the same values again.

    Attributes:
        entropies: H(X)_t, `[B, T]`, float64.
        sums: The numerators of `eq:hglob`, `[B, T]`, float64.
    """

    entropies: Tensor
    sums: Tensor

    @classmethod
    def new(cls, rows: int, steps: int, device: torch.device) -> GuardState:
        """Return the state of `rows` texts before the first of at most `steps` steps."""
        empty = torch.zeros(2, rows, steps, dtype=torch.float64, device=device)
        return cls(empty[0], empty[1])


def relative_change(entropy: Tensor, before: Tensor) -> Tensor:
    """Return r_change, `[B]`, of H(X)_t and H(X)_{t−1}, `[B]` each. Source: `eq:rchange`."""
    return (entropy - before).abs() / (before + EPSILON)


def relative_difference(local: Tensor, overall: Tensor) -> Tensor:
    """Return r_difference, `[B]`, of the window's median and H_glob,t, `[B]` each. Source: `eq:rdiff`."""
    return (local - overall).abs() / (local + EPSILON)


def amplification(change: Tensor, difference: Tensor) -> Tensor:
    """Return q, `[B]`, of r_change and r_difference, `[B]` each; it has no upper bound. Source: `eq:q`."""
    return 1 + change + difference


def delta_local(q: Tensor, entropy: Tensor, local: Tensor, log_size: Tensor | float) -> Tensor:
    """Return δ_loc, `[B]`, of q, H(X)_t and the window's median, `[B]` each.

    Args:
        q: `amplification`.
        entropy: H(X)_t.
        local: med H(X)_{t−w:t−1}.
        log_size: ln|V| for k_t, ln k_t for α_t.

    Source: `eq:deltaloc`.
    """
    return q * arctanh((entropy - local) / log_size)


def delta_global(q: Tensor, local: Tensor, overall: Tensor, log_size: Tensor | float) -> Tensor:
    """Return δ_glob, `[B]`, of q, the window's median and H_glob,t; `log_size` as in `delta_local`.

    Source: `eq:deltaglob`.
    """
    return q * arctanh((local - overall) / log_size)


def local_weight(d_local: Tensor, d_global: Tensor) -> Tensor:
    """Return λ_k, `[B]`, of δ_loc and δ_glob, `[B]` each. Source: `eq:lanbda`."""
    return d_local.abs() / (d_local.abs() + d_global.abs() + EPSILON)


def glocal(weight: Tensor, d_local: Tensor, d_global: Tensor) -> Tensor:
    """Return λ_k δ_loc + (1 − λ_k) δ_glob, `[B]`: the exponent that `eq:kt` and `eq:alphat` share."""
    return weight * d_local + (1 - weight) * d_global


def candidate_count(exponent: Tensor) -> Tensor:
    """Return k_t, `[B]`, int64, rounded down, of `glocal` with ln|V|. Source: `eq:kt`."""
    return (K_RANGE * exponent.sigmoid() + K_MIN).floor().long()


def log_penalty(exponent: Tensor) -> Tensor:
    """Return ln α_t, `[B]`, of `glocal` with ln k_t; finite where α_t rounds to 0. Source: `eq:alphat`."""
    return torch.nn.functional.logsigmoid(exponent)


def token_counts(ids: Tensor, history: Tensor) -> Tensor:
    """Return how often each of `ids` `[B, n]` occurs in its row of `history` `[B, t]`: `[B, n]`."""
    return (ids[:, :, None] == history[:, None, :]).sum(-1)


def penalised(log_p: Tensor, counts: Tensor, log_alpha: Tensor) -> Tensor:
    """Return ln(p · α_t^count), `[B, n]`, of ln p and counts, `[B, n]` each, and ln α_t, `[B]`.

    Source: `eq:acs`.
    """
    return log_p + counts * log_alpha[:, None]


def adapt(
    entropy: Tensor, before: Tensor, local: Tensor, overall: Tensor, log_vocabulary: float
) -> tuple[Tensor, Tensor]:
    """Return k_t and ln α_t, `[B]` each.

    Args:
        entropy: H(X)_t, `[B]`.
        before: H(X)_{t−1}, `[B]`.
        local: med H(X)_{t−w:t−1}, `[B]`.
        overall: H_glob,t, `[B]`.
        log_vocabulary: ln|V|.
    """
    q = amplification(relative_change(entropy, before), relative_difference(local, overall))
    d_local = delta_local(q, entropy, local, log_vocabulary)
    d_global = delta_global(q, local, overall, log_vocabulary)
    weight = local_weight(d_local, d_global)
    k = candidate_count(glocal(weight, d_local, d_global))
    log_k = k.double().log()
    return k, log_penalty(
        glocal(weight, delta_local(q, entropy, local, log_k), delta_global(q, local, overall, log_k))
    )


def observe(
    entropy: Tensor, state: GuardState, step: int, *, window: int, decay: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Write a step's entropy into the state; return H(X)_{t−1}, the window's median, H_glob,t, `[B]` each.

    `step` counts from 0. At the first all three are the entropy itself, which makes every difference 0.
    """
    state.entropies[:, step] = entropy
    if step == 0:
        state.sums[:, 0] = entropy
        return entropy, entropy, entropy
    state.sums[:, step] = discounted_sum(entropy, state.sums[:, step - 1], decay)
    overall = global_entropy(state.sums[:, step], step + 1, decay)
    return state.entropies[:, step - 1], median(state.entropies[:, max(0, step - window) : step]), overall


def guard_step(
    logits: Tensor, state: GuardState, step: int, history: Tensor, *, window: int, decay: float
) -> Tensor:
    """Return the next tokens, `[B]`: of the k_t most likely the one with the highest `penalised` score.

    Args:
        logits: `[B, V]`.
        state: The batch's memory; this step is written into it.
        step: 0, 1, …; every earlier step must have been done.
        history: Tokens generated so far, `[B, T]` or longer than `step`; the rest is not looked at.
        window: w.
        decay: λ of `eq:hglob`.

    Source: `eq:acs`.
    """
    entropy, log_p = shannon_entropy(logits)
    before, local, overall = observe(entropy, state, step, window=window, decay=decay)
    k, log_alpha = adapt(entropy, before, local, overall, math.log(logits.shape[-1]))
    values, ids = top_candidates(logits.float(), K_MIN + K_RANGE)
    # ln p in float64 from the logits: rounded to float32, tokens would tie that do not.
    log_p_best = log_p.gather(1, ids[:, :1]).double()
    scores = penalised(
        values.double() - values[:, :1] + log_p_best, token_counts(ids, history[:, :step]), log_alpha
    )
    rank = torch.arange(ids.shape[-1], device=ids.device)
    scores = scores.masked_fill(rank >= k[:, None], -torch.inf)
    return ids.gather(1, smallest_best(scores, ids)[:, None])[:, 0]
