"""MAUVE of groups against their references; features are asked of the cache first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from guard_eval.engines.lazy import LazyModel, Told
from guard_eval.engines.loading import LoadedModel
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.features import first_tokens, hidden_features
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.mauve import SEEDS, deviations, mauve
from guard_eval.metrics.models import Found, Models, Progress, in_chunks
from guard_eval.metrics.outcomes import Bare, Outcome, Spread
from guard_eval.records import content_id
from guard_eval.settings import Metrics


def mauve_outcomes(
    groups: Sequence[Group],
    settings: Metrics,
    models: Models,
    cache: ScoreCache,
    progress: Progress,
    *,
    weights: Mapping[str, NDArray[np.float64]],
) -> Found:
    """Return MAUVE of each strategy against the references of the same prompts.

    As in the published scripts, text and reference are cut to the same number of tokens, and a pair of which
    one is shorter does not count.

    Args:
        groups: The strategies'.
        settings: Model, tokens, buckets, c and how many seeds.
        models: Where the featurising model comes from.
        cache: For features.
        progress: Told of features and of strategies.
        weights: The bootstrap's for each dataset.
    """
    reader = models.causal(settings.mauve_model)
    texts = {text.text for group in groups for text in group.texts if text.reference}
    texts |= {text.reference for group in groups for text in group.texts if text.reference}
    cut = _cut(sorted(texts), reader, cache, settings.mauve_tokens)
    full = sorted({short for short, tokens in cut.values() if tokens == settings.mauve_tokens})
    features = _features(full, reader, cache, progress)
    found: Found = {}
    for group in groups:
        outcome = _mauve(group, settings, reader, cut, features, weights=weights[group.dataset])
        found[group.dataset, group.strategy] = [outcome]
        progress("MAUVE", 1, len(groups))
    return found


def _cut(
    texts: Sequence[str], reader: LazyModel, cache: ScoreCache, tokens: int
) -> dict[str, tuple[str, int]]:
    """Return each text cut to `tokens` tokens, and how many it has then."""
    keys = {text: content_id("first tokens", 1, reader.identity, tokens, text) for text in texts}
    kept = cache.get(keys.values())
    missing = [text for text in texts if keys[text] not in kept]
    chunks = in_chunks(missing)
    for place, made in reader.map(partial(_first, tokens), chunks):
        new = {keys[text]: json.dumps(one).encode() for text, one in zip(chunks[place], made, strict=True)}
        cache.put(new)
        kept |= new
    return {text: tuple(json.loads(kept[key])) for text, key in keys.items()}


def _first(tokens: int, loaded: LoadedModel, texts: Sequence[str], _: Told) -> list[tuple[str, int]]:
    return [first_tokens(loaded.tokenizer, text, tokens) for text in texts]


def _features(
    texts: Sequence[str], reader: LazyModel, cache: ScoreCache, progress: Progress
) -> dict[str, NDArray[np.float32]]:
    keys = {text: content_id("features", 1, reader.identity, text) for text in texts}
    kept = cache.get(keys.values())
    missing = [text for text in texts if keys[text] not in kept]
    progress("features", len(texts) - len(missing), len(texts))
    chunks = in_chunks(missing)
    for place, made in reader.map(_states, chunks, lambda done: progress("features", done, len(texts))):
        new = {keys[text]: row.tobytes() for text, row in zip(chunks[place], made, strict=True)}
        cache.put(new)
        kept |= new
    return {text: np.frombuffer(kept[key], dtype=np.float32) for text, key in keys.items()}


def _states(loaded: LoadedModel, texts: Sequence[str], told: Told) -> NDArray[np.float32]:
    return hidden_features(loaded.model, loaded.tokenizer, texts, on_progress=told)


def _mauve(
    group: Group,
    settings: Metrics,
    reader: LazyModel,
    cut: Mapping[str, tuple[str, int]],
    features: Mapping[str, NDArray[np.float32]],
    *,
    weights: NDArray[np.float64],
) -> Outcome:
    length = settings.mauve_tokens
    paired = [place for place, text in enumerate(group.texts) if text.reference]
    chosen = [
        place
        for place in paired
        if cut[group.texts[place].text][1] == length == cut[group.texts[place].reference or ""][1]
    ]
    p = [features[cut[group.texts[place].reference or ""][0]] for place in chosen]
    q = [features[cut[group.texts[place].text][0]] for place in chosen]
    seeds = tuple(range(SEEDS[0], SEEDS[0] + settings.mauve_seeds))
    empty = np.zeros((0, 1), dtype=np.float32)
    result = mauve(
        np.stack(p) if p else empty,
        np.stack(q) if q else empty,
        buckets=settings.mauve_buckets,
        scaling=settings.mauve_scaling,
        seeds=seeds,
    )
    counts = group.counts | nonzero(
        {
            "without a reference": len(group.texts) - len(paired),
            f"text or reference shorter than {length} tokens": len(paired) - len(chosen),
        }
    )
    signature = (
        f"mauve|{reader.signature}|tokens:{length}, full length only|"
        f"buckets:{result.buckets}|c:{settings.mauve_scaling:g}|seeds:{seeds[0]}-{seeds[-1]}"
    )
    if result.value is None:
        return Bare(
            metric="mauve", value=None, n=result.n, counts=counts, note=result.reason, signature=signature
        )
    noise = 0.0 if result.seed_sd is None else result.seed_sd**2
    spread = f"standard deviation over {len(seeds)} seeds {noise**0.5:.2f}"
    drawn = weights[:, group.places[chosen]]
    return Spread(
        metric="mauve",
        value=result.value,
        n=len(chosen),
        counts=counts,
        note=spread,
        signature=signature,
        replicates=result.value + deviations(result, drawn).mean(axis=1),
        noise=noise,
    )
