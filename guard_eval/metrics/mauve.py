"""MAUVE: how near the distribution of texts is to that of references (Pillutla et al. 2021; Appendix D).

Features are quantised into buckets by k-means; the score is the area under the divergence curve of the two
histograms. The score depends on the k-means' seed (by points), on the number of buckets and on the number of
texts: all three belong to it, and only scores that share the last two can be compared.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from guard_eval.errors import MissingExtraError
from guard_eval.estimate import Floats
from guard_eval.generation.engines import Model, Tokenizer
from guard_eval.metrics.batches import pad_rows, read_in_batches
from guard_eval.metrics.cache import ScoringInput
from guard_eval.metrics.outcomes import Group, MetricTools, Outcome, outcome_of_runs
from guard_eval.study.settings import MetricSettings

SEEDS = (25, 26, 27, 28, 29)
"""Seeds of the k-means; the first is the one that published scores were made with."""

FEWEST = 20
"""Texts and references there must be: ten per bucket, as `auto` has it, in two buckets."""

FEWEST_PER_BUCKET = 2
"""Texts and references per bucket there must be on average. Texts of the references' own distribution are
expected at 96 with ten per bucket, 47 with two and 16 with one."""

SCALING = 5.0
"""The constant c of the divergence curve: that of Pillutla et al. 2021 and of the published scripts."""

BATCH_ROWS = 16
MIXTURES = np.linspace(1e-6, 1 - 1e-6, 25)
KEPT_VARIANCE = 0.9

Features = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Mauve:
    """MAUVE of one set of texts.

    Attributes:
        values: The score in percent for each seed of k-means; empty where it is undefined.
        n: How many texts, or references if there were fewer.
        buckets: How many buckets the histograms have.
        labels: The bucket of each reference `[n]` and of each text `[m]`, for each seed.
        reason: Why there is no value, or empty.
    """

    values: tuple[float, ...] = ()
    n: int
    buckets: int
    labels: tuple[tuple[Labels, Labels], ...] = ()
    reason: str = ""

    @property
    def value(self) -> float:
        """Return the mean over seeds; NaN where it is undefined."""
        return statistics.fmean(self.values) if self.values else math.nan


def mauve(
    p: Features,
    q: Features,
    *,
    buckets: int | Literal["auto"] = "auto",
    seeds: Sequence[int] = SEEDS,
) -> Mauve:
    """Return MAUVE of texts with features `q` [m, d] against references with features `p` [n, d].

    As by the authors' defaults, features are scaled to length 1, projected onto the principal components that
    hold 90 % of the variance of both sets together, and clustered by k-means (best of 5 runs of up to 500
    steps).

    Args:
        p: Features of the references.
        q: Features of the texts.
        buckets: How many, or `auto`: a tenth of the smaller set, at least 2.
        seeds: Of the k-means, one score each.

    Raises:
        MissingExtraError: scikit-learn or faiss is not installed.
    """
    n = min(len(p), len(q))
    number = max(2, round(n / 10)) if buckets == "auto" else buckets
    fewest = max(FEWEST, FEWEST_PER_BUCKET * number)
    reason = ""
    if n < fewest:
        reason = f"{n} texts with a reference; for {number} buckets at least {fewest} are needed"
    elif not (np.isfinite(p).all() and np.isfinite(q).all()):
        reason = "features that are not finite numbers"
    if reason:
        return Mauve(n=n, buckets=number, reason=reason)
    labels = tuple(_quantise(p, q, number, seeds))
    values = [
        area(_count(p_labels, number) / len(p), _count(q_labels, number) / len(q))
        for p_labels, q_labels in labels
    ]
    return Mauve(values=tuple(map(float, values)), n=n, buckets=number, labels=labels)


def _count(labels: Labels, buckets: int) -> NDArray[np.int64]:
    """Return how many labels name each bucket, `[buckets]`."""
    return np.bincount(labels, minlength=buckets)


def area(p_hist: ArrayLike, q_hist: ArrayLike) -> Floats:
    """Return MAUVE in percent of histograms [..., k], for each of the leading axes.

    The divergence curve is (exp(-c KL(Q‖R)), exp(-c KL(P‖R))) with R = λP + (1 - λ)Q at 25 λ, and its ends
    (1, 0) and (0, 1). MAUVE's definition takes the mean of the areas under it seen from either axis. As a
    polygon that runs from (1, 0) to (0, 1) it has one area, so one is computed.

    >>> float(area([0.5, 0.5], [0.5, 0.5]).round(9))
    100.0
    """
    p, q = np.broadcast_arrays(np.asarray(p_hist, dtype=np.float64), np.asarray(q_hist, dtype=np.float64))
    # In the order of λ, x falls and y rises, so nothing need be sorted.
    x, y = np.zeros((2, len(MIXTURES) + 2, *p.shape[:-1]))
    x[0] = y[-1] = 1.0
    for index, weight in enumerate(MIXTURES, start=1):
        mixture = weight * p + (1 - weight) * q
        x[index] = np.exp(-SCALING * rel_entr(q, mixture).sum(-1))
        y[index] = np.exp(-SCALING * rel_entr(p, mixture).sum(-1))
    widths = x[:-1] - x[1:]
    heights = (y[:-1] + y[1:]) / 2
    total: Floats = 100.0 * (widths * heights).sum(0)
    return total


def contributions(result: Mauve) -> Floats:
    """Return what each prompt contributes to the score, `[n]`; their mean is the score.

    These are the jackknife's pseudo-values with the buckets held fixed: a prompt that is left out takes its
    reference and its text out of their buckets, and to first order the two changes add up. What other buckets
    would change is the variance between seeds, which an interval adds. It is an interval for the expected
    score at this number of texts and buckets.

    Args:
        result: Of n references and n texts, reference i and text i of the same prompt.
    """
    n = result.n
    one_less = np.eye(result.buckets)  # row k: if one text less were in bucket k
    change = np.zeros(n)
    for value, (p, q) in zip(result.values, result.labels, strict=True):
        p_counts = _count(p, result.buckets)
        q_counts = _count(q, result.buckets)
        p_without = np.clip(p_counts - one_less, 0, None) / (n - 1)
        q_without = np.clip(q_counts - one_less, 0, None) / (n - 1)
        of_p = area(p_without, q_counts / n) - value
        of_q = area(p_counts / n, q_without) - value
        change += (of_p[p] + of_q[q]) / len(result.values)
    return np.asarray(result.value + (n - 1) * (change.mean() - change))


def _quantise(
    p: Features, q: Features, buckets: int, seeds: Iterable[int]
) -> Iterator[tuple[Labels, Labels]]:
    """Yield the buckets of the references and of the texts for each seed."""
    if find_spec("faiss") is None:
        raise MissingExtraError("metrics", "faiss-cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of SWIG's types, on Python 3.12 and later
        import faiss  # noqa: PLC0415 (an extra)
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 (comes with it)

    # One thread: the sums depend on how many there are, and beside other work they wait for each other (2600
    # points, 131 buckets, two busy cores: 0.1 s with one thread, 0.8 s with two).
    with threadpool_limits(1):
        points = _project(p, q)
        for seed in seeds:
            # The last option only silences a warning: ten points per centroid is the definition.
            runs = {"niter": 500, "nredo": 5, "update_index": True, "min_points_per_centroid": 1}
            means = faiss.Kmeans(points.shape[1], buckets, seed=seed + 2, **runs)
            means.train(points)
            labels = means.index.search(points, 1)[1].reshape(-1).astype(np.int64)
            yield labels[len(q) :], labels[: len(q)]


def _project(p: Features, q: Features) -> Features:
    """Return the points that are clustered, texts before references, [m + n, c]."""
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from sklearn.preprocessing import normalize  # type: ignore[import-untyped]  # noqa: PLC0415

    unit = normalize(np.vstack([q, p]), norm="l2", axis=1)
    if (unit == unit[0]).all():
        return np.zeros((len(unit), 1), dtype=np.float32)  # no variance to have components of
    pca = PCA().fit(unit)  # of all components: such a decomposition draws nothing at random
    kept = int(np.argmax(np.cumsum(pca.explained_variance_ratio_) >= KEPT_VARIANCE)) + 1
    points: Features = pca.transform(unit)[:, :kept].astype(np.float32)
    return points


def cut_text(tokenizer: Tokenizer, text: str, tokens: int) -> str | None:
    """Return `text` cut to its first tokens; None if it has fewer."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"][:tokens]
    return tokenizer.decode(ids, clean_up_tokenization_spaces=False) if len(ids) == tokens else None


