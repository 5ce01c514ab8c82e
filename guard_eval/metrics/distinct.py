"""Distinct-n (Li et al. 2016): how many different n-grams a set of texts has for its length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from guard_eval.metrics.groups import Group
from guard_eval.metrics.outcomes import Outcome, PointEstimate

Ids = NDArray[np.int64]


def distinct(texts: Sequence[str], n: int, *, level: float = 0.95) -> PointEstimate:
    """Return the different n-grams of all texts together over all their n-grams (Li et al. 2016).

    Tokens are separated by whitespace. The value falls as texts are added, since n-grams recur from
    text to text: only equal numbers of texts of about equal length compare, and the interval is that of the
    value at this number of texts.

    The interval is the delete-one jackknife's over the texts that have an n-gram: value ± t · s, with one
    degree of freedom fewer than texts, cut at 0 and 100. Its variance is too large rather than too small
    (Efron and Stein 1981). There is none of fewer than two texts, nor where every deletion gives the same.

    Raises:
        ValueError: `n` is below 1, or `level` not between 0 and 1.

    >>> result = distinct(["a b a", "a c"], 1)  # a, b, c of five
    >>> result.value, result.n
    (60.0, 2)
    """
    if n < 1 or not 0 < level < 1:
        raise ValueError(f"n must be at least 1 and level between 0 and 1, not {n} and {level}")
    grams, owners = ngrams(texts, n)
    per_text = np.bincount(owners, minlength=len(texts))
    has_any = per_text > 0
    unique, total = int(grams.max(initial=-1)) + 1, len(grams)
    value = 100 * unique / total if total else None
    found = PointEstimate(
        metric=f"distinct_{n}",
        value=value,
        n=int(has_any.sum()),
        note="falls with the number of texts: only equal numbers compare",
        signature=f"distinct-{n}|tokens:whitespace|jackknife:texts,t",
    )
    if value is None or found.n < 2:
        return found
    without = np.where(
        has_any, (unique - _alone(grams, owners, len(texts))) / np.maximum(total - per_text, 1), np.nan
    )
    return jackknife(found, 100 * without, level)


def jackknife(found: PointEstimate, without: NDArray[np.float64], level: float) -> PointEstimate:
    """Return a value with its delete-one interval, of its values without each text (NaN: none)."""
    half = _half_width(without[~np.isnan(without)], level)
    if half is None or found.value is None:
        return replace(found, low=None, high=None, without=without)
    low, high = max(0.0, found.value - half), min(100.0, found.value + half)
    return replace(found, low=low, high=high, without=without)


def ngrams(texts: Sequence[str], n: int) -> tuple[Ids, Ids]:
    """Return every n-gram of every text as a number, and the number of its text, `[grams]` each.

    Equal n-grams have equal numbers, from 0 without a gap; they stand text after text, in order.
    """
    numbers: dict[str, int] = {}
    words = [[numbers.setdefault(word, len(numbers)) for word in text.split()] for text in texts]
    tokens = np.array([token for row in words for token in row], dtype=np.int64)
    owners = np.repeat(np.arange(len(words)), [len(row) for row in words])
    grams = tokens
    for length in range(2, n + 1):
        # An (n − 1)-gram and the token after it make an n-gram; some of them reach into the next text.
        pairs = grams[:-1] * len(numbers) + tokens[length - 1 :]
        grams = np.unique(pairs, return_inverse=True)[1] if len(pairs) else pairs
        if len(grams) == 0:
            break
    starts = owners[: len(grams)]
    inside = starts == owners[len(owners) - len(grams) :]
    return np.unique(grams[inside], return_inverse=True)[1].astype(np.int64), starts[inside]


def _alone(grams: Ids, owners: Ids, texts: int) -> Ids:
    """Return how many n-grams each text alone has, `[texts]`: so many are lost with it."""
    first, last = np.full(grams.max() + 1, texts), np.full(grams.max() + 1, -1)
    np.minimum.at(first, grams, owners)
    np.maximum.at(last, grams, owners)
    return np.bincount(first[first == last], minlength=texts)


def _half_width(without: NDArray[np.float64], level: float) -> float | None:
    """Return t · s from the values with one text left out each; None if they do not differ."""
    n = len(without)
    variance = (n - 1) / n * float(((without - without.mean()) ** 2).sum())
    if variance <= 1e-20:
        return None
    return float(special.stdtrit(n - 1, 0.5 + level / 2)) * math.sqrt(variance)


def distinct_outcomes(group: Group, level: float) -> list[Outcome]:
    """Return distinct-1 and distinct-2 of a group with their own intervals."""
    texts = [text.text for text in group.texts]
    found = [replace(distinct(texts, n, level=level), counts=group.counts) for n in (1, 2)]
    return [one if one.without is None else replace(one, without=_of_prompts(group, one)) for one in found]


def _of_prompts(group: Group, found: PointEstimate) -> NDArray[np.float64]:
    """Return the values without each prompt, `[prompts]`: the whole value where it has no text."""
    assert found.without is not None
    values = np.full(len(group.prompts), found.value, dtype=np.float64)
    values[group.places] = np.where(np.isnan(found.without), values[group.places], found.without)
    return values
