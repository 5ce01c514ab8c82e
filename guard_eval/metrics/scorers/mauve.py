"""MAUVE: the similarity of the distributions of texts and references (Pillutla et al. 2021; Appendix D).

K-means puts the features of texts and references into buckets, and the score is the area under the divergence
curve of the two histograms. The score depends on the seed of k-means (by several percentage points), on the
number of buckets and on the number of texts. Only scores with equal numbers of buckets and texts can be
compared.
"""

import math
import statistics
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from guard_eval.errors import MissingExtraError
from guard_eval.estimate import Floats
from guard_eval.generation.engines import Model, Tokenizer
from guard_eval.metrics.outcomes import Group, Outcome, make_outcome_from_run_values
from guard_eval.metrics.scorers.batches import compute_values_in_batches, pad_rows
from guard_eval.metrics.scoring_models import MetricTools, ScoringInput
from guard_eval.records import record
from guard_eval.study.settings import MetricSettings

SEEDS = (25, 26, 27, 28, 29)
"""The seeds of k-means. Published scores use the first seed."""

FEWEST = 20
"""With fewer texts or references, MAUVE is undefined. 20 texts fill two buckets with ten texts each."""

FEWEST_PER_BUCKET = 2
"""The smallest mean number of texts per bucket, and of references per bucket. If texts and references have
the same distribution, the expected score is 96 with ten per bucket, 47 with two and 16 with one."""

SCALING = 5.0
"""The constant c of the divergence curve, as in Pillutla et al. 2021 and in the published scripts."""

BATCH_ROWS = 16
MIXTURES = np.linspace(1e-6, 1 - 1e-6, 25)
KEPT_VARIANCE = 0.9

Features = NDArray[np.float32]
Labels = NDArray[np.int64]


@record
class Mauve:
    """MAUVE of one set of texts.

    Attributes:
        values: The score in percent for each seed of k-means, or nothing if the score is undefined.
        n: The number of texts or the number of references, whichever is smaller.
        buckets: The number of buckets of the histograms.
        labels: For each seed, the bucket of each reference `[n]` and of each text `[m]`.
        reason: Why the score is undefined, or "".
    """

    values: tuple[float, ...] = ()
    n: int
    buckets: int
    labels: tuple[tuple[Labels, Labels], ...] = ()
    reason: str = ""

    @property
    def value(self) -> float:
        """The mean score over seeds, or NaN if the score is undefined."""
        return statistics.fmean(self.values) if self.values else math.nan


def compute_mauve(
    p: Features,
    q: Features,
    *,
    buckets: int | Literal["auto"] = "auto",
    seeds: Sequence[int] = SEEDS,
) -> Mauve:
    """Return MAUVE of texts with features `q` [m, d] against references with features `p` [n, d].

    As in the authors' defaults, features are scaled to length 1, projected onto the principal components with
    90 % of the variance of both sets together, and clustered by k-means (the best of 5 runs of up to 500
    steps).

    Args:
        p: The features of the references.
        q: The features of the texts.
        buckets: The number of buckets, or `auto`: a tenth of the size of the smaller set, at least 2.
        seeds: The seeds of k-means. There is one score for each seed.

    Raises:
        MissingExtraError: scikit-learn or faiss is not installed.
    """
    n = min(len(p), len(q))
    number = max(2, round(n / 10)) if buckets == "auto" else buckets
    fewest = max(FEWEST, FEWEST_PER_BUCKET * number)
    if n < fewest:
        needed = f"for {number} buckets at least {fewest} are needed"
        return Mauve(n=n, buckets=number, reason=f"{n} texts with a reference; {needed}")
    if not (np.isfinite(p).all() and np.isfinite(q).all()):
        return Mauve(n=n, buckets=number, reason="the model's features are not finite numbers")
    labels = tuple(_cluster_features(p, q, number, seeds))
    values = []
    for p_labels, q_labels in labels:
        p_hist = np.bincount(p_labels, minlength=number) / len(p)
        q_hist = np.bincount(q_labels, minlength=number) / len(q)
        values.append(float(integrate_divergence_curve(p_hist, q_hist)))
    return Mauve(values=tuple(values), n=n, buckets=number, labels=labels)


