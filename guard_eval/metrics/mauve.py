"""MAUVE: how near the distribution of texts is to that of references (Pillutla et al. 2021; Appendix D).

Features are quantised into buckets by k-means; the score is the area under the divergence curve of the two
histograms. The score depends on the k-means' seed (by points), on the number of buckets and on the number of
texts: all three belong to it, and only scores that share the last two can be compared.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.estimate import Floats
from guard_eval.metrics.batches import pad_rows
from guard_eval.metrics.cache import ScoreCache, compute_once
from guard_eval.metrics.groups import Group
from guard_eval.metrics.models import ScoringModel, ScoringModels
from guard_eval.metrics.outcomes import Outcome, outcome_of_sums
from guard_eval.records import content_id
from guard_eval.study.settings import MetricSettings

SEEDS = (25, 26, 27, 28, 29)
"""Seeds of the k-means; the first is the one that published scores were made with."""

FEWEST = 20
"""Texts and references there must be: ten per bucket, as `auto` has it, in two buckets."""

FEWEST_PER_BUCKET = 2
"""Texts and references per bucket there must be on average. Texts of the references' own distribution are
expected at 96 with ten per bucket, 47 with two and 16 with one."""

_MIXTURES = np.linspace(1e-6, 1 - 1e-6, 25)
_VARIANCE_KEPT = 0.9
_ITERATIONS = 500
_REPETITIONS = 5

Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Mauve:
    """MAUVE of one set of texts.

    Attributes:
        values: The score in percent for each seed of k-means; empty where it is undefined.
        n: How many texts, or references if there were fewer.
        buckets: How many buckets the histograms have.
        labels: The bucket of each reference `[n]` and of each text `[m]`, for each seed.
        scaling: The constant c of the divergence curve.
        reason: Why there is no value, or empty.
    """

    values: tuple[float, ...]
    n: int
    buckets: int
    labels: tuple[tuple[Labels, Labels], ...]
    scaling: float
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The mean over seeds."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def seed_sd(self) -> float | None:
        """The standard deviation over seeds; None for fewer than two."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def bucket_count(references: int, texts: int, buckets: int | Literal["auto"]) -> int:
    """Return `buckets`, or a tenth of the smaller set, at least 2, for `auto`."""
    return max(2, round(min(references, texts) / 10)) if buckets == "auto" else buckets


def mauve(
    p: NDArray[np.floating[Any]],
    q: NDArray[np.floating[Any]],
    *,
    buckets: int | Literal["auto"] = "auto",
    scaling: float = 5.0,
    seeds: Sequence[int] = SEEDS,
) -> Mauve:
    """Return MAUVE of texts with features `q` [m, d] against references with features `p` [n, d].

    As by the authors' defaults, features are scaled to length 1, projected onto the principal components that
    hold 90 % of the variance of both sets together, and clustered by k-means (best of 5 runs of up to 500
    steps).

    Args:
        p: Features of the references.
        q: Features of the texts.
        buckets: How many, or `auto`: a tenth of the smaller set.
        scaling: The constant c of the divergence curve.
        seeds: Of the k-means, one score each.

    Raises:
        MissingExtraError: scikit-learn or faiss is not installed.
    """
    number = bucket_count(len(p), len(q), buckets)
    reason = _why_undefined(p, q, number)
    labels: tuple[tuple[Labels, Labels], ...] = ()
    if not reason:
        points = _project(p, q)
        labels = tuple(_cluster(points, texts=len(q), buckets=number, seed=seed) for seed in seeds)
    shares = [[np.bincount(side, minlength=number) / len(side) for side in sides] for sides in labels]
    values = tuple(float(area(*sides, scaling=scaling)) for sides in shares)
    n = min(len(p), len(q))
    return Mauve(values=values, n=n, buckets=number, labels=labels, scaling=scaling, reason=reason)


def area(p_hist: ArrayLike, q_hist: ArrayLike, *, scaling: float = 5.0) -> Floats:
    """Return MAUVE in percent of histograms [..., k], for each of the leading axes.

    The divergence curve is (exp(-c KL(Q‖R)), exp(-c KL(P‖R))) with R = λP + (1 - λ)Q at 25 λ, and its ends
    (1, 0) and (0, 1). MAUVE's definition takes the mean of the areas under it seen from either axis. As a
    polygon that runs from (1, 0) to (0, 1) it has one area, so one is computed.

    >>> float(area([0.5, 0.5], [0.5, 0.5]).round(9))
    100.0
    """
    p, q = np.broadcast_arrays(np.asarray(p_hist, dtype=np.float64), np.asarray(q_hist, dtype=np.float64))
    # In the order of λ, x falls and y rises, so nothing need be sorted.
    x, y = np.zeros((2, len(_MIXTURES) + 2, *p.shape[:-1]))
    x[0] = y[-1] = 1.0
    for index, weight in enumerate(_MIXTURES, start=1):
        mixture = weight * p + (1 - weight) * q
        x[index] = np.exp(-scaling * rel_entr(q, mixture).sum(-1))
        y[index] = np.exp(-scaling * rel_entr(p, mixture).sum(-1))
    total: Floats = 50.0 * ((x[:-1] - x[1:]) * (y[:-1] + y[1:])).sum(0)
    return total


