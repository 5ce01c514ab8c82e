"""Metrics of n-grams of whitespace tokens: diversity, repetition, distinct-n and self-BLEU.

Diversity has two definitions that are never mixed. `simctg` gave every published table of this line of
research (Su et al. 2022 and their successors): n-grams are counted per text and summed over texts, each
text's last n-gram is left out, and each repetition rate is rounded to two decimals of a percent before the
product is taken. `textbook` is the paper's Appendix D as written: each text's own product over all its
n-grams, and the mean over texts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from guard_eval import progress
from guard_eval.estimate import Floats
from guard_eval.metrics.outcomes import (
    Group,
    MetricTools,
    Outcome,
    mean_outcome,
    outcome_of_runs,
    outcome_of_sums,
)

ORDERS = (2, 3, 4)
EPSILON = 0.1
"""In self-BLEU a count of zero becomes this: smoothing method 1 of Chen and Cherry (2014)."""
SIGNATURES = {
    "simctg": "simctg|tokens:whitespace|n:2-4|last:dropped|rep:rounded2",
    "textbook": "textbook|tokens:whitespace|n:2-4|last:kept|mean over texts",
}


def ngrams(words: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    """Return the n-grams of a text, in order."""
    return zip(*(words[start:] for start in range(n)), strict=False)


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """The diversity of a set of texts, in percent, with the repetition rates it is made of.

    Attributes:
        diversity: ∏ₙ (1 − rep-n), n = 2, 3, 4; None if the texts are too short.
        rep: rep-2, rep-3 and rep-4: the share of n-grams that repeat an earlier one of the same text.
    """

    diversity: float | None
    rep: dict[int, float | None]


def diversity(texts: Sequence[str]) -> Diversity:
    """Return the `simctg` diversity of texts.

    >>> diversity(["the cat saw the cat and ran"])  # 5 bigrams are counted, 4 differ; 4 of 4; 3 of 3
    Diversity(diversity=80.0, rep={2: 20.0, 3: 0.0, 4: 0.0})
    """
    return _published(ngram_counts(texts).sum(axis=0))


def _published(sums: Floats) -> Diversity:
    """Return the diversity of sums of `ngram_counts`, `[6]`, rounded where the published code rounds."""
    rates = [None if math.isnan(rate) else round(rate, 2) for rate in repetition_of_sums(sums).tolist()]
    known = [1 - rate / 100 for rate in rates if rate is not None]
    whole = round(100 * math.prod(known), 2) if len(known) == len(ORDERS) else None
    return Diversity(diversity=whole, rep=dict(zip(ORDERS, rates, strict=True)))


def ngram_counts(texts: Sequence[str], *, dropped: int = 1) -> Floats:
    """Return each text's number of different and of all n-grams, `[texts, 6]`, n = 2, 3, 4.

    Args:
        texts: The texts.
        dropped: How many n-grams at a text's end are left out. The published code leaves out one, and its
            figures depend on it.
    """
    counts = np.zeros((len(texts), 2 * len(ORDERS)))
    for row, text in zip(counts, texts, strict=True):
        words = text.split()
        for index, n in enumerate(ORDERS):
            grams = Counter(ngrams(words[: len(words) - dropped] if dropped else words, n))
            row[2 * index : 2 * index + 2] = len(grams), grams.total()
    return counts


def repetition_of_sums(sums: Floats) -> Floats:
    """Return rep-2, rep-3 and rep-4 in percent, `[..., 3]`, of sums of `ngram_counts`, `[..., 6]`."""
    with np.errstate(invalid="ignore"):
        return np.asarray(100 * (1 - sums[..., ::2] / sums[..., 1::2]))


def diversity_of_sums(sums: Floats) -> Floats:
    """Return `simctg` diversity in percent without rounding, `[...]`, of sums of `ngram_counts`."""
    return np.asarray(100 * np.prod(1 - repetition_of_sums(sums) / 100, axis=-1))


def textbook_diversity(texts: Sequence[str]) -> Floats:
    """Return each text's own DIV = ∏ₙ unique n-grams / n-grams in percent (Appendix D), `[texts]`.

    It is NaN below four words, where a text has no 4-gram.

    >>> textbook_diversity(["the cat saw the cat and ran"])  # 5/6 · 5/5 · 4/4
    array([83.33333333])
    """
    return diversity_of_sums(ngram_counts(texts, dropped=0))


def distinct(texts: Sequence[str], n: int) -> float:
    """Return the different n-grams of all texts over all their n-grams, in percent (Li et al. 2016).

    It is NaN where no text has an n-gram.

    The value falls as texts are added, since n-grams recur from text to text: only equal numbers of texts of
    about equal length compare.

    >>> distinct(["a b a", "a c"], 1)  # a, b, c of five
    60.0
    """
    grams = Counter(gram for text in texts for gram in ngrams(text.split(), n))
    return 100 * len(grams) / grams.total() if grams else math.nan


def self_bleus(texts: Sequence[str], *, max_n: int = 4) -> Floats:
    """Return the BLEU of each text against all others in percent, `[texts]`; self-BLEU is their mean.

    Sentence BLEU (Papineni et al. 2002) with the same weight for each n up to `max_n`. The brevity penalty
    takes the length of another text that is nearest to the text's own, the shorter one of two. A text that
    shares no word with any other has 0. A text that is shorter than the longest n-gram has NaN, but others
    are still compared with it. The mean rises with the number of texts (Zhu et al. 2018): only equal numbers
    compare.

    The largest count of an n-gram in another text is the largest count of all, except in the text that has
    it, where it is the second largest. So the work grows with the n-grams, not with the pairs of texts.

    >>> self_bleus(["the cat sat down", "the cat sat there"]).round(2)  # (3/4 · 2/3 · 1/2 · 0.1)^(1/4)
    array([39.76, 39.76])
    """
    words = [text.split() for text in texts]
    scored = [index for index, row in enumerate(words) if len(row) >= max_n and len(texts) > 1]
    lengths = np.array([len(row) for row in words], dtype=np.int64)
    logs, any_word = np.zeros(len(texts)), np.zeros(len(texts), dtype=bool)
    for n in range(1, max_n + 1):
        counts = [Counter(ngrams(row, n)) for row in words]
        largest: dict[tuple[str, ...], tuple[int, int]] = {}
        for grams in counts:
            for gram, count in grams.items():
                first, second = largest.get(gram, (0, 0))
                largest[gram] = (count, first) if count > first else (first, max(second, count))
        for index in scored:
            matches = sum(
                min(count, largest[gram][1] if largest[gram][0] == count else largest[gram][0])
                for gram, count in counts[index].items()
            )
            logs[index] += math.log((matches or EPSILON) / (len(words[index]) - n + 1)) / max_n
            any_word[index] |= n == 1 and matches > 0
    scores = np.full(len(texts), np.nan)
    for index in scored:
        brevity = min(0.0, 1 - _nearest_length(lengths, index) / int(lengths[index]))
        scores[index] = 100 * math.exp(brevity + logs[index]) if any_word[index] else 0.0
    return scores


def _nearest_length(lengths: NDArray[np.int64], index: int) -> int:
    """Return the length of another text that is nearest to one text's length, the shorter one of two."""
    away = np.abs(lengths - lengths[index]) * 2 + (lengths > lengths[index])
    away[index] = np.iinfo(np.int64).max
    return int(lengths[np.argmin(away)])


