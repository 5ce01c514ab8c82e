"""Between texts and tokens: prompts to padded batches, generated tokens back to continuations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from guard_eval.engines.loading import LoadedModel
from guard_eval.errors import StudyError
from guard_eval.records import Prompt


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt with the token ids that the model is given."""

    prompt: Prompt
    ids: list[int]


def encode(loaded: LoadedModel, prompts: Sequence[Prompt], max_prompt_tokens: int) -> list[EncodedPrompt]:
    """Return each prompt's tokens, of which the last `max_prompt_tokens` are kept.

    A beginning-of-text token that the tokenizer sets stays in front: models were trained to see it there.

    Raises:
        StudyError: A prompt has no tokens; it is named.
    """
    return [EncodedPrompt(prompt, _encode(loaded.tokenizer, prompt, max_prompt_tokens)) for prompt in prompts]


def _encode(tokenizer: Any, prompt: Prompt, limit: int) -> list[int]:  # noqa: ANN401
    # The length is ours to limit, so the tokenizer's warning about long texts would only mislead.
    ids: list[int] = tokenizer(prompt.text, verbose=False)["input_ids"]
    bos = tokenizer.bos_token_id
    if not ids and bos is not None:
        ids = [bos]
    if not ids:
        raise StudyError(
            f"the prompt {prompt.id!r} is empty, and the model has no token to start from; remove it"
        )
    start = ids[:1] if ids[0] == bos else []
    return ids if len(ids) <= limit else start + ids[len(ids) - limit + len(start) :]


def left_padded(rows: Sequence[list[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return token ids and their mask (true where there is a token), `[B, P]` each, padded on the left."""
    longest = max(len(row) for row in rows)
    ids = [[pad] * (longest - len(row)) + row for row in rows]
    mask = [[False] * (longest - len(row)) + [True] * len(row) for row in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def pad_id(loaded: LoadedModel) -> int:
    """Return the token that fills up rows; it is masked, so any will do that exists."""
    tokenizer = loaded.tokenizer
    known = [token for token in (tokenizer.pad_token_id, tokenizer.eos_token_id) if token is not None]
    return known[0] if known else 0


def eos_ids(loaded: LoadedModel) -> list[int]:
    """Return the tokens that end a text: the tokenizer's and the model's; without any only the limit does."""
    settings = loaded.model.generation_config
    listed = getattr(settings, "eos_token_id", None)
    ids = set(listed if isinstance(listed, list) else [listed]) | {loaded.tokenizer.eos_token_id}
    return sorted(token for token in ids if token is not None)


def continuation_text(tokenizer: Any, prompt_ids: list[int], new_ids: list[int]) -> str:  # noqa: ANN401
    """Return what the new tokens add to the prompt's text, special tokens left out.

    Decoded alone, SentencePiece's tokens would lose the space that they begin with.
    """
    before = _decode(tokenizer, prompt_ids)
    both = _decode(tokenizer, prompt_ids + new_ids)
    return both[len(before) :] if both.startswith(before) else _decode(tokenizer, new_ids)


def _decode(tokenizer: Any, ids: list[int]) -> str:  # noqa: ANN401
    text: str = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text
