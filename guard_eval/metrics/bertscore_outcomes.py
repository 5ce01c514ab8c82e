"""BERTScore of groups against their references, asked of the cache first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from guard_eval.engines.lazy import LazyModel, Told
from guard_eval.engines.loading import LoadedModel
from guard_eval.metrics import bertscore as bert
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.models import Found, Models, Progress, in_chunks
from guard_eval.metrics.outcomes import Outcome, ratio_of
from guard_eval.records import content_id
from guard_eval.settings import Metrics


def bertscore_outcomes(
    groups: Sequence[Group], settings: Metrics, models: Models, cache: ScoreCache, progress: Progress
) -> Found:
    """Return BERTScore's F1 of each strategy against the references."""
    reader = models.encoder(settings.bertscore_model)
    layer = settings.bertscore_layer or bert.default_layers(settings.bertscore_model)
    pairs = {
        (text.text, text.reference) for group in groups for text in group.texts if text.reference is not None
    }
    scores = _bertscores(pairs, reader, layer, cache, progress)
    return {(group.dataset, group.strategy): [_bertscore(group, scores, reader, layer)] for group in groups}


def _bertscores(
    pairs: Iterable[tuple[str, str]], reader: LazyModel, layer: int, cache: ScoreCache, progress: Progress
) -> dict[tuple[str, str], tuple[float | None, bool]]:
    """Return F1 of each pair, None if it has none, and whether text or reference had to be cut."""
    keys = {pair: content_id("bertscore", 1, reader.identity, layer, *pair) for pair in sorted(pairs)}
    kept = cache.get(keys.values())
    missing = [pair for pair in keys if keys[pair] not in kept]
    progress("BERTScore", len(keys) - len(missing), len(keys))
    chunks = in_chunks(missing)
    for place, made in reader.map(
        partial(_scored, layer), chunks, lambda done: progress("BERTScore", done, len(keys))
    ):
        new = {keys[pair]: json.dumps(one).encode() for pair, one in zip(chunks[place], made, strict=True)}
        cache.put(new)
        kept |= new
    return {pair: tuple(json.loads(kept[key])) for pair, key in keys.items()}


def _scored(
    layer: int, loaded: LoadedModel, pairs: Sequence[tuple[str, str]], told: Told
) -> list[tuple[float | None, bool]]:
    encoder = bert.keep_layers(loaded.model, layer)
    texts, references = zip(*pairs, strict=True)
    made = bert.bertscore(encoder, loaded.tokenizer, texts, references, on_progress=told)
    long = [bert.count_truncated(encoder, loaded.tokenizer, pair) > 0 for pair in pairs]
    return [(one and one[2], cut) for one, cut in zip(made, long, strict=True)]


def _bertscore(
    group: Group,
    scores: Mapping[tuple[str, str], tuple[float | None, bool]],
    reader: LazyModel,
    layer: int,
) -> Outcome:
    found = [
        (None, False) if text.reference is None else scores[text.text, text.reference] for text in group.texts
    ]
    rows = np.array([(0, 0) if f1 is None else (f1, 1) for f1, _ in found], dtype=float)
    missing = sum(text.reference is None for text in group.texts)
    counts = group.counts | nonzero(
        {"without a reference": missing, "cut to the encoder's length": sum(cut for _, cut in found)}
    )
    return ratio_of(
        "bertscore",
        group.summed(rows),
        n=int(rows[:, 1].sum()),
        counts=counts,
        signature=f"{bert.signature(reader.name, layer)}|revision:{reader.short_revision}|{reader.dtype}",
        note="no text has a reference" if missing == len(group.texts) else "",
        scale=100.0,
    )
