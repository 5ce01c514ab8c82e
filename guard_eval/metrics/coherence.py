"""Coherence: the mean log-likelihood of a continuation given its prompt (the paper's Appendix D).

Any causal language model can score. Under the model that wrote the texts greedy decoding wins by
construction; a table therefore always says which model scored. Perplexity comes from the same numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

_LOGITS = {"cpu": 2**26, "cuda": 2**29}
"""Most logits of a batch: a quarter of a gibibyte on a CPU, two on a GPU, in float32."""
_TOKENS = {"cpu": 2**12, "cuda": 2**16}
"""Most tokens of a batch, padding counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLikelihood:
    """What a model says of one continuation.

    Attributes:
        total: Σᵢ log p(x̂ᵢ | x, x̂₍<ᵢ₎), nats; NaN if the model's arithmetic broke down.
        tokens: How many tokens that is the sum of, at least 1.
        prompt_cut: The prompt lost its beginning to fit the model's context.
        text_cut: The continuation lost its end, as it did not fit alone.
    """

    total: float
    tokens: int
    prompt_cut: bool
    text_cut: bool

    @property
    def mean(self) -> float:
        """Coherence: log-likelihood per token."""
        return self.total / self.tokens


def log_likelihoods(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    tokenizer: Any,  # noqa: ANN401
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    batch_size: int = 64,
) -> Iterator[dict[int, LogLikelihood | None]]:
    """Yield what `model` says of each continuation, batch by batch, by its place; None if it has no token.

    As in the published script, prompt and continuation are tokenised separately and the model's first token
    stands before the prompt; a continuation without a word has no score. Texts are sorted by length and
    padded on the right; logits are computed where a continuation is predicted, and summed in float32.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        prompts: One per continuation.
        continuations: What is scored.
        batch_size: Most texts per forward pass; long ones come in smaller batches.
    """
    rows = _rows(model, tokenizer, prompts, continuations)
    for batch in _planned(rows, model, batch_size):
        if _has_tokens(rows[batch[0]]):
            yield dict(zip(batch, _score(model, [rows[place] for place in batch]), strict=True))
        else:
            yield dict.fromkeys(batch)


def batches_of(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    batch_size: int = 64,
) -> list[list[int]]:
    """Return the places that `log_likelihoods` would score together, batch by batch.

    Given one of these batches alone, in its order, `log_likelihoods` makes the same batch of it, and the same
    numbers to the bit: it can be done elsewhere.
    """
    return list(_planned(_rows(model, tokenizer, prompts, continuations), model, batch_size))


def _rows(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    prompts: Sequence[str],
    continuations: Sequence[str],
) -> list[_Row]:
    limit = int(getattr(model.config, "max_position_embeddings", None) or 1 << 30)
    texts = [text if text.strip() else "" for text in continuations]
    return [
        _fit(prompt, text, limit, kept=tokenizer.bos_token_id is not None)
        for prompt, text in zip(_prompt_ids(tokenizer, prompts), _ids(tokenizer, texts), strict=True)
    ]


def _has_tokens(row: _Row) -> bool:
    return row.first < len(row.ids)


def _planned(rows: list[_Row], model: Any, batch_size: int) -> Iterator[list[int]]:  # noqa: ANN401
    """Yield the places of texts without a token, if there are any, and then batches of all others."""
    empty = [place for place, row in enumerate(rows) if not _has_tokens(row)]
    if empty:
        yield empty
    scored = [place for place, row in enumerate(rows) if _has_tokens(row)]
    # By prompt's length first: logits are wanted from the shortest prompt's end on.
    scored.sort(key=lambda place: (len(rows[place].ids), rows[place].first))
    yield from _batches(rows, scored, model, batch_size)


@dataclass(frozen=True, slots=True)
class _Row:
    """Tokens of a prompt and its continuation, of which those from `first` on are scored."""

    ids: list[int]
    first: int
    prompt_cut: bool
    text_cut: bool


def _prompt_ids(tokenizer: Any, prompts: Sequence[str]) -> list[list[int]]:  # noqa: ANN401
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    return [start + ids for ids in _ids(tokenizer, prompts)]


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:  # noqa: ANN401
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=False, verbose=False, return_attention_mask=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _fit(prompt: list[int], text: list[int], limit: int, *, kept: bool) -> _Row:
    """Cut what does not fit: the prompt's beginning, but not the first token, then the continuation's end."""
    start = prompt[:1] if kept else []
    fitted = text[: limit - max(1, len(start))] if prompt else text[:limit]
    room = limit - len(fitted)
    before = prompt if len(prompt) <= room else start + prompt[len(prompt) - (room - len(start)) :]
    # The token at position i is predicted at i − 1: a text without anything before it loses its first token.
    return _Row(before + fitted, max(1, len(before)), len(before) < len(prompt), len(fitted) < len(text))


def _batches(rows: list[_Row], order: list[int], model: Any, batch_size: int) -> Iterator[list[int]]:  # noqa: ANN401
    """Cut `order`, ascending by length, so that neither tokens nor logits of a batch are too many."""
    kind = "cuda" if next(model.parameters()).device.type == "cuda" else "cpu"
    vocabulary = model.config.get_text_config().vocab_size
    starts, begin = [0], min((row.first for row in rows), default=0)
    for place, index in enumerate(order):
        size, width = place - starts[-1] + 1, len(rows[index].ids)
        begin = min(begin, rows[index].first) if size > 1 else rows[index].first
        many = size * width > _TOKENS[kind] or size * (width - begin + 1) * vocabulary > _LOGITS[kind]
        if size > 1 and (size > batch_size or many):
            starts.append(place)
            begin = rows[index].first
    for start, end in pairwise([*starts, len(order)]):
        if start < end:
            yield order[start:end]


@torch.inference_mode()
def _score(model: Any, rows: Sequence[_Row]) -> list[LogLikelihood]:  # noqa: ANN401
    device = next(model.parameters()).device
    width = max(len(row.ids) for row in rows)
    # No mask: what is padded on the right comes after all that is scored, and a causal model does not look
    # ahead. Attention without a mask is faster. A row's own first token pads it, as one that means "padding"
    # makes some models look for a mask.
    padded = [row.ids + row.ids[:1] * (width - len(row.ids)) for row in rows]
    ids = torch.tensor(padded, device=device)
    begin = min(row.first for row in rows) - 1
    options = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = width - begin
    else:
        begin = 0
    logits: Tensor = model(ids, use_cache=False, **options).logits
    totals = [
        _log_p(
            logits[place, row.first - 1 - begin : len(row.ids) - 1 - begin],
            ids[place, row.first : len(row.ids)],
        )
        for place, row in enumerate(rows)
    ]
    return [
        LogLikelihood(
            total=total, tokens=len(row.ids) - row.first, prompt_cut=row.prompt_cut, text_cut=row.text_cut
        )
        for total, row in zip(torch.stack(totals).tolist(), rows, strict=True)
    ]


def _log_p(logits: Tensor, wanted: Tensor) -> Tensor:
    """Return the log-likelihood of `wanted` `[n]` under `logits` `[n, V]`, one number, float64."""
    logits = logits.float()
    chosen = logits.gather(1, wanted[:, None])[:, 0]
    return (chosen - logits.logsumexp(-1)).double().sum()
