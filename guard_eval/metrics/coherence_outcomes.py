"""Coherence and perplexity of groups: what a model says of each text, asked of the cache first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from guard_eval.engines.lazy import LazyModel, Told
from guard_eval.engines.loading import LoadedModel
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.coherence import LogLikelihood, batches_of, log_likelihoods
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.models import Found, Models, Progress
from guard_eval.metrics.outcomes import Outcome, ratio_of, sum_of
from guard_eval.records import content_id
from guard_eval.settings import Metrics


def coherence_outcomes(
    groups: Sequence[Group], settings: Metrics, models: Models, cache: ScoreCache, progress: Progress
) -> Found:
    """Return coherence and perplexity of each group, references among them."""
    scorer = models.causal(settings.coherence_model)
    pairs = {(text.prompt, text.text) for group in groups for text in group.texts if text.prompt is not None}
    scores = _log_likelihoods(pairs, scorer, cache, progress)
    return {
        (group.dataset, group.strategy): _coherence(group, scores, scorer, settings.compute)
        for group in groups
    }


def _log_likelihoods(
    pairs: Iterable[tuple[str, str]], scorer: LazyModel, cache: ScoreCache, progress: Progress
) -> dict[tuple[str, str], LogLikelihood | None]:
    keys = {pair: content_id("coherence", 1, scorer.identity, *pair) for pair in sorted(pairs)}
    kept = cache.get(keys.values())
    missing = [pair for pair in keys if keys[pair] not in kept]
    progress("coherence", len(keys) - len(missing), len(keys))
    if missing:
        [(_, batches)] = scorer.map(_planned, [missing])
        chunks = [[missing[place] for place in batch] for batch in batches]
        for place, made in scorer.map(_scored, chunks):
            new = {keys[pair]: _packed(one) for pair, one in zip(chunks[place], made, strict=True)}
            cache.put(new)
            kept |= new
            progress("coherence", len(new), len(keys))
    return {pair: _unpacked(kept[key]) for pair, key in keys.items()}


def _planned(loaded: LoadedModel, pairs: Sequence[tuple[str, str]], _: Told) -> list[list[int]]:
    prompts, texts = zip(*pairs, strict=True)
    return batches_of(loaded.model, loaded.tokenizer, prompts, texts)


def _scored(loaded: LoadedModel, pairs: Sequence[tuple[str, str]], _: Told) -> list[LogLikelihood | None]:
    prompts, texts = zip(*pairs, strict=True)
    found: dict[int, LogLikelihood | None] = {}
    for batch in log_likelihoods(loaded.model, loaded.tokenizer, prompts, texts):
        found |= batch
    return [found[place] for place in range(len(pairs))]


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
