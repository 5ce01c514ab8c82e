"""Coherence: the mean log-likelihood of a continuation given its prompt (the paper's Appendix D).

Any causal language model can score. Under the model that wrote the texts greedy decoding wins by
construction; a table therefore always says which model scored. Perplexity comes from the same numbers.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from guard_eval.engines.lazy import LazyModel
from guard_eval.engines.loading import LoadedModel
from guard_eval.metrics.cache import Found, Models, Progress, ScoreCache, read_once
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.outcomes import Outcome, ratio_of, sum_of
from guard_eval.records import content_id
from guard_eval.study.settings import MetricSettings

if TYPE_CHECKING:
    from torch import Tensor


_LOGITS = {"cpu": 2**26, "cuda": 2**29}
"""Most logits of a batch: a quarter of a gibibyte on a CPU, two on a GPU, in float32."""
_TOKENS = {"cpu": 2**12, "cuda": 2**16}
"""Most tokens of a batch, padding counted."""
_TEXTS = 64
"""Most texts of a batch."""


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
    batch_size: int = _TEXTS,
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
        yield dict(zip(batch, _scores(model, [rows[place] for place in batch]), strict=True))


def _rows(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    prompts: Sequence[str],
    continuations: Sequence[str],
) -> list[_Row]:
    limit = int(getattr(model.config, "max_position_embeddings", None) or 1 << 30)
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    texts = [text if text.strip() else "" for text in continuations]
    return [
        _fit(start + prompt, text, limit, kept=bool(start))
        for prompt, text in zip(_ids(tokenizer, prompts), _ids(tokenizer, texts), strict=True)
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


def _scores(model: Any, rows: Sequence[_Row]) -> Sequence[LogLikelihood | None]:  # noqa: ANN401
    """Return what the model says of the rows of one batch, which all have tokens, or all have none."""
    return _score(model, rows) if _has_tokens(rows[0]) else [None] * len(rows)


@torch.inference_mode()
def _score(model: Any, rows: Sequence[_Row]) -> list[LogLikelihood]:  # noqa: ANN401
    device = next(model.parameters()).device
    width = max(len(row.ids) for row in rows)
    # No mask: what is padded on the right comes after all that is scored, and a causal model does not attend
    # to it. Attention without a mask is faster. A row's own first token pads it, as one that means "padding"
    # makes some models build a mask.
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


def coherence_outcomes(
    groups: Sequence[Group], settings: MetricSettings, models: Models, cache: ScoreCache, progress: Progress
) -> Found:
    """Return coherence and perplexity of each group, references among them."""
    scorer = models.causal(settings.coherence_model)
    pairs = {(text.prompt, text.text) for group in groups for text in group.texts if text.prompt is not None}
    scores = _log_likelihoods(pairs, scorer, cache, progress)
    return {group.key: _coherence(group, scores, scorer, settings.compute) for group in groups}


def _log_likelihoods(
    pairs: Iterable[tuple[str, str]], scorer: LazyModel, cache: ScoreCache, progress: Progress
) -> dict[tuple[str, str], LogLikelihood | None]:
    def batches(missing: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        [(_, planned)] = scorer.map(_planned_pairs, [missing])
        return [[missing[place] for place in batch] for batch in planned]

    return read_once(
        {pair: content_id("coherence", 1, scorer.identity, *pair) for pair in sorted(pairs)},
        _scored,
        model=scorer,
        cache=cache,
        pack=_packed,
        unpack=_unpacked,
        progress=partial(progress, "coherence"),
        batches=batches,
    )


def _planned_pairs(loaded: LoadedModel, pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
    rows = _rows(loaded.model, loaded.tokenizer, *zip(*pairs, strict=True))
    return list(_planned(rows, loaded.model, _TEXTS))


def _scored(loaded: LoadedModel, pairs: Sequence[tuple[str, str]]) -> Sequence[LogLikelihood | None]:
    """Score one batch of `_planned_pairs`, in its order: the same numbers to the bit, wherever that is."""
    return _scores(loaded.model, _rows(loaded.model, loaded.tokenizer, *zip(*pairs, strict=True)))


def _packed(one: LogLikelihood | None) -> bytes:
    fields = None if one is None else [one.total.hex(), one.tokens, one.prompt_cut, one.text_cut]
    return json.dumps(fields).encode()


def _unpacked(value: bytes) -> LogLikelihood | None:
    fields = json.loads(value)
    if fields is None:
        return None
    total, tokens, prompt_cut, text_cut = fields
    return LogLikelihood(total=float.fromhex(total), tokens=tokens, prompt_cut=prompt_cut, text_cut=text_cut)


def _coherence(
    group: Group,
    scores: Mapping[tuple[str, str], LogLikelihood | None],
    scorer: LazyModel,
    compute: Sequence[str],
) -> list[Outcome]:
    found = [None if text.prompt is None else scores[text.prompt, text.text] for text in group.texts]
    finite = [one if one is not None and np.isfinite(one.total) else None for one in found]
    counts = group.counts | nonzero(
        {
            "without a prompt": sum(text.prompt is None for text in group.texts),
            "prompt cut to the scoring model's context": sum(one.prompt_cut for one in found if one),
            "text cut to the scoring model's context": sum(one.text_cut for one in found if one),
            "not a finite number": finite.count(None) - found.count(None),
        }
    )
    n = sum(one is not None for one in finite)
    note = "no text has a prompt" if all(text.prompt is None for text in group.texts) else ""
    means = np.array([(one.mean, 1) if one else (0, 0) for one in finite], dtype=float)
    totals = np.array([(one.total, one.tokens) if one else (0, 0) for one in finite], dtype=float)
    tail = f"{scorer.signature}|prompt and text tokenised apart"
    outcomes: list[Outcome] = []
    if "coherence" in compute:
        signature = f"coherence|{tail}|mean over tokens, then texts"
        rows = group.summed(means)
        outcomes.append(ratio_of("coherence", rows, n=n, counts=counts, signature=signature, note=note))
    if "perplexity" in compute:
        signature = f"perplexity|{tail}|over all tokens"
        rows = group.summed(totals)
        outcomes.append(
            sum_of("perplexity", rows, _perplexity, n=n, counts=counts, signature=signature, note=note)
        )
    return outcomes


def _perplexity(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 1] > 0, np.exp(-sums[..., 0] / sums[..., 1]), np.nan)
