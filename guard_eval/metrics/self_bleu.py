"""Self-BLEU (Zhu et al. 2018, Texygen): how much a strategy's texts are like one another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from guard_eval.metrics.distinct import Ids, ngrams
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.outcomes import Outcome, PointEstimate

EPSILON = 0.1
"""Used in place of a count of zero: smoothing method 1 of Chen and Cherry 2014."""


def self_bleus(texts: Sequence[str], *, max_n: int = 4) -> NDArray[np.float64]:
    """Return the BLEU of each text against all others, percent, `[texts]`; self-BLEU is their mean.

    Sentence BLEU (Papineni et al. 2002) of whitespace tokens, up to n-grams of `max_n`, each n with the same
    weight; a count of zero becomes `EPSILON`; the brevity penalty takes the length nearest to the text's own,
    of two the shorter. A text that shares no word with any other has 0. NaN for a text shorter than the
    longest n-gram, which others are still compared with, and for a text without others. Like distinct-n
    the mean depends on the number of texts, here rising with it: only equal numbers compare.

    The work is that of sorting all n-grams, not that of comparing all pairs of texts: the largest count of an
    n-gram in another text clips nothing, except in the text that has most of it, where it is the second
    largest.

    Raises:
        ValueError: `max_n` is below 1.

    >>> self_bleus(["the cat sat down", "the cat sat there"]).round(2)  # (3/4 · 2/3 · 1/2 · 0.1)^(1/4)
    array([39.76, 39.76])
    """
    if max_n < 1:
        raise ValueError(f"max_n must be at least 1, not {max_n}")
    lengths = np.array([len(text.split()) for text in texts], dtype=np.int64)
    chosen = (lengths >= max_n) & (len(texts) > 1)
    scores = np.full(len(texts), np.nan)
    if chosen.any():
        matches = np.stack([_clipped(*ngrams(texts, n), len(texts))[chosen] for n in range(1, max_n + 1)])
        scores[chosen] = 100 * _bleu(matches, lengths[chosen], _nearest(lengths)[chosen])
    return scores


def _clipped(grams: Ids, owners: Ids, texts: int) -> Ids:
    """Return Σ over its n-grams of min(count in the text, largest count in another text), `[texts]`."""
    cells, counts = np.unique(grams * texts + owners, return_counts=True)
    order = np.lexsort((counts, cells // texts))
    gram, owner, count = cells[order] // texts, cells[order] % texts, counts[order]
    # Counts rise within an n-gram, so its last cell is the text that has most of it, and the cell before that
    # the second most, if it is of the same n-gram.
    most = np.append(gram[1:] != gram[:-1], [True] * bool(len(gram)))
    before = np.concatenate([[False], gram[1:] == gram[:-1]])[: len(gram)]
    second = np.where(before, np.roll(count, 1), 0)
    clipped = np.where(most, second, count)
    # Sums of whole numbers below 2⁵³ are exact in the floats that bincount makes of weights.
    return np.bincount(owner, weights=clipped, minlength=texts).astype(np.int64)


def _nearest(lengths: Ids) -> Ids:
    """Return the length of another text that is nearest to each text's, of two the shorter, `[texts]`."""
    order = np.argsort(lengths, kind="stable")
    ranked = lengths[order]
    below, above = np.diff(ranked, prepend=-(1 << 40)), np.diff(ranked, append=1 << 40)
    nearest = np.empty_like(lengths)
    nearest[order] = np.where(below <= above, ranked - below, ranked + above)
    return nearest


def _bleu(matches: Ids, lengths: Ids, references: Ids) -> NDArray[np.float64]:
    """Return BLEU between 0 and 1, `[texts]`, of clipped counts `[max_n, texts]` and the two lengths."""
    totals = lengths - np.arange(len(matches))[:, None]
    precisions = np.where(matches > 0, matches, EPSILON) / totals
    brevity = np.exp(np.minimum(0.0, 1 - references / lengths))
    return np.where(matches[0] > 0, brevity * np.exp(np.log(precisions).mean(axis=0)), 0.0)


def self_bleu_outcomes(group: Group) -> list[Outcome]:
    """Return self-BLEU of a group."""
    values = self_bleus([text.text for text in group.texts])
    defined = values[~np.isnan(values)].tolist()
    short = sum(len(text.text.split()) < 4 for text in group.texts)
    return [
        PointEstimate(
            metric="self_bleu",
            value=math.fsum(defined) / len(defined) if defined else None,
            n=len(defined),
            counts=group.counts | nonzero({"shorter than four words": short}),
            note="rises with the number of texts; each bears on all others, so there is no interval",
            signature=f"self-bleu|tokens:whitespace|n:1-4|smooth:floor[{EPSILON}]|ref-len:closest",
        )
    ]
