"""Features of texts for MAUVE: a language model's last hidden state at a text's last token.

The definition is that of Pillutla et al. (2021), "MAUVE: Measuring the Gap Between Neural Text and Human
Text". Any causal model can give them; scores under two models cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from guard_eval.errors import StudyError


def first_tokens(tokenizer: Any, text: str, tokens: int) -> tuple[str, int]:  # noqa: ANN401 (untyped)
    """Return `text` cut to its first tokens, and how many it has then: `tokens`, or all it had if fewer."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"][:tokens]
    return tokenizer.decode(ids, clean_up_tokenization_spaces=False), len(ids)


def hidden_features(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    texts: Sequence[str],
    *,
    max_tokens: int | None = None,
    batch_size: int = 16,
    on_progress: Callable[[int], None] = lambda _: None,
) -> NDArray[np.float32]:
    """Return the last layer's hidden state at the last token of each text, [n, d].

    Special tokens are those the tokenizer adds of its own accord. Texts are sorted by length and padded on
    the right, where a causal model does not look.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        texts: Each of at least one token.
        max_tokens: A longer text loses its end; the model's context is the limit in any case.
        batch_size: Texts per forward pass.
        on_progress: Called with the number of texts done since the last call.

    Raises:
        StudyError: A text has no token.
    """
    rows = _tokens(tokenizer, texts, _limit(model, max_tokens))
    features = np.empty((len(rows), model.config.get_text_config().hidden_size), dtype=np.float32)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        features[chosen] = _last_states(model, [rows[index] for index in chosen])
        on_progress(len(chosen))
    return features


def _limit(model: Any, max_tokens: int | None) -> int | None:  # noqa: ANN401
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return min((limit for limit in (context, max_tokens) if limit is not None), default=None)


def _tokens(tokenizer: Any, texts: Sequence[str], limit: int | None) -> list[list[int]]:  # noqa: ANN401
    cut = {} if limit is None else {"truncation": True, "max_length": limit}
    rows = [tokenizer(text, verbose=False, **cut)["input_ids"] for text in texts]
    for number, row in enumerate(rows):
        if not row:
            raise StudyError(
                f"text {number} of {len(rows)} ({texts[number]!r}) has no token, so it has no features; "
                "leave empty texts out of MAUVE"
            )
    return rows


@torch.inference_mode()
def _last_states(model: Any, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:  # noqa: ANN401
    device = next(model.parameters()).device
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    # The model without its head: logits over the vocabulary would need far more memory than everything else.
    body = getattr(model, "base_model", model)
    states = body(
        input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False, output_hidden_states=True
    ).hidden_states[-1]
    last = states[torch.arange(len(rows), device=device), (lengths - 1).to(device)]
    values: NDArray[np.float32] = last.float().cpu().numpy()
    return values