def contributions(result: Mauve) -> Floats:
    """Return what each prompt contributes to the score, `[n]`; their mean is the score.

    These are the jackknife's pseudo-values with the buckets held fixed: a prompt that is left out takes its
    reference and its text out of their buckets, and to first order the two changes add up. What other buckets
    would change is the variance between seeds, which an interval adds. It is an interval for the expected
    score at this number of texts and buckets.

    Args:
        result: Of n references and n texts, reference i and text i of the same prompt.

    Raises:
        ValueError: If the sets differ in length.
    """
    without = np.zeros(result.n)
    for value, (p, q) in zip(result.values, result.labels, strict=True):
        if len(p) != len(q):
            raise ValueError(f"{len(p)} references and {len(q)} texts; they must be of the same prompts")
        sides = [np.bincount(side, minlength=result.buckets) for side in (p, q)]
        shares = [side / result.n for side in sides]
        less = [np.clip(side - np.eye(result.buckets), 0, None) / (result.n - 1) for side in sides]
        of_p = area(less[0], shares[1], scaling=result.scaling) - value
        of_q = area(shares[0], less[1], scaling=result.scaling) - value
        without += (of_p[p] + of_q[q]) / len(result.values)
    return np.asarray((result.value or 0.0) + (result.n - 1) * (without.mean() - without))


def _why_undefined(p: NDArray[Any], q: NDArray[Any], buckets: int) -> str:
    if buckets < 2:
        return f"{buckets} buckets; at least 2 are needed"
    n, fewest = min(len(p), len(q)), max(FEWEST, FEWEST_PER_BUCKET * buckets)
    if n < fewest:
        return f"{n} texts with a reference; for {buckets} buckets at least {fewest} are needed"
    if not (np.isfinite(p).all() and np.isfinite(q).all()):
        return "features that are not finite numbers"
    return ""


def _project(p: NDArray[Any], q: NDArray[Any]) -> NDArray[np.float32]:
    """Return the points that are clustered, texts before references, [m + n, c]."""
    if find_spec("sklearn") is None:
        raise MissingExtraError("metrics", "scikit-learn")
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from sklearn.preprocessing import normalize  # type: ignore[import-untyped]  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 (comes with it)

    unit = normalize(np.vstack([q, p]), norm="l2", axis=1)
    if (unit == unit[0]).all():
        return np.zeros((len(unit), 1), dtype=np.float32)  # no variance to have components of
    with threadpool_limits(1):
        pca = PCA().fit(unit)  # of all components: such a decomposition draws nothing at random
        kept = int(np.argmax(np.cumsum(pca.explained_variance_ratio_) >= _VARIANCE_KEPT)) + 1
        points: NDArray[np.float32] = pca.transform(unit)[:, :kept].astype(np.float32)
    return points


def _cluster(points: NDArray[np.float32], *, texts: int, buckets: int, seed: int) -> tuple[Labels, Labels]:
    """Return the buckets of the references and of the texts, which are the first `texts` points."""
    faiss = _faiss()
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    # One thread: the sums depend on how many there are, and beside other work they wait for each other (2600
    # points, 131 buckets, two busy cores: 0.1 s with one thread, 0.8 s with two).
    with threadpool_limits(1):
        means = faiss.Kmeans(
            points.shape[1],
            buckets,
            niter=_ITERATIONS,
            nredo=_REPETITIONS,
            update_index=True,
            seed=seed + 2,
            min_points_per_centroid=1,  # only silences a warning: ten per bucket is the definition
        )
        means.train(points)
        labels = means.index.search(points, 1)[1].reshape(-1).astype(np.int64)
    return labels[texts:], labels[:texts]