def outcomes(groups: Sequence[Group], metrics: Sequence[str], tools: MetricTools) -> Iterator[Outcome]:
    """Yield what n-grams say of each group's texts."""
    measures = {
        "diversity": _textbook if tools.settings.diversity == "textbook" else _diversity,
        "repetition": _repetition,
        "distinct": _distinct,
        "self_bleu": _self_bleu,
    }
    with progress.task("texts", total=len(groups), unit="groups") as advance:
        for group in groups:
            texts = [text.text for text in group.texts]
            for metric in metrics:
                yield from measures[metric](group, texts)
            advance(1)


def _diversity(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    counts = ngram_counts(texts)
    yield outcome_of_sums(
        "diversity",
        group,
        counts,
        diversity_of_sums,
        n=len(texts),
        counts={"shorter than five words": int((counts[:, -1] == 0).sum())},
        signature=SIGNATURES["simctg"],
        published=lambda sums: _published(sums).diversity,
    )


def _textbook(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    values = textbook_diversity(texts)
    counts = {"shorter than four words": int(np.isnan(values).sum())}
    yield mean_outcome("diversity", group, values, signature=SIGNATURES["textbook"], counts=counts)


def _repetition(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    counts = ngram_counts(texts)
    for index, n in enumerate(ORDERS):
        yield outcome_of_sums(
            f"rep_{n}",
            group,
            counts,
            partial(_rate, index),
            n=len(texts),
            signature=f"rep-{n}|tokens:whitespace|last:dropped|rounded2",
            published=partial(_published_rate, n),
        )


def _rate(index: int, sums: Floats) -> Floats:
    return np.asarray(repetition_of_sums(sums)[..., index])


def _published_rate(n: int, sums: Floats) -> float | None:
    return _published(sums).rep[n]


def _distinct(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    for n in (1, 2):
        yield outcome_of_runs(
            f"distinct_{n}",
            group,
            [distinct([texts[index] for index in run], n) for run in group.runs],
            n=sum(len(text.split()) >= n for text in texts),
            note="falls with the number of texts: only equal numbers compare, and there is no interval",
            signature=f"distinct-{n}|tokens:whitespace",
        )


def _self_bleu(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    scores = [self_bleus([texts[index] for index in run]) for run in group.runs]
    defined = [run[~np.isnan(run)].tolist() for run in scores]
    yield outcome_of_runs(
        "self_bleu",
        group,
        [math.fsum(run) / len(run) if run else math.nan for run in defined],
        n=sum(map(len, defined)),
        counts={"shorter than four words": sum(len(text.split()) < max(ORDERS) for text in texts)},
        note="rises with the number of texts; each bears on all others, so there is no interval",
        signature=f"self-bleu|tokens:whitespace|n:1-4|smooth:floor[{EPSILON}]|ref-len:closest",
    )
