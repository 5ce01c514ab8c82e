"""Uncertainty at a step and over the steps so far, which ACS and GUARD adapt to. Logarithms are natural."""

from __future__ import annotations

import math

import torch
from torch import Tensor

CLAMP = 1 - 1e-6
"""Where the argument of arctanh ends on either side: the paper is silent, and ln k_t does get exceeded."""


def shannon_entropy(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return H(X)_t = −Σ p ln p, in nats, with the ln p it needed.

    Args:
        logits: `[B, V]`; −inf is a token that cannot come.

    Returns:
        Entropies `[B]` in float64 and log-probabilities `[B, V]` in float32, all finite.

    Source: the display before `eq:hglob`.
    """
    # 0 · −inf is no number, 0 · (the lowest number) is the 0 that is meant.
    log_p = torch.log_softmax(logits.float(), -1).clamp_(min=torch.finfo(torch.float32).min)
    return -log_p.exp().mul_(log_p).sum(-1).double(), log_p


def discounted_sum(entropy: Tensor, before: Tensor, decay: float) -> Tensor:
    """Return Σ_i λ^(t−i) H(X)_i, `[B]`, from this step's entropy and the sum of the step before, `[B]` each.

    Source: the numerator of `eq:hglob`.
    """
    return decay * before + entropy


def global_entropy(total: Tensor, t: int, decay: float) -> Tensor:
    """Return H_glob,t, `[B]`: `discounted_sum`, `[B]`, over Σ_i λ^(t−i); steps count t = 1, 2, ….

    Source: `eq:hglob`.
    """
    # (1 − λ^t) / (1 − λ), in the form that stays exact where λ is close to 1
    return total / (t if decay == 1 else math.expm1(t * math.log(decay)) / (decay - 1))


def median(values: Tensor) -> Tensor:
    """Return the median of each row, `[B, n]` → `[B]`; of an even count the mean of the middle two."""
    ordered = values.sort(-1).values
    n = values.shape[-1]
    return (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2


def arctanh(x: Tensor) -> Tensor:
    """Return arctanh of `x` held within ±`CLAMP`, where it is finite."""
    return x.clamp(-CLAMP, CLAMP).arctanh()