def _faiss() -> Any:  # noqa: ANN401 (its classes are made at import)
    if find_spec("faiss") is None:
        raise MissingExtraError("metrics", "faiss-cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of SWIG's types, on Python 3.12 and later
        import faiss  # noqa: PLC0415 (an extra)
    return faiss


def first_tokens(tokenizer: Any, text: str, tokens: int) -> tuple[str, int]:  # noqa: ANN401 (untyped)
    """Return `text` cut to its first tokens, and how many it has then: `tokens`, or all it had if fewer."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"][:tokens]
    return tokenizer.decode(ids, clean_up_tokenization_spaces=False), len(ids)


def hidden_features(
    model: Any,  # noqa: ANN401
    tokenizer: Any,  # noqa: ANN401
    texts: Sequence[str],
    *,
    batch_size: int = 16,
) -> NDArray[np.float32]:
    """Return the last layer's hidden state at the last token of each text, [n, d].

    Special tokens are those the tokenizer adds of its own accord. Texts are sorted by length and padded on
    the right, which a causal model does not attend to.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        texts: Each of at least one token; what is longer than the model's context loses its end.
        batch_size: Texts per forward pass.

    Raises:
        StudyError: A text has no token.
    """
    config = model.config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    cut = {} if context is None else {"truncation": True, "max_length": context}
    rows = [tokenizer(text, verbose=False, **cut)["input_ids"] for text in texts]
    for number, row in enumerate(rows):
        if not row:
            raise StudyError(
                f"text {number} of {len(rows)} ({texts[number]!r}) has no token, so it has no features; "
                "leave empty texts out of MAUVE"
            )
    features = np.empty((len(rows), config.hidden_size), dtype=np.float32)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        features[chosen] = _last_states(model, [rows[index] for index in chosen])
    return features


@torch.inference_mode()
def _last_states(model: Any, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:  # noqa: ANN401
    ids, real = pad_rows(rows, model)
    # The model without its head: logits over the vocabulary would need far more memory than everything else.
    body = getattr(model, "base_model", model)
    states = body(input_ids=ids, attention_mask=real.long(), use_cache=False, output_hidden_states=True)
    last = states.hidden_states[-1][torch.arange(len(rows), device=ids.device), real.sum(1) - 1]
    values: NDArray[np.float32] = last.float().cpu().numpy()
    return values


def mauve_outcomes(
    groups: Sequence[Group], settings: MetricSettings, models: ScoringModels, cache: ScoreCache
) -> dict[tuple[str, str, int], list[Outcome]]:
    """Return MAUVE of each strategy against the references of the same prompts.

    As in the published scripts, text and reference are cut to the same number of tokens, and a pair of which
    one is shorter does not count.
    """
    reader = models.causal(settings.mauve_model)
    length = settings.mauve_tokens
    sides = [(text.text, text.reference) for group in groups for text in group.texts if text.reference]
    texts = sorted({side for pair in sides for side in pair if side is not None})

    def cut(batch: Sequence[str]) -> list[str | None]:
        shortened = [first_tokens(reader.loaded.tokenizer, text, length) for text in batch]
        return [text if tokens == length else None for text, tokens in shortened]

    def features(batch: Sequence[str]) -> list[str]:
        rows = hidden_features(reader.loaded.model, reader.loaded.tokenizer, batch)
        return [base64.b64encode(row.tobytes()).decode() for row in rows]

    keys = {text: content_id("first tokens", 2, reader.identity, length, text) for text in texts}
    full = compute_once("first tokens", keys, cut, cache)
    distinct = sorted({text for text in full.values() if text}, key=lambda text: (len(text), text))
    keys = {text: content_id("features", 2, reader.identity, text) for text in distinct}
    rows = compute_once("features", keys, features, cache)
    vectors = {text: np.frombuffer(base64.b64decode(row), dtype=np.float32) for text, row in rows.items()}
    by_text = {text: vectors[shortened] for text, shortened in full.items() if shortened}
    return {group.key: [_mauve(group, settings, reader, by_text)] for group in groups}


def _mauve(
    group: Group,
    settings: MetricSettings,
    reader: ScoringModel,
    features: dict[str, NDArray[np.float32]],
) -> Outcome:
    """Return MAUVE of a group; `features` are of the texts and references of full length."""
    paired = [index for index, text in enumerate(group.texts) if text.reference]
    pairs = [(group.texts[index].reference or "", group.texts[index].text) for index in paired]
    full = [
        index for index, pair in zip(paired, pairs, strict=True) if all(side in features for side in pair)
    ]
    seeds = tuple(range(SEEDS[0], SEEDS[0] + settings.mauve_seeds))
    empty = np.zeros((0, 1), dtype=np.float32)
    p, q = empty, empty
    if full:
        p = np.stack([features[group.texts[index].reference or ""] for index in full])
        q = np.stack([features[group.texts[index].text] for index in full])
    buckets, scaling = settings.mauve_buckets, settings.mauve_scaling
    result = mauve(p, q, buckets=buckets, scaling=scaling, seeds=seeds)
    noise, rows = (result.seed_sd or 0.0) ** 2, np.zeros((len(group.texts), 2))
    if result.values:
        rows[full] = np.stack([contributions(result), np.ones(len(full))], axis=1)
    outcome = outcome_of_sums(
        "mauve",
        group,
        rows,
        n=result.n,
        counts={
            "without a reference": len(group.texts) - len(paired),
            f"text or reference shorter than {settings.mauve_tokens} tokens": len(paired) - len(full),
        },
        note=result.reason or f"standard deviation over {len(seeds)} seeds {noise**0.5:.2f}",
        signature=f"mauve|{reader.signature}|tokens:{settings.mauve_tokens}, full length only|"
        f"buckets:{result.buckets}|c:{scaling:g}|seeds:{seeds[0]}-{seeds[-1]}",
        value=result.value,
    )
    return replace(outcome, noise=noise)
