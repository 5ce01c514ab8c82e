"""GUARD as its authors' programs run it, written anew from their description: one text at a time.

The published generation script passes the whole text through the model for every token, without a cache. The
published logits processor keeps its entropies in a Python list, walks through it at every step, counts tokens
in Python and copies values to the host three times a step. Both choose by the formulation `released`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessor

EPSILON = 1e-4
_INSIDE = 1 - 1e-4
"""How far arctanh's argument may go."""


class PublishedProcessor(LogitsProcessor):
    """The formulation `released` for one text, with Python's own arithmetic."""

    def __init__(self, *, window: int = 7, decay: float = 0.95) -> None:
        self._window = window
        self._decay = decay
        self._entropies: list[float] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return −inf everywhere but at the token chosen from scores `[1, V]` after the tokens `[1, T]`."""
        p = scores.float().softmax(-1)
        self._entropies.append(float(-(p * (p + 1e-5).log()).sum()))  # the first copy to the host
        k, alpha = self._adapt(math.log(scores.shape[-1]))
        values, ids = p[0].topk(int(k))
        counts = Counter(input_ids[0].tolist())  # the second
        penalised = values * torch.tensor(
            [alpha ** counts[token] for token in ids.tolist()], device=scores.device
        )  # and the third
        chosen = ids.gather(0, penalised.argmax(-1, keepdim=True))
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[None], 0.0)

    def _adapt(self, log_vocabulary: float) -> tuple[float, float]:
        """Return k_t, not yet rounded, and α_t."""
        history, w = self._entropies, self._window
        now, before = history[-1], history[-2] if len(history) > 1 else history[-1]
        weights = [self._decay**age for age in range(len(history) - 1, -1, -1)]
        overall = sum(weight * h for weight, h in zip(weights, history, strict=True)) / sum(weights)
        local = statistics.median_low(history[-w:])
        shorter = statistics.median_low(history[-(w - 1) :] if w > 1 else history[-1:])
        change = abs(now - before) / (before + EPSILON)
        warm = len(history) >= w
        difference = abs(shorter - overall) / (shorter + EPSILON) if warm else 0.0
        q = 0.9 + 0.1 * (1 + min(1.0, change) + min(1.0, difference))

        def exponent(log_size: float) -> float:
            d_local = q * _arctanh((now - local) / log_size)
            d_global = q * _arctanh((shorter - overall) / log_size) if warm else 0.0
            total = abs(d_local) + abs(d_global) + EPSILON
            share = abs(d_local) / total
            return share * d_local + (1 - share) * d_global

        k = 10 * _sigmoid(exponent(log_vocabulary)) + 5
        return k, _sigmoid(exponent(math.log(k + 1e-4)))


def _arctanh(x: float) -> float:
    return math.atanh(max(-_INSIDE, min(_INSIDE, x)))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@torch.no_grad()
def decode_without_cache(model: Any, prompt: list[int], limit: int) -> list[int]:  # noqa: ANN401
    """Return `limit` new tokens for one prompt, the whole text passing through the model for each of them."""
    ids = torch.tensor([prompt], device=model.device)
    process = PublishedProcessor()
    for _ in range(limit):
        logits = model(input_ids=ids, use_cache=False).logits[:, -1]
        ids = torch.cat([ids, process(ids, logits).argmax(-1, keepdim=True)], dim=-1)
    tokens: list[int] = ids[0, len(prompt) :].tolist()
    return tokens
