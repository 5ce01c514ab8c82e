"""Metrics of n-grams of whitespace tokens: diversity, repetition, distinct-n and self-BLEU.

Diversity is defined as in every published table of this line of research (simctg: Su et al. 2022 and their
successors): n-grams are counted per text and summed over texts, each text's last n-gram is left out, and each
repetition rate is rounded to two decimals of a percent before the product is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from guard_eval import progress
from guard_eval.estimate import Floats
from guard_eval.metrics.outcomes import Group, MetricTools, Outcome, outcome_of_runs, outcome_of_sums

ORDERS = (2, 3, 4)
TOO_SHORT = "no text has enough words; words are what stands between spaces"
EPSILON = 0.1
"""In self-BLEU a count of zero becomes this: smoothing method 1 of Chen and Cherry (2014)."""


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


def ngram_counts(texts: Sequence[str]) -> Floats:
    """Return each text's number of different and of all n-grams but the last, `[texts, 6]`, n = 2, 3, 4."""
    counts = np.zeros((len(texts), 2 * len(ORDERS)))
    for row, text in zip(counts, texts, strict=True):
        words = text.split()
        for index, n in enumerate(ORDERS):
            grams = Counter(ngrams(words[:-1], n))
            row[2 * index : 2 * index + 2] = len(grams), grams.total()
    return counts


def repetition_of_sums(sums: Floats) -> Floats:
    """Return rep-2, rep-3 and rep-4 in percent, `[..., 3]`, of sums of `ngram_counts`, `[..., 6]`."""
    with np.errstate(invalid="ignore"):
        return np.asarray(100 * (1 - sums[..., ::2] / sums[..., 1::2]))


def diversity_of_sums(sums: Floats) -> Floats:
    """Return `simctg` diversity in percent without rounding, `[...]`, of sums of `ngram_counts`."""
    return np.asarray(100 * np.prod(1 - repetition_of_sums(sums) / 100, axis=-1))


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
    lengths = Counter(map(len, words))
    logs = np.zeros(len(texts))
    any_word = np.zeros(len(texts), dtype=bool)
    for n in range(1, max_n + 1):
        counts = [Counter(ngrams(row, n)) for row in words]
        largest: dict[tuple[str, ...], tuple[int, int]] = {}
        for grams in counts:
            for gram, count in grams.items():
                first, second = largest.get(gram, (0, 0))
                largest[gram] = (count, first) if count > first else (first, max(second, count))
        for index in scored:
            matches = 0
            for gram, count in counts[index].items():
                first, second = largest[gram]
                matches += min(count, second if first == count else first)
            logs[index] += math.log((matches or EPSILON) / (len(words[index]) - n + 1)) / max_n
            any_word[index] |= n == 1 and matches > 0
    scores = np.full(len(texts), np.nan)
    for index in scored:
        length = len(words[index])
        others = [other for other, count in lengths.items() if other != length or count > 1]
        nearest = min(others, key=lambda other: (abs(other - length), other))
        brevity = min(0.0, 1 - nearest / length)
        scores[index] = 100 * math.exp(brevity + logs[index]) if any_word[index] else 0.0
    return scores


def outcomes(groups: Sequence[Group], metrics: Sequence[str], _: MetricTools) -> Iterator[Outcome]:
    """Yield what n-grams say of each group's texts."""
    with progress.task("texts", total=len(groups), unit="groups") as advance:
        for group in groups:
            texts = [text.text for text in group.texts]
            yield from _repetitions(group, texts, metrics)
            if "distinct" in metrics:
                yield from _distinct(group, texts)
            if "self_bleu" in metrics:
                yield _self_bleu(group, texts)
            advance(1)


def _repetitions(group: Group, texts: Sequence[str], metrics: Sequence[str]) -> Iterator[Outcome]:
    """Yield diversity, and the rates that it is made of."""
    counts = ngram_counts(texts)
    published = _published(group.sum_by_prompt(counts).sum(axis=0))
    facts: dict[str, Any] = {"n": len(texts), "reason": TOO_SHORT}
    if "diversity" in metrics:
        short = {"shorter than five words": int((counts[:, -1] == 0).sum())}
        signature = "simctg|tokens:whitespace|n:2-4|last:dropped|rep:rounded2"
        outcome = outcome_of_sums(
            "diversity", group, counts, diversity_of_sums, counts=short, signature=signature, **facts
        )
        yield replace(outcome, value=published.diversity)
    for index, n in enumerate(ORDERS if "repetition" in metrics else ()):
        signature = f"rep-{n}|tokens:whitespace|last:dropped|rounded2"
        rate = partial(_rate, index)
        outcome = outcome_of_sums(f"rep_{n}", group, counts, rate, signature=signature, **facts)
        yield replace(outcome, value=published.rep[n])


def _rate(index: int, sums: Floats) -> Floats:
    return np.asarray(repetition_of_sums(sums)[..., index])


def _distinct(group: Group, texts: Sequence[str]) -> Iterator[Outcome]:
    for n in (1, 2):
        yield outcome_of_runs(
            f"distinct_{n}",
            group,
            [distinct([texts[index] for index in run], n) for run in group.runs],
            n=sum(len(text.split()) >= n for text in texts),
            note="falls with the number of texts: only equal numbers compare, and there is no interval",
            reason=TOO_SHORT,
            signature=f"distinct-{n}|tokens:whitespace",
        )


def _self_bleu(group: Group, texts: Sequence[str]) -> Outcome:
    scores = [self_bleus([texts[index] for index in run]) for run in group.runs]
    defined = [run[~np.isnan(run)].tolist() for run in scores]
    return outcome_of_runs(
        "self_bleu",
        group,
        [math.fsum(run) / len(run) if run else math.nan for run in defined],
        n=sum(map(len, defined)),
        counts={"shorter than four words": sum(len(text.split()) < max(ORDERS) for text in texts)},
        note="rises with the number of texts; each bears on all others, so there is no interval",
        reason=TOO_SHORT if max(map(len, scores)) > 1 else "one text has no other to be compared with",
        signature=f"self-bleu|tokens:whitespace|n:1-4|smooth:floor[{EPSILON}]|ref-len:closest",
    )
