"""Penalties for what was written before: logits `[B, V]` in, logits `[B, V]`, float32, out.

Tokens are `[B, T]`; −1 is no token. What a row gets depends on its own tokens alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

LONGEST_MATCH = 50
"""How many tokens before the next one DRY compares at most, as in its author's program: base^n grows fast."""


def repetition_penalty(logits: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    """Divide the logits of `tokens` by θ, or multiply them by it where they are negative.

    Source: Keskar et al. 2019 (arXiv 1909.05858), penalized sampling in section 4.1, which divides all; the
    other half is transformers', so that θ > 1 never makes a token likelier.
    """
    punished = torch.where(logits < 0, logits * penalty, logits / penalty)
    return torch.where(_counts(logits, tokens) > 0, punished, logits)


def frequency_penalty(logits: Tensor, written: Tensor, penalty: float) -> Tensor:
    """Take α from a token's logit for each time that it was written. Source: OpenAI's API."""
    return logits - penalty * _counts(logits, written)


def presence_penalty(logits: Tensor, written: Tensor, penalty: float) -> Tensor:
    """Take α from the logits of the tokens that were written. Source: OpenAI's API."""
    return logits - penalty * (_counts(logits, written) > 0)


def no_repeat_ngram(logits: Tensor, tokens: Tensor, n: int) -> Tensor:
    """Leave out the tokens that would end a sequence of n which is in `tokens`, the last one at the end.

    A row of which nothing would be left keeps all. Source: Paulus et al. 2018 (arXiv 1705.04304), for n = 3.
    """
    length = _match_lengths(tokens, n - 1) if n > 1 else torch.zeros_like(tokens[:, 1:])
    following = tokens if n == 1 else tokens[:, 1:]
    matched = torch.ones_like(following, dtype=torch.bool) if n == 1 else length == n - 1
    banned = _marked(logits, following, matched.long()) > 0
    banned &= ~banned.logical_or(logits == -torch.inf).all(-1, keepdim=True)
    return logits.masked_fill(banned, -torch.inf)


def dry(
    logits: Tensor,
    tokens: Tensor,
    *,
    multiplier: float,
    base: float,
    allowed_length: int,
    breakers: Tensor | None = None,
) -> Tensor:
    """Take multiplier · base^(n − allowed_length) from the logits of tokens that would go on repeating.

    n is how many of the last `tokens`, at most 50, stand in the same order before an earlier place of that
    token; below the allowed length nothing is taken. No sequence reaches across `breakers` `[n]`, and none of
    these is made less likely.

    Source: p-e-w 2024 (text-generation-webui, pull request 5677).
    """
    if tokens.shape[-1] < 2:
        return logits
    following = tokens[:, 1:]
    if breakers is not None:  # −1, as where there is no token, begins no sequence and continues none
        tokens = tokens.masked_fill(torch.isin(tokens, breakers), -1)
        following = tokens[:, 1:]
    lengths = _marked(logits, following, _match_lengths(tokens, LONGEST_MATCH))
    penalty = multiplier * torch.pow(base, (lengths - allowed_length).double())
    penalty = penalty.clamp(max=torch.finfo(torch.float32).max / 2).float()
    return torch.where(lengths >= allowed_length, logits - penalty, logits)


def _counts(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return how often each token of the vocabulary is in `tokens` `[B, T]`: `[B, V]`."""
    size = logits.shape[-1]
    known = (tokens >= 0) & (tokens < size)
    counts = torch.zeros_like(logits)
    return counts.scatter_add(1, tokens.clamp(0, size - 1), known.to(logits.dtype))


def _match_lengths(tokens: Tensor, most: int) -> Tensor:
    """Return for each place but the last how many tokens up to it are those up to the last: `[B, T − 1]`."""
    width = tokens.shape[-1]
    running = torch.ones_like(tokens[:, 1:], dtype=torch.bool)
    lengths = torch.zeros_like(tokens[:, 1:])
    for back in range(min(most, width - 1)):
        last = tokens[:, width - 1 - back, None]
        same = (tokens[:, : width - 1 - back] == last) & (last >= 0)
        running = running & torch.nn.functional.pad(same, (back, 0))
        if tokens.device.type == "cpu" and not running.any():  # a GPU would have to tell the host
            break
        lengths += running
    return lengths


def _marked(logits: Tensor, tokens: Tensor, values: Tensor) -> Tensor:
    """Return for each token of the vocabulary the largest of its `values` `[B, T]`, 0 without: `[B, V]`."""
    size = logits.shape[-1]
    values = values.masked_fill((tokens < 0) | (tokens >= size), 0)
    marks = torch.zeros(logits.shape, dtype=values.dtype, device=logits.device)
    return marks.scatter_reduce(1, tokens.clamp(0, size - 1), values, "amax")