def hidden_features(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str | None], *, batch_size: int = BATCH_ROWS
) -> list[Features | None]:
    """Return the last layer's hidden state at the last token of each text, `[d]`; None has none.

    Special tokens are those the tokenizer adds of its own accord. Texts are padded on the right, which a
    causal model does not attend to.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        texts: Each of at least one token; what is longer than the model's context loses its end.
        batch_size: Texts per forward pass.
    """
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    cut = {} if context is None else {"truncation": True, "max_length": context}
    rows = [None if text is None else tokenizer(text, verbose=False, **cut)["input_ids"] for text in texts]
    return read_in_batches(rows, len, partial(_last_states, model), most=batch_size)


@torch.inference_mode()
def _last_states(model: Model, rows: Sequence[Sequence[int]]) -> Features:
    ids, real = pad_rows(rows, model)
    # The model without its head: logits over the vocabulary would need far more memory than everything else.
    body: Model = getattr(model, "base_model", model)
    states = body(input_ids=ids, attention_mask=real.long(), use_cache=False, output_hidden_states=True)
    last = states.hidden_states[-1][torch.arange(len(rows), device=ids.device), real.sum(1) - 1]
    values: Features = last.float().cpu().numpy()
    return values


def outcomes(groups: Sequence[Group], _: Sequence[str], tools: MetricTools) -> Iterator[Outcome]:
    """Yield MAUVE of each strategy against the references of the same prompts.

    As in the published scripts, text and reference are cut to the same number of tokens, and a pair of which
    one is shorter does not count.
    """
    reader = tools.models.open(tools.settings.mauve_model)
    length = tools.settings.mauve_tokens
    compared = [text for group in groups for text in group.texts if text.reference]
    sides = [(side,) for text in compared for side in (text.reference or "", text.text)]

    def compute(model: Model, tokenizer: Tokenizer, texts: Sequence[ScoringInput]) -> Iterable[Any]:
        return hidden_features(model, tokenizer, [cut_text(tokenizer, text, length) for (text,) in texts])

    features = tools.read(["MAUVE", length], reader, sides, compute)
    for group in groups:
        yield _outcome(group, tools.settings, reader.signature, features)


