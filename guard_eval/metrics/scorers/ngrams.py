"""Metrics of n-grams of words, which are split at white space: diversity, repetition, distinct-n, self-BLEU.

Diversity is defined as in all published tables of this line of research (simctg: Su et al. 2022 and later
work). N-grams are counted per text and summed over texts, and the last n-gram of each text is left out. Each
repetition rate is rounded to two decimals of a percent before the product is computed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from guard_eval import progress
from guard_eval.estimate import Floats
from guard_eval.metrics.outcomes import (
    Group,
    Outcome,
    make_outcome_from_run_values,
    make_outcome_from_sums,
)
from guard_eval.metrics.scoring_models import MetricTools
from guard_eval.records import record

Gram = tuple[str, ...]
ORDERS = (2, 3, 4)
TOO_SHORT = "no text has enough words. Words are separated by white space"
EPSILON = 0.1
"""Self-BLEU replaces a count of zero by this value: smoothing method 1 of Chen and Cherry (2014)."""


def list_ngrams(words: Sequence[str], n: int) -> Iterable[Gram]:
    """Return the n-grams of a text, in order."""
    return zip(*(words[start:] for start in range(n)), strict=False)


@record
class Diversity:
    """The diversity of a set of texts and its repetition rates, in percent.

    Attributes:
        diversity: ∏ₙ (1 − rep-n), n = 2, 3, 4, or None if the texts are too short.
        rep: rep-2, rep-3 and rep-4: the share of n-grams that repeat an earlier n-gram of the same text.
    """

    diversity: float | None
    rep: dict[int, float | None]


def compute_diversity(texts: Sequence[str]) -> Diversity:
    """Return the `simctg` diversity of texts.

    >>> compute_diversity(["the cat saw the cat and ran"])  # 5 bigrams are counted, 4 differ; 4 of 4; 3 of 3
    Diversity(diversity=80.0, rep={2: 20.0, 3: 0.0, 4: 0.0})
    """
    return _compute_published_diversity(count_ngrams(texts).sum(axis=0))


def _compute_published_diversity(sums: Floats) -> Diversity:
    """Compute the diversity from sums of `count_ngrams`, `[6]`, with the rounding of the published code."""
    rates = [None if math.isnan(rate) else round(rate, 2) for rate in compute_repetition(sums).tolist()]
    unrepeated = [1 - rate / 100 for rate in rates if rate is not None]
    is_defined = len(unrepeated) == len(ORDERS)
    product = round(100 * math.prod(unrepeated), 2) if is_defined else None
    return Diversity(diversity=product, rep=dict(zip(ORDERS, rates, strict=True)))


def count_ngrams(texts: Sequence[str]) -> Floats:
    """Count the different n-grams and all n-grams of each text, `[texts, 6]`, n = 2, 3, 4.

    The last n-gram of a text does not count.
    """
    counts = np.zeros((len(texts), 2 * len(ORDERS)))
    for row, text in zip(counts, texts, strict=True):
        words = text.split()
        for index, n in enumerate(ORDERS):
            grams = Counter(list_ngrams(words[:-1], n))
            row[2 * index] = len(grams)
            row[2 * index + 1] = grams.total()
    return counts


def compute_repetition(sums: Floats) -> Floats:
    """Compute rep-2, rep-3 and rep-4 in percent, `[..., 3]`, from sums of `count_ngrams`, `[..., 6]`."""
    different = sums[..., ::2]
    all_grams = sums[..., 1::2]
    with np.errstate(invalid="ignore"):
        return np.asarray(100 * (1 - different / all_grams))


def compute_unrounded_diversity(sums: Floats) -> Floats:
    """Compute the diversity in percent without rounding, `[...]`, from sums of `count_ngrams`."""
    return np.asarray(100 * np.prod(1 - compute_repetition(sums) / 100, axis=-1))


def compute_distinct_share(texts: Sequence[str], n: int) -> float:
    """Return the share of different n-grams among all n-grams, in percent (Li et al. 2016).

    The value is NaN if no text has an n-gram.

    The value falls as texts are added, because n-grams occur in several texts. So compare only equal numbers
    of texts of about equal length.

    >>> compute_distinct_share(["a b a", "a c"], 1)  # a, b, c of five
    60.0
    """
    grams = Counter(gram for text in texts for gram in list_ngrams(text.split(), n))
    return 100 * len(grams) / grams.total() if grams else math.nan


def compute_self_bleus(texts: Sequence[str], *, max_n: int = 4) -> Floats:
    """Return the BLEU of each text against all other texts in percent, `[texts]`. Self-BLEU is the mean.

    BLEU is the sentence BLEU of Papineni et al. (2002) with equal weights for each n up to `max_n`. The
    brevity penalty uses the nearest length of another text, and the shorter length in a tie. A text that
    shares no word with other texts has 0. A text that is shorter than the longest n-gram has NaN, but other
    texts are still compared with it. The mean rises with the number of texts (Zhu et al. 2018), so compare
    only equal numbers of texts.

    >>> compute_self_bleus(["the cat sat down", "the cat sat there"]).round(2)  # (3/4·2/3·1/2·0.1)^(1/4)
    array([39.76, 39.76])
    """
    words = [text.split() for text in texts]
    lengths = Counter(map(len, words))
    matches = [_count_shared_ngrams(words, n) for n in range(1, max_n + 1)]
    scores = np.full(len(texts), np.nan)
    for index, length in enumerate(map(len, words)):
        if length < max_n or len(texts) == 1:
            continue
        other_lengths = lengths - Counter([length])
        nearest = min(other_lengths, key=lambda other: (abs(other - length), other))
        precisions = [(counts[index] or EPSILON) / (length - n) for n, counts in enumerate(matches)]
        log_precision = sum(math.log(precision) / max_n for precision in precisions)
        log_brevity = min(0.0, 1 - nearest / length)
        shares_word = matches[0][index] > 0
        scores[index] = 100 * math.exp(log_brevity + log_precision) if shares_word else 0.0
    return scores


def _count_shared_ngrams(words: Sequence[Sequence[str]], n: int) -> list[int]:
    """Count each text's n-grams that occur in other texts.

    An n-gram counts at most as often as the other text with the largest count contains the n-gram. This is
    the second largest count of all texts, unless the text's own count is smaller.
    """
    counts = [Counter(list_ngrams(row, n)) for row in words]
    largest: Counter[Gram] = Counter()
    second: Counter[Gram] = Counter()
    for grams in counts:
        for gram, count in grams.items():
            second[gram] = max(second[gram], min(largest[gram], count))
            largest[gram] = max(largest[gram], count)
    return [(grams & second).total() for grams in counts]


def yield_outcomes(
    groups: Sequence[Group],
    metrics: Sequence[str],
    _: MetricTools,
) -> Iterator[Outcome]:
    """Yield the n-gram metrics of each group."""
    with progress.show_task("texts", total=len(groups), unit="groups") as advance:
        for group in groups:
            texts = [text.text for text in group.texts]
            yield from _yield_repetition_outcomes(group, texts, metrics)
            if "distinct" in metrics:
                yield from _yield_distinct_outcomes(group, texts)
            if "self_bleu" in metrics:
                yield _measure_self_bleu(group, texts)
            advance(1)


def _yield_repetition_outcomes(
    group: Group, texts: Sequence[str], metrics: Sequence[str]
) -> Iterator[Outcome]:
    """Yield the diversity and the repetition rates of a group."""
    counts = count_ngrams(texts)
    published = _compute_published_diversity(group.average_runs_by_prompt(counts).sum(axis=0))
    if "diversity" in metrics:
        outcome = make_outcome_from_sums(
            "diversity",
            group,
            counts,
            compute_unrounded_diversity,
            n=len(texts),
            counts={"shorter than five words": int((counts[:, -1] == 0).sum())},
            reason=TOO_SHORT,
            signature="simctg|tokens:whitespace|n:2-4|last:dropped|rep:rounded2",
        )
        yield replace(outcome, value=published.diversity)
    for index, n in enumerate(ORDERS if "repetition" in metrics else ()):
        outcome = make_outcome_from_sums(
            f"rep_{n}",
            group,
            counts,
            partial(_select_repetition_rate, index),
            n=len(texts),
            reason=TOO_SHORT,
            signature=f"rep-{n}|tokens:whitespace|last:dropped|rounded2",
        )
        yield replace(outcome, value=published.rep[n])


def _select_repetition_rate(index: int, sums: Floats) -> Floats:
    return np.asarray(compute_repetition(sums)[..., index])


def _yield_distinct_outcomes(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    for n in (1, 2):
        values = [compute_distinct_share([texts[index] for index in run], n) for run in group.run_indices]
        yield make_outcome_from_run_values(
            f"distinct_{n}",
            group,
            values,
            n=sum(len(text.split()) >= n for text in texts),
            note="falls as texts are added, so compare equal numbers of texts. There is no interval",
            reason=TOO_SHORT,
            signature=f"distinct-{n}|tokens:whitespace",
        )


def _measure_self_bleu(group: Group, texts: Sequence[str]) -> Outcome:
    scores = [compute_self_bleus([texts[index] for index in run]) for run in group.run_indices]
    defined = [run[~np.isnan(run)].tolist() for run in scores]
    means = [math.fsum(run) / len(run) if run else math.nan for run in defined]
    too_short = sum(len(text.split()) < max(ORDERS) for text in texts)
    has_pairs = max(map(len, scores)) > 1
    return make_outcome_from_run_values(
        "self_bleu",
        group,
        means,
        n=sum(map(len, defined)),
        counts={"shorter than four words": too_short},
        note="rises as texts are added. Each text changes the other texts' scores, so there is no interval",
        reason=TOO_SHORT if has_pairs else "a single text cannot be compared with other texts",
        signature=f"self-bleu|tokens:whitespace|n:1-4|smooth:floor[{EPSILON}]|ref-len:closest",
    )
