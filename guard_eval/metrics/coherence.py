"""Coherence: the mean log-likelihood of a continuation given its prompt (the paper's Appendix D).

Any causal language model can score. Under the model that wrote the texts greedy decoding wins by
construction; a table therefore always says which model scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Coherence:
    """Coherence of texts under one model.

    Attributes:
        values: Mean log-likelihood per token of each continuation, in nats; None where it has none.
        mean: Their mean over texts that have one.
        empty: Continuations without a token that anything precedes.
        truncated: Prompts that had to lose their first tokens to fit the model's context.
    """

    values: tuple[float | None, ...]
    mean: float | None
    empty: int
    truncated: int


def coherence(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    tokenizer: Any,  # noqa: ANN401
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    batch_size: int = 16,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Coherence:
    """Return 1/|x̂| Σᵢ log p(x̂ᵢ | x, x̂₍<ᵢ₎) of each continuation x̂ of its prompt x.

    Prompt and continuation are tokenised separately, the model's first token before the prompt. Texts are
    sorted by length and padded on the right; scores are taken in float32.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        prompts: One per continuation.
        continuations: What is scored.
        batch_size: Texts per forward pass.
        on_progress: Called with the number of texts done since the last call.
    """
    limit = int(getattr(model.config, "max_position_embeddings", None) or 1 << 30)
    rows = [_tokens(tokenizer, p, c) for p, c in zip(prompts, continuations, strict=True)]
    fitted = [(prompt[max(0, len(prompt) + len(text) - limit) :], text) for prompt, text in rows]
    values: list[float | None] = [None] * len(rows)
    order = sorted((i for i, (_, text) in enumerate(fitted) if text), key=lambda i: sum(map(len, fitted[i])))
    on_progress(len(rows) - len(order))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        for index, value in zip(chosen, _score(model, [fitted[i] for i in chosen]), strict=True):
            values[index] = value
        on_progress(len(chosen))
    scored = [value for value in values if value is not None]
    return Coherence(
        values=tuple(values),
        mean=sum(scored) / len(scored) if scored else None,
        empty=len(rows) - len(scored),
        truncated=sum(len(before[0]) > len(after[0]) for before, after in zip(rows, fitted, strict=True)),
    )


def _tokens(tokenizer: Any, prompt: str, continuation: str) -> tuple[list[int], list[int]]:  # noqa: ANN401
    first = tokenizer.bos_token_id
    start = [] if first is None else [first]
    before = start + tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"]
    return before, tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"]


@torch.inference_mode()
def _score(model: Any, rows: Sequence[tuple[list[int], list[int]]]) -> list[float | None]:  # noqa: ANN401
    device = next(model.parameters()).device
    width = max(len(prompt) + len(text) for prompt, text in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for row, (prompt, text) in enumerate(rows):
        ids[row, : len(prompt) + len(text)] = torch.tensor(prompt + text)
        mask[row, : len(prompt) + len(text)] = 1
    logits: Tensor = model(ids.to(device), attention_mask=mask.to(device), use_cache=False).logits
    values: list[float | None] = []
    for row, (prompt, text) in enumerate(rows):
        # The token at position i is predicted at i − 1; a continuation without anything before it loses its
        # first token.
        begin, end = max(1, len(prompt)), len(prompt) + len(text)
        if end == begin:
            values.append(None)
            continue
        predicted = logits[row, begin - 1 : end - 1].float().log_softmax(-1)
        wanted = ids[row, begin:end].to(device)
        values.append(predicted.gather(1, wanted[:, None]).double().mean().item())
    return values
