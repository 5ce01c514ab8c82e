"""Coherence: the mean log-likelihood of a continuation given its prompt (the paper's Appendix D).

Any causal language model can score. Under the model that wrote the texts greedy decoding wins by
construction, so a table always says which model scored. Perplexity comes from the same numbers.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from guard_eval.estimate import Floats
from guard_eval.metrics.batches import pad_rows
from guard_eval.metrics.cache import ScoreCache, compute_once
from guard_eval.metrics.groups import Group
from guard_eval.metrics.models import ScoringModels
from guard_eval.metrics.outcomes import Outcome, mean_outcome, outcome_of_sums, ratio
from guard_eval.records import content_id
from guard_eval.study.settings import MetricSettings

if TYPE_CHECKING:
    from torch import Tensor

BATCH_LOGITS = {"cpu": 2**26, "cuda": 2**29}
"""At most so many logits in a batch: a quarter of a gibibyte on a CPU, two on a GPU, in float32."""
BATCH_TOKENS = {"cpu": 2**12, "cuda": 2**16}
"""At most so many tokens in a batch, padding counted."""
BATCH_ROWS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLikelihood:
    """What a model says of one continuation.

    Attributes:
        total: Σᵢ log p(x̂ᵢ | x, x̂₍<ᵢ₎) in nats; NaN if the model's arithmetic broke down.
        tokens: How many tokens that is the sum of, at least 1.
        prompt_cut: Whether the prompt lost its beginning to fit the model's context.
        text_cut: Whether the continuation lost its end, as it did not fit alone.
    """

    total: float
    tokens: int
    prompt_cut: bool
    text_cut: bool

    @property
    def mean(self) -> float:
        """Coherence: log-likelihood per token."""
        return self.total / self.tokens


@dataclass(frozen=True, slots=True)
class _Row:
    """The tokens of a prompt and its continuation, of which those from `first` on are scored."""

    ids: list[int]
    first: int
    prompt_cut: bool
    text_cut: bool


def log_likelihoods(
    model: Any,  # noqa: ANN401 (transformers' classes are untyped)
    tokenizer: Any,  # noqa: ANN401
    prompts: Sequence[str],
    continuations: Sequence[str],
    *,
    batch_size: int = BATCH_ROWS,
) -> list[LogLikelihood | None]:
    """Return what a model says of each continuation; None if it has no token.

    As in the published script, prompt and continuation are tokenised separately and the model's first token
    stands before the prompt; a continuation without a word has no score. Texts are sorted by length and
    padded on the right; logits are computed where a continuation is predicted, and summed in float32.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        prompts: One for each continuation.
        continuations: What is scored.
        batch_size: At most so many texts in a forward pass; long ones come in smaller batches.
    """
    limit = int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 30)
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    texts = [text if text.strip() else "" for text in continuations]
    rows = [
        _fit(start + prompt, text, limit, has_start=bool(start))
        for prompt, text in zip(_ids(tokenizer, prompts), _ids(tokenizer, texts), strict=True)
    ]
    scores: list[LogLikelihood | None] = [None] * len(rows)
    for batch in _batches(rows, model, batch_size):
        for index, score in zip(batch, _score(model, [rows[index] for index in batch]), strict=True):
            scores[index] = score
    return scores


def _ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:  # noqa: ANN401
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=False, verbose=False, return_attention_mask=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _fit(prompt: list[int], text: list[int], limit: int, *, has_start: bool) -> _Row:
    """Cut what does not fit: the prompt's beginning, but not the first token, then the continuation's end."""
    start = prompt[:1] if has_start else []
    fitted = text[: limit - max(1, len(start))] if prompt else text[:limit]
    room = limit - len(fitted)
    before = prompt if len(prompt) <= room else start + prompt[len(prompt) - (room - len(start)) :]
    # The token at position i is predicted at i − 1: a text without anything before it loses its first token.
    return _Row(before + fitted, max(1, len(before)), len(before) < len(prompt), len(fitted) < len(text))


def _batches(rows: list[_Row], model: Any, batch_size: int) -> Iterator[list[int]]:  # noqa: ANN401
    """Yield the places of rows that are scored together, so that no batch has too many tokens or logits."""
    kind = "cuda" if next(model.parameters()).device.type == "cuda" else "cpu"
    vocabulary = model.config.get_text_config().vocab_size
    order = [index for index, row in enumerate(rows) if row.first < len(row.ids)]
    # By the prompt's length, too: logits are computed from the end of the shortest prompt on.
    order.sort(key=lambda index: (len(rows[index].ids), rows[index].first))
    batch: list[int] = []
    for index in order:
        larger, longest = [*batch, index], len(rows[index].ids)
        logits = len(larger) * (longest + 1 - min(rows[each].first for each in larger)) * vocabulary
        tokens = len(larger) * longest
        if batch and (len(larger) > batch_size or tokens > BATCH_TOKENS[kind] or logits > BATCH_LOGITS[kind]):
            yield batch
            larger = [index]
        batch = larger
    if batch:
        yield batch


@torch.inference_mode()
def _score(model: Any, rows: Sequence[_Row]) -> list[LogLikelihood]:  # noqa: ANN401
    # No mask: what is padded on the right comes after all that is scored, and a causal model does not attend
    # to it. Attention without a mask is faster. A scored token pads, as one that means "padding" makes some
    # models build a mask.
    ids, _ = pad_rows([row.ids for row in rows], model, rows[0].ids[0])
    options = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = ids.shape[1] + 1 - min(row.first for row in rows)
    logits: Tensor = model(ids, use_cache=False, **options).logits
    begin = 1 + ids.shape[1] - logits.shape[1]  # the first token that has logits
    totals = [
        _log_p(
            logits[index, row.first - begin : len(row.ids) - begin],
            ids[index, row.first : len(row.ids)],
        )
        for index, row in enumerate(rows)
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
    groups: Sequence[Group], settings: MetricSettings, models: ScoringModels, cache: ScoreCache
) -> dict[tuple[str, str, int], list[Outcome]]:
    """Return coherence and perplexity of each group, references among them."""
    scorer = models.causal(settings.coherence_model)
    pairs = {(text.prompt, text.text) for group in groups for text in group.texts if text.prompt is not None}
    ordered = sorted(pairs, key=lambda pair: (len(pair[0]) + len(pair[1]), pair))

    def compute(batch: Sequence[tuple[str, str]]) -> list[tuple[float | int | bool, ...] | None]:
        loaded = scorer.loaded
        scores = log_likelihoods(loaded.model, loaded.tokenizer, *zip(*batch, strict=True))
        return [None if score is None else astuple(score) for score in scores]

    keys = {pair: content_id("coherence", 2, scorer.identity, *pair) for pair in ordered}
    stored = compute_once("coherence", keys, compute, cache)
    signature = f"{scorer.signature}|prompt and text tokenised apart"
    return {group.key: _outcomes(group, stored, signature, settings.compute) for group in groups}


def _outcomes(
    group: Group, stored: dict[tuple[str, str], Any], signature: str, compute: Sequence[str]
) -> list[Outcome]:
    scores = [None if text.prompt is None else stored[text.prompt, text.text] for text in group.texts]
    finite = [score if score and math.isfinite(score[0]) else None for score in scores]
    counts = {
        "without a prompt": sum(text.prompt is None for text in group.texts),
        "prompt cut to the scoring model's context": sum(score[2] for score in scores if score),
        "text cut to the scoring model's context": sum(score[3] for score in scores if score),
        "not a finite number": finite.count(None) - scores.count(None),
    }
    note = "no text has a prompt" if all(text.prompt is None for text in group.texts) else ""
    outcomes = []
    if "coherence" in compute:
        means = [score and score[0] / score[1] for score in finite]
        kind = f"coherence|{signature}|mean over tokens, then texts"
        outcomes.append(mean_outcome("coherence", group, means, signature=kind, counts=counts, note=note))
    if "perplexity" in compute:
        rows = [(score[0], score[1]) if score else (0.0, 0.0) for score in finite]
        n, kind = len(finite) - finite.count(None), f"perplexity|{signature}|over all tokens"
        outcomes.append(
            outcome_of_sums(
                "perplexity", group, rows, _perplexity, n=n, signature=kind, counts=counts, note=note
            )
        )
    return outcomes


def _perplexity(sums: Floats) -> Floats:
    return np.exp(-ratio(sums))