def integrate_divergence_curve(p_hist: ArrayLike, q_hist: ArrayLike) -> Floats:
    """Return MAUVE, in percent, of each pair of histograms, `[..., k]` → `[...]`.

    The divergence curve is (exp(-c KL(Q‖R)), exp(-c KL(P‖R))) with R = λP + (1 - λ)Q at 25 values of λ, and
    ends at (1, 0) and (0, 1). MAUVE is defined as the mean of the areas between the curve and each axis. The
    two areas of a polygon from (1, 0) to (0, 1) are equal, so only one area is computed.

    >>> float(integrate_divergence_curve([0.5, 0.5], [0.5, 0.5]).round(9))
    100.0
    """
    p, q = np.broadcast_arrays(np.asarray(p_hist, dtype=np.float64), np.asarray(q_hist, dtype=np.float64))
    # x falls and y rises with λ, so the points need no sorting.
    x, y = np.zeros((2, len(MIXTURES) + 2, *p.shape[:-1]))
    x[0] = 1.0
    y[-1] = 1.0
    for index, weight in enumerate(MIXTURES, start=1):
        mixture = weight * p + (1 - weight) * q
        x[index] = np.exp(-SCALING * rel_entr(q, mixture).sum(-1))
        y[index] = np.exp(-SCALING * rel_entr(p, mixture).sum(-1))
    widths = x[:-1] - x[1:]
    heights = (y[:-1] + y[1:]) / 2
    total: Floats = 100.0 * (widths * heights).sum(0)
    return total


def compute_mauve_contributions(result: Mauve) -> Floats:
    """Return the contribution of each prompt to the score, `[n]`. Their mean is the score.

    Contributions are the jackknife's pseudo-values with fixed buckets: without a prompt, the prompt's
    reference and text are missing in their buckets, and to first order the two changes add up. The effect of
    other buckets is the variance between seeds, which the interval includes. The interval is for the expected
    score with this number of texts and buckets.

    Args:
        result: The MAUVE of n references and n texts. Reference i and text i have the same prompt.
    """
    n = result.n
    one_less = np.eye(result.buckets)  # row k: one text less in bucket k
    change = np.zeros(n)
    for value, (p, q) in zip(result.values, result.labels, strict=True):
        p_counts = np.bincount(p, minlength=result.buckets)
        q_counts = np.bincount(q, minlength=result.buckets)
        p_without = np.clip(p_counts - one_less, 0, None) / (n - 1)
        q_without = np.clip(q_counts - one_less, 0, None) / (n - 1)
        change_by_reference = integrate_divergence_curve(p_without, q_counts / n) - value
        change_by_text = integrate_divergence_curve(p_counts / n, q_without) - value
        change += (change_by_reference[p] + change_by_text[q]) / len(result.values)
    return np.asarray(result.value + (n - 1) * (change.mean() - change))


def _cluster_features(
    p: Features, q: Features, buckets: int, seeds: Iterable[int]
) -> Iterator[tuple[Labels, Labels]]:
    """Yield, for each seed, the buckets of the references and the buckets of the texts."""
    if find_spec("faiss") is None:
        raise MissingExtraError("metrics", "faiss-cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # SWIG's types, on Python 3.12 and later
        import faiss  # noqa: PLC0415 (an extra)
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 (of faiss)

    # The rounding of sums depends on the number of threads, and on busy cores threads wait for each other
    # (2600 points, 131 buckets, two busy cores: 0.1 s with one thread, 0.8 s with two).
    with threadpool_limits(1):
        points = _project_features(p, q)
        # The last option only turns off a warning, because MAUVE has about ten points per centroid.
        options = {"niter": 500, "nredo": 5, "update_index": True, "min_points_per_centroid": 1}
        for seed in seeds:
            means = faiss.Kmeans(points.shape[1], buckets, seed=seed + 2, **options)
            means.train(points)
            _, nearest = means.index.search(points, 1)
            labels = nearest.reshape(-1).astype(np.int64)
            yield labels[len(q) :], labels[: len(q)]


def _project_features(p: Features, q: Features) -> Features:
    """Return the points for k-means, [m + n, c], the texts before the references."""
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]  # noqa: PLC0415 (an extra)
    from sklearn.preprocessing import normalize  # type: ignore[import-untyped]  # noqa: PLC0415

    unit = normalize(np.vstack([q, p]), norm="l2", axis=1)
    if (unit == unit[0]).all():
        return np.zeros((len(unit), 1), dtype=np.float32)  # without variance, there are no components
    pca = PCA().fit(unit)  # all components, because then the method uses no random numbers
    explained = np.cumsum(pca.explained_variance_ratio_)
    components = int(np.argmax(explained >= KEPT_VARIANCE)) + 1
    points: Features = pca.transform(unit)[:, :components].astype(np.float32)
    return points


