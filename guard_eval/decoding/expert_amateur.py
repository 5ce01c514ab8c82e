"""Contrastive decoding (Li et al. 2023, arXiv 2210.15097): what an expert finds likelier than an amateur."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from guard_eval.decoding.entropy import log_normaliser


def contrast(expert: Tensor, amateur: Tensor, *, alpha: float, amateur_tau: float) -> Tensor:
    """Return ln p_expert − ln p_amateur of the tokens with p_expert ≥ α · max p_expert, −inf of all others.

    A token that the amateur rules out altogether has no finite score and is left out as well. Where either
    model gives no probabilities (NaN or infinite logits), all scores are NaN.

    Args:
        expert: The expert's logits, `[B, V]`.
        amateur: The amateur's, of the same texts and tokens.
        alpha: α, above 0 and at most 1.
        amateur_tau: The amateur's temperature: its probabilities are softmax(logits / τ).

    Returns:
        `[B, V]`, float32.
    """
    expert, amateur = expert.float(), amateur.float() / amateur_tau
    best, likeliest = expert.amax(-1, keepdim=True), amateur.amax(-1, keepdim=True)
    # The larger terms are taken apart first: the scores' digits are few.
    difference = (expert - best) - (amateur - likeliest)
    shift = log_normaliser(expert) - best[:, 0] - (log_normaliser(amateur) - likeliest[:, 0])
    plausible = (expert >= best + math.log(alpha)) & (amateur > -torch.inf)
    scores = (difference - shift.float()[:, None]).masked_fill(~plausible, -torch.inf)
    return scores.masked_fill(~(best.isfinite() & likeliest.isfinite()), torch.nan)
