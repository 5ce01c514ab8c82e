"""What cannot be generated, found before the first batch."""

from __future__ import annotations

from collections.abc import Sequence

from guard_eval.engines.loading import LoadedModel
from guard_eval.engines.local.texts import EncodedPrompt
from guard_eval.errors import StudyError
from guard_eval.strategies import AdaptiveContrastiveSearch, Guard, Strategy

_ADAPTIVE_CANDIDATES = 15
"""How many candidates GUARD and ACS consider at most: k_t = 10 σ(·) + 5."""


def check_settings(*, max_new_tokens: int, max_prompt_tokens: int, batch_size: int) -> None:
    """Make sure that there is something to do.

    Raises:
        StudyError: A number is below 1.
    """
    numbers = {
        "max_new_tokens": max_new_tokens,
        "max_prompt_tokens": max_prompt_tokens,
        "batch_size": batch_size,
    }
    for setting, value in numbers.items():
        if value < 1:
            raise StudyError(f"{setting} = {value} is out of range; it must be at least 1")


def check_context(loaded: LoadedModel, encoded: Sequence[EncodedPrompt], max_new_tokens: int) -> None:
    """Make sure that the prompts and as many new tokens are no longer than the model's context.

    Raises:
        StudyError: The longest prompt is; the message says by which limit it would fit.
    """
    context = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    if context is None or not encoded:
        return
    longest = max(encoded, key=lambda row: len(row.ids))
    if len(longest.ids) + max_new_tokens > context:
        room = context - max_new_tokens
        shorter = f"set max_prompt_tokens to {room} or less, or lower max_new_tokens"
        raise StudyError(
            f"the prompt {longest.prompt.id!r} has {len(longest.ids)} tokens, and with max_new_tokens = "
            f"{max_new_tokens} more it exceeds the {context} that the model {loaded.name!r} can hold; "
            + (shorter if room > 0 else f"set max_new_tokens below {context}")
        )


def check_vocabulary(loaded: LoadedModel, strategy: Strategy) -> None:
    """Make sure that the model has as many tokens as the strategy chooses among.

    Raises:
        StudyError: It does not.
    """
    size = loaded.model.config.get_text_config().vocab_size
    wanted = _candidates(strategy)
    if wanted > size:
        raise StudyError(
            f"{strategy} chooses among {wanted} tokens, and the model {loaded.name!r} has {size}; "
            "choose fewer, or leave the strategy out"
        )


def _candidates(strategy: Strategy) -> int:
    if isinstance(strategy, Guard | AdaptiveContrastiveSearch):
        return _ADAPTIVE_CANDIDATES
    found: int = getattr(strategy, "k", None) or getattr(strategy, "beams", None) or 1
    return found
