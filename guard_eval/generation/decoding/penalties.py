"""Penalties for repeated tokens. A row's penalties depend only on its own tokens."""

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
"""The longest repeated sequence that DRY looks for, in tokens, as in the author's program. A limit is needed,
because the penalty grows exponentially."""


@apply_step.register
def apply_repetition_penalty(strategy: RepetitionPenalty, logits: Tensor, context: Context) -> Tensor:
    """Divide positive logits of the tokens so far by θ, and multiply negative logits by θ.

    The paper divides all logits (section 4.1). Negative logits are multiplied as in transformers, so that
    θ > 1 never makes a token more likely.
    """
    theta = strategy.penalty
    punished = torch.where(logits < 0, logits * theta, logits / theta)
    return torch.where(_count_token_occurrences(logits, context.tokens) > 0, punished, logits)


@apply_step.register(FrequencyPenalty | PresencePenalty)
def apply_count_penalty(
    strategy: FrequencyPenalty | PresencePenalty,
    logits: Tensor,
    context: Context,
) -> Tensor:
    """Subtract α from a token's logit for each occurrence in the text, or only once as a presence penalty."""
    highest_count = 1 if isinstance(strategy, PresencePenalty) else torch.inf
    return logits - strategy.penalty * _count_token_occurrences(logits, context.written).clamp(
        max=highest_count
    )


@apply_step.register
def mask_repeated_ngrams(strategy: NoRepeatNgram, logits: Tensor, context: Context) -> Tensor:
    """Mask tokens that would repeat an n-gram of the prompt or the text.

    A row in which every token would be masked is not changed.
    """
    before = strategy.n - 1
    # One more position, so that the first token follows a position.
    tokens = torch.nn.functional.pad(context.tokens, (1, 0), value=-1)
    repeats = _count_matches_with_text_end(tokens, before) == before
    banned = _find_largest_value_per_token(logits, tokens[:, 1:], repeats.long()) > 0
    are_all_masked = (banned | (logits == -torch.inf)).all(-1, keepdim=True)
    return logits.masked_fill(banned & ~are_all_masked, -torch.inf)


@apply_step.register
def apply_dry_penalty(strategy: Dry, logits: Tensor, context: Context) -> Tensor:
    """Subtract multiplier · base^(n − allowed_length) from the logits of tokens that would repeat a sequence.

    n is the number of last tokens, at most 50, that also precede an earlier occurrence of the token. If n is
    below the allowed length, nothing is subtracted.
    """
    tokens = context.tokens
    lengths = _find_largest_value_per_token(
        logits, tokens[:, 1:], _count_matches_with_text_end(tokens, LONGEST_MATCH)
    )
    power = (lengths - strategy.allowed_length).double()
    penalty = strategy.multiplier * torch.pow(strategy.base, power)
    penalty = penalty.clamp(max=torch.finfo(torch.float32).max / 2).float()
    return torch.where(lengths >= strategy.allowed_length, logits - penalty, logits)


def _count_token_occurrences(logits: Tensor, tokens: Tensor) -> Tensor:
    """Count how often each token of the vocabulary occurs in `tokens` `[B, T]`. Return `[B, V]`."""
    size = logits.shape[-1]
    in_vocabulary = (tokens >= 0) & (tokens < size)
    counts = torch.zeros_like(logits)
    return counts.scatter_add(1, tokens.clamp(0, size - 1), in_vocabulary.to(logits.dtype))


def _count_matches_with_text_end(tokens: Tensor, longest: int) -> Tensor:
    """Count the tokens before each position that are equal to the last tokens of the text.

    Returns:
        The number of equal tokens, at most `longest`, for each position but the last, `[B, T − 1]`.
    """
    width = tokens.shape[-1]
    running = torch.ones_like(tokens[:, 1:], dtype=torch.bool)
    lengths = torch.zeros_like(tokens[:, 1:])
    for back in range(min(longest, width - 1)):
        last = tokens[:, width - 1 - back, None]
        same = (tokens[:, : width - 1 - back] == last) & (last >= 0)
        running = running & torch.nn.functional.pad(same, (back, 0))
        if tokens.device.type == "cpu" and not running.any():  # on a GPU, the host would wait
            break
        lengths += running
    return lengths


def _find_largest_value_per_token(logits: Tensor, tokens: Tensor, values: Tensor) -> Tensor:
    """Return each token's largest value, `[B, V]`, or 0 for tokens that do not occur in `tokens` `[B, T]`."""
    size = logits.shape[-1]
    values = values.masked_fill((tokens < 0) | (tokens >= size), 0)
    marks = torch.zeros(logits.shape, dtype=values.dtype, device=logits.device)
    return marks.scatter_reduce(1, tokens.clamp(0, size - 1), values, "amax")