def cut_to_first_tokens(tokenizer: Tokenizer, text: str, tokens: int) -> str | None:
    """Return the first `tokens` tokens of a text as text, or None if the text has fewer tokens."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    if len(ids) < tokens:
        return None
    cut: str = tokenizer.decode(ids[:tokens], clean_up_tokenization_spaces=False)
    return cut


def compute_text_features(
    model: Model, tokenizer: Tokenizer, texts: Sequence[str | None], *, batch_size: int = BATCH_ROWS
) -> list[Features | None]:
    """Return the last layer's hidden state at the last token of each text, `[d]`. None stays None.

    The tokenizer adds the usual special tokens. Texts are padded on the right, and a causal model does not
    attend to this padding.

    Args:
        model: A causal language model of transformers.
        tokenizer: The model's tokenizer.
        texts: Texts of at least one token. A text that is longer than the model's context loses its end.
        batch_size: The number of texts in a forward pass.
    """
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    cut = {} if context is None else {"truncation": True, "max_length": context}
    rows = [None if text is None else tokenizer(text, verbose=False, **cut)["input_ids"] for text in texts]
    return compute_values_in_batches(
        rows, len, partial(_compute_last_token_states, model), max_rows=batch_size
    )


@torch.inference_mode()
def _compute_last_token_states(model: Model, rows: Sequence[Sequence[int]]) -> Features:
    ids, real = pad_rows(rows, model)
    # The model's head is left out, because logits over the vocabulary would need far more memory.
    body: Model = getattr(model, "base_model", model)
    output = body(input_ids=ids, attention_mask=real.long(), use_cache=False, output_hidden_states=True)
    row_indices = torch.arange(len(rows), device=ids.device)
    last_tokens = real.sum(1) - 1
    states = output.hidden_states[-1][row_indices, last_tokens]
    values: Features = states.float().cpu().numpy()
    return values


def yield_outcomes(
    groups: Sequence[Group],
    _: Sequence[str],
    tools: MetricTools,
) -> Iterator[Outcome]:
    """Yield MAUVE of each strategy against the references of the same prompts.

    As in the published scripts, all texts and references are cut to the same number of tokens. Pairs with a
    shorter text or reference do not count.
    """
    reader = tools.models.open(tools.settings.mauve_model)
    length = tools.settings.mauve_tokens
    compared = [text for group in groups for text in group.texts if text.reference]
    inputs: list[ScoringInput] = [(text.text,) for text in compared]
    inputs += [(text.reference or "",) for text in compared]

    def compute(
        model: Model, tokenizer: Tokenizer, texts: Sequence[ScoringInput]
    ) -> Iterable[Features | None]:
        cut_texts = [cut_to_first_tokens(tokenizer, text, length) for (text,) in texts]
        return compute_text_features(model, tokenizer, cut_texts)

    features = tools.read_or_compute_values(["MAUVE", length], reader, inputs, compute)
    for group in groups:
        yield _measure_group_mauve(group, tools.settings, reader.signature, features)


def _measure_group_mauve(
    group: Group, settings: MetricSettings, model: str, features: Mapping[ScoringInput, Features | None]
) -> Outcome:
    """Return the mean MAUVE of a group's runs, with the contribution of each prompt."""
    seeds = range(SEEDS[0], SEEDS[0] + settings.mauve_seeds)
    references = [features.get((text.reference or "",)) for text in group.texts]
    texts = [features.get((text.text,)) for text in group.texts]
    results = []
    parts = np.zeros((len(texts), 2))
    for run in group.run_indices:
        # The pairs in which both the text and the reference are long enough.
        complete = [index for index in run if references[index] is not None and texts[index] is not None]
        result = compute_mauve(
            np.array([references[index] for index in complete]),
            np.array([texts[index] for index in complete]),
            buckets=settings.mauve_buckets,
            seeds=seeds,
        )
        results.append(result)
        if result.values:
            parts[complete] = np.stack([compute_mauve_contributions(result), np.ones(len(complete))], axis=1)
    defined = [result for result in results if result.values]
    noise = 0.0
    if defined and len(seeds) > 1:
        # The variance over seeds. Runs share the references, so the variances are averaged, not added.
        noise = statistics.fmean(statistics.variance(result.values) for result in defined)
    compared = sum(bool(text.reference) for text in group.texts)
    too_short = compared - sum(result.n for result in results)
    tokens = settings.mauve_tokens
    buckets = " or ".join(dict.fromkeys(str(result.buckets) for result in defined or results))
    definition = f"tokens:{tokens}, full length only|buckets:{buckets}|c:{SCALING:g}"
    return make_outcome_from_run_values(
        "mauve",
        group,
        [result.value for result in results],
        n=sum(result.n for result in defined),
        counts={
            "without a reference": len(texts) - compared,
            f"text or reference shorter than {tokens} tokens": too_short,
        },
        note=f"standard deviation over {len(seeds)} seeds {noise**0.5:.2f}",
        reason=results[0].reason,
        signature=f"mauve|{model}|{definition}|seeds:{seeds[0]}-{seeds[-1]}",
        parts=group.average_runs_by_prompt(parts),
        noise=noise,
    )
