"""Sampling: which tokens each strategy leaves in, and the draw among them. Truncation is done in float32.

What is left in: log-weights `[B, n]` (up to a constant; −inf is left out), and the tokens' ids `[B, n]`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from guard_eval.decoding.candidates import top_candidates
from guard_eval.decoding.noise import gumbel


def temperature(logits: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Return all tokens of `logits` `[B, V]` with the log-weights of softmax(logits / τ)."""
    rows, vocabulary = logits.shape
    logits = logits.float()
    scaled = (logits - logits.amax(-1, keepdim=True)) / tau
    return scaled, torch.arange(vocabulary, device=logits.device).expand(rows, -1)


def top_k(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the `k` most likely tokens of `logits` `[B, V]`; of equally likely ones the smaller ids."""
    return top_candidates(logits.float(), k)


def top_p(logits: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """Return the smallest set of most likely tokens of `logits` `[B, V]` whose probability reaches `p`.

    The token that reaches `p` stays in. Of equally likely ones the smaller id stays in.
    """
    ordered, ids = torch.sort(logits.float(), dim=-1, descending=True, stable=True)
    mass = ordered.softmax(-1).cumsum(-1, dtype=torch.float64)
    before = torch.nn.functional.pad(mass[:, :-1], (1, 0))
    # Dividing by the last sum rather than by 1 keeps rounding from dropping tokens at p = 1.
    return ordered.masked_fill(before >= p * mass[:, -1:], -torch.inf), ids


def draw(log_weights: Tensor, ids: Tensor, keys: Tensor, step: int) -> Tensor:
    """Return one token per row, `[B]`, with probability proportional to its weight (the Gumbel-max method).

    Args:
        log_weights: `[B, n]`.
        ids: `[B, n]`.
        keys: `noise.row_key` of each row, `[B]`.
        step: 0, 1, ….
    """
    scores = log_weights.double() + gumbel(keys, step, ids)
    return ids.gather(1, scores.argmax(-1, keepdim=True))[:, 0]
