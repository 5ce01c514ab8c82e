"""Penalties for what was written before. A row's penalties depend on its own tokens alone."""

from __future__ import annotations

import torch
from torch import Tensor

from guard_eval.generation.decoding.context import Context
from guard_eval.generation.strategies import (
    Dry,
    FrequencyPenalty,
    NoRepeatNgram,
    PresencePenalty,
    RepetitionPenalty,
    apply_step,
)

LONGEST_MATCH = 50
"""How many tokens before the next one DRY compares at most, as in its author's program: base^n grows fast."""


@apply_step.register
def repetition_penalty(strategy: RepetitionPenalty, logits: Tensor, context: Context) -> Tensor:
    """Divide the logits of the tokens so far by θ, or multiply them by it where they are negative.

    The paper divides all (section 4.1); the other half is transformers', so that θ > 1 never makes a token
    likelier.
    """
    theta = strategy.penalty
    punished = torch.where(logits < 0, logits * theta, logits / theta)
    return torch.where(_counts(logits, context.tokens) > 0, punished, logits)


@apply_step.register(FrequencyPenalty | PresencePenalty)
def count_penalty(
    strategy: FrequencyPenalty | PresencePenalty,
    logits: Tensor,
    context: Context,
) -> Tensor:
    """Take α from a token's logit for each time that it was written, or once if it was written."""
    highest_count = 1 if isinstance(strategy, PresencePenalty) else torch.inf
    return logits - strategy.penalty * _counts(logits, context.written).clamp(max=highest_count)


@apply_step.register
def no_repeat_ngram(strategy: NoRepeatNgram, logits: Tensor, context: Context) -> Tensor:
    """Leave out the tokens that would end a sequence of n which prompt or text already has.

    A row of which nothing would be left keeps all.
    """
    before = strategy.n - 1
    tokens = torch.nn.functional.pad(context.tokens, (1, 0), value=-1)  # the first one, too, follows a place
    repeats = _match_lengths(tokens, before) == before
    banned = _marked(logits, tokens[:, 1:], repeats.long()) > 0
    banned &= ~banned.logical_or(logits == -torch.inf).all(-1, keepdim=True)
    return logits.masked_fill(banned, -torch.inf)


@apply_step.register
def dry(strategy: Dry, logits: Tensor, context: Context) -> Tensor:
    """Take multiplier · base^(n − allowed_length) from the logits of tokens that would go on repeating.

    n is how many of the last tokens, at most 50, stand in the same order before an earlier place of that
    token; below the allowed length nothing is taken. No sequence reaches across breakers, and none of these
    is made less likely.
    """
    tokens = context.tokens
    if strategy.breakers != "none":  # −1, as where there is no token, begins no sequence and continues none
        tokens = tokens.masked_fill(torch.isin(tokens, context.breakers), -1)
    lengths = _marked(logits, tokens[:, 1:], _match_lengths(tokens, LONGEST_MATCH))
    power = (lengths - strategy.allowed_length).double()
    penalty = strategy.multiplier * torch.pow(strategy.base, power)
    penalty = penalty.clamp(max=torch.finfo(torch.float32).max / 2).float()
    return torch.where(lengths >= strategy.allowed_length, logits - penalty, logits)


def _counts(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return how often each token of the vocabulary is in `tokens` `[B, T]`: `[B, V]`."""
    size = logits.shape[-1]
    in_vocabulary = (tokens >= 0) & (tokens < size)
    counts = torch.zeros_like(logits)
    return counts.scatter_add(1, tokens.clamp(0, size - 1), in_vocabulary.to(logits.dtype))


def _match_lengths(tokens: Tensor, longest: int) -> Tensor:
    """Return for each place but the last how many tokens up to it are those up to the last: `[B, T − 1]`."""
    width = tokens.shape[-1]
    running = torch.ones_like(tokens[:, 1:], dtype=torch.bool)
    lengths = torch.zeros_like(tokens[:, 1:])
    for back in range(min(longest, width - 1)):
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
