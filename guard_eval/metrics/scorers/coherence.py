"""Coherence: the mean log-likelihood of a continuation given its prompt (the paper's Appendix D).

Any causal language model can score texts. If the model that wrote the texts also scores them, greedy decoding
wins by construction, so a table always names the scoring model. Perplexity is computed from the same numbers.
"""

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from guard_eval.estimate import divide_sums
from guard_eval.generation.engines import Model, Tokenizer
from guard_eval.metrics.outcomes import (
    Facts,
    Group,
    Outcome,
    make_outcome_from_sums,
    make_outcome_from_text_values,
)
from guard_eval.metrics.scorers.batches import BATCH_ROWS, compute_values_in_batches, pad_rows
from guard_eval.metrics.scoring_models import MetricTools

MAX_LOGITS = {"cpu": 2**26, "cuda": 2**29}
"""The largest number of logits in a batch, in float32: 0.25 GiB on a CPU and 2 GiB on a GPU."""


class LogLikelihood(NamedTuple):
    """The log-likelihood of one continuation by a model.

    Attributes:
        total: Σᵢ log p(x̂ᵢ | x, x̂₍<ᵢ₎) in nats, or NaN if the model's numbers are not finite.
        tokens: The number of tokens in the sum, at least 1.
        prompt_cut: Whether the beginning of the prompt was cut to fit into the model's context.
        text_cut: Whether the end of the continuation was cut, because the continuation alone is too long.
    """

    total: float
    tokens: int
    prompt_cut: bool
    text_cut: bool


class _Row(NamedTuple):
    """The tokens of a prompt and its continuation. The tokens from the index `first` on are scored."""

    ids: list[int]
    first: int
    prompt_cut: bool
    text_cut: bool


def compute_log_likelihoods(
    model: Model,
    tokenizer: Tokenizer,
    pairs: Iterable[Sequence[str]],
    *,
    batch_size: int = BATCH_ROWS,
) -> list[LogLikelihood | None]:
    """Return the log-likelihood of each continuation, or None if a continuation has no token.

    As in the published script, prompt and continuation are tokenised separately, the model's first token is
    put before the prompt, and a continuation without a word has no score. Texts are padded on the right.
    Logits are computed only for the tokens of continuations.

    Args:
        model: A causal language model of transformers.
        tokenizer: The model's tokenizer.
        pairs: Pairs of a prompt and its continuation.
        batch_size: The largest number of texts in a forward pass. Batches of long texts are smaller.
    """
    config = model.config.get_text_config()
    limit = int(getattr(config, "max_position_embeddings", None) or 1 << 30)
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    rows = []
    for prompt, text in pairs:
        words = text if text.strip() else ""
        row = _cut_to_context_length(
            _encode_text(tokenizer, prompt), _encode_text(tokenizer, words), start, limit
        )
        rows.append(row if row.first < len(row.ids) else None)
    if scored := [row for row in rows if row is not None]:
        # A batch must fit even if the longest text follows the shortest prompt.
        predicted = max(len(row.ids) for row in scored) + 1 - min(row.first for row in scored)
        room = MAX_LOGITS[model.device.type] // (predicted * config.vocab_size)
        batch_size = max(1, min(batch_size, room))
    return compute_values_in_batches(
        rows, lambda row: len(row.ids), partial(_compute_row_log_likelihoods, model), max_rows=batch_size
    )


def _encode_text(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _cut_to_context_length(
    prompt: list[int],
    text: list[int],
    start: list[int],
    limit: int,
) -> _Row:
    """Cut a prompt and its text to `limit` tokens: first cut the prompt's beginning, then the text's end.

    The model's first token, `start`, is never cut.
    """
    whole_prompt = start + prompt
    # Before the text, there is room for the first token, or for one token of the prompt.
    fitted_text = text[: limit - max(1, len(start))] if whole_prompt else text[:limit]
    cut = max(0, len(whole_prompt) + len(fitted_text) - limit)
    fitted_prompt = start + prompt[cut:]
    # Position i − 1 predicts the token at position i, so the very first token cannot be scored.
    return _Row(
        ids=fitted_prompt + fitted_text,
        first=max(1, len(fitted_prompt)),
        prompt_cut=cut > 0,
        text_cut=len(fitted_text) < len(text),
    )


@torch.inference_mode()
def _compute_row_log_likelihoods(model: Model, rows: Sequence[_Row]) -> list[LogLikelihood]:
    # Padding on the right comes after all scored tokens, and a causal model does not attend to later tokens.
    # So no mask is needed, and attention is faster without one. The padding is an ordinary token, because the
    # model's own padding token makes some models build a mask.
    ids, _ = pad_rows([row.ids for row in rows], model, rows[0].ids[0])
    width = ids.shape[1]
    options = {}
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        options["logits_to_keep"] = width + 1 - min(row.first for row in rows)
    logits = model(ids, use_cache=False, **options).logits
    begin = 1 + width - logits.shape[1]  # the first token that has logits
    totals = []
    for row, row_ids, row_logits in zip(rows, ids, logits, strict=True):
        end = len(row.ids)
        predicted = row_logits[row.first - begin : end - begin].float()
        chosen = predicted.gather(1, row_ids[row.first : end, None])[:, 0]
        log_p = chosen - predicted.logsumexp(-1)
        totals.append(log_p.double().sum())
    return [
        LogLikelihood(total, len(row.ids) - row.first, row.prompt_cut, row.text_cut)
        for total, row in zip(torch.stack(totals).tolist(), rows, strict=True)
    ]


def yield_outcomes(
    groups: Sequence[Group],
    metrics: Sequence[str],
    tools: MetricTools,
) -> Iterator[Outcome]:
    """Yield the coherence and the perplexity of each group. The references are also a group."""
    scorer = tools.models.open(tools.settings.coherence_model)
    texts = [text for group in groups for text in group.texts]
    pairs = [(text.prompt, text.text) for text in texts if text.prompt is not None]
    stored = tools.read_or_compute_values(["coherence"], scorer, pairs, compute_log_likelihoods)
    signature = f"{scorer.signature}|prompt and text tokenised apart"
    for group in groups:
        scores = [None if text.prompt is None else stored[text.prompt, text.text] for text in group.texts]
        missing = sum(text.prompt is None for text in group.texts)
        scored = [LogLikelihood(*score) for score in scores if score]
        # The total log-likelihood and the number of tokens of each text.
        sums = np.array([score[:2] if score else (math.nan, math.nan) for score in scores])
        finite = np.isfinite(sums[:, 0])
        facts: Facts = {
            "counts": {
                "without a prompt": missing,
                "prompt cut to the scoring model's context": sum(score.prompt_cut for score in scored),
                "text cut to the scoring model's context": sum(score.text_cut for score in scored),
                "not a finite number": len(scored) - int(finite.sum()),
            },
            "reason": "no text has a prompt" if missing == len(scores) else "the model gave no text a score",
        }
        if "coherence" in metrics:
            facts["signature"] = f"coherence|{signature}|mean over tokens, then texts"
            yield make_outcome_from_text_values("coherence", group, sums[:, 0] / sums[:, 1], **facts)
        if "perplexity" in metrics:
            facts |= {"signature": f"perplexity|{signature}|over all tokens", "n": int(finite.sum())}
            rows = np.where(finite[:, None], sums, 0.0)
            yield make_outcome_from_sums(
                "perplexity", group, rows, lambda sums: np.exp(-divide_sums(sums)), **facts
            )