def _outcome(
    group: Group, settings: MetricSettings, model: str, features: Mapping[ScoringInput, Features | None]
) -> Outcome:
    """Return MAUVE of a group's runs, and what each prompt contributes."""
    seeds = range(SEEDS[0], SEEDS[0] + settings.mauve_seeds)
    references = [features.get((text.reference or "",)) for text in group.texts]
    texts = [features.get((text.text,)) for text in group.texts]
    results = []
    parts = np.zeros((len(texts), 2))
    for run in group.runs:
        whole = [index for index in run if references[index] is not None and texts[index] is not None]
        result = mauve(
            np.array([references[index] for index in whole]),
            np.array([texts[index] for index in whole]),
            buckets=settings.mauve_buckets,
            seeds=seeds,
        )
        results.append(result)
        if result.values:
            parts[whole] = np.stack([contributions(result), np.ones(len(whole))], axis=1)
    defined = [result for result in results if result.values]
    noise = 0.0
    if defined and len(seeds) > 1:
        # The variance over seeds; of runs, which have the same references, it is the mean.
        noise = statistics.fmean(statistics.variance(result.values) for result in defined)
    compared = sum(bool(text.reference) for text in group.texts)
    tokens = settings.mauve_tokens
    buckets = " or ".join(dict.fromkeys(str(result.buckets) for result in defined or results))
    return outcome_of_runs(
        "mauve",
        group,
        [result.value for result in results],
        n=sum(result.n for result in defined),
        counts={
            "without a reference": len(texts) - compared,
            f"text or reference shorter than {tokens} tokens": compared - sum(each.n for each in results),
        },
        note=f"standard deviation over {len(seeds)} seeds {noise**0.5:.2f}",
        reason=results[0].reason,
        signature=f"mauve|{model}|tokens:{tokens}, full length only|buckets:{buckets}|"
        f"c:{SCALING:g}|seeds:{seeds[0]}-{seeds[-1]}",
        parts=group.sum_by_prompt(parts),
        noise=noise,
    )
