"""Diversity and repetition, in two definitions that are never mixed.

`simctg` gave every published table of this line of research (Su et al. 2022 and their successors):
n-grams of whitespace tokens, counted per text and summed over texts; each text's last n-gram is left out;
each repetition rate is rounded to two decimals of a percent before the product is taken. `textbook` is the
paper's Appendix D as written: each text's own product over all its n-grams, and the mean over texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.outcomes import Outcome, ratio_of, sum_of

ORDERS = (2, 3, 4)

SIGNATURES = {
    "simctg": "simctg|tokens:whitespace|n:2-4|last:dropped|rep:rounded2",
    "textbook": "textbook|tokens:whitespace|n:2-4|last:kept|mean over texts",
}


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """Diversity of a set of texts, in percent, with the repetition rates it is made of.

    Attributes:
        texts: How many texts were counted.
        diversity: ∏ₙ (1 − rep-n), n = 2, 3, 4.
        rep: rep-2, rep-3 and rep-4: the share of n-grams that repeat an earlier one of the same text.
        signature: The definition.
    """

    texts: int
    diversity: float | None
    rep: dict[int, float | None]
    signature: str = SIGNATURES["simctg"]


def diversity(texts: Sequence[str]) -> Diversity:
    """Return the `simctg` diversity of `texts`; None where they are too short to have any n-gram.

    >>> diversity(["the cat saw the cat and ran"]).rep  # 5 bigrams counted, 4 different; 4 of 4; 3 of 3
    {2: 20.0, 3: 0.0, 4: 0.0}
    >>> diversity(["the cat saw the cat and ran"]).diversity
    80.0
    """
    return from_counts(ngram_counts(texts), texts=len(texts))


def ngram_counts(texts: Sequence[str], *, dropped: int = 1) -> NDArray[np.float64]:
    """Return each text's different and counted n-grams, `[texts, 6]`, n = 2, 3, 4.

    Args:
        texts: Split at white space.
        dropped: How many n-grams at a text's end are left out. The published code takes one fewer than there
            are; its figures depend on it.
    """
    counts = [_counts(text.split(), dropped) for text in texts]
    return np.array(counts, dtype=np.float64).reshape(len(texts), 6)


def _counts(words: list[str], dropped: int) -> list[int]:
    """Return different and counted n-grams of one text.

    A longer n-gram that occurs twice begins with a pair that does, so it is searched for only among those.
    """
    two, three, four = (max(0, len(words) - n + 1 - dropped) for n in ORDERS)
    pairs = list(pairwise(words))[:two]
    first: dict[tuple[str, str], int] = {}
    place_of = first.setdefault
    again = {
        place
        for here, pair in enumerate(pairs)
        if (first_place := place_of(pair, here)) != here
        for place in (first_place, here)
    }
    if not again:
        return [two, two, three, three, four, four]
    threes = [(pairs[place], words[place + 2]) for place in again if place < three]
    fours = [(pairs[place], pairs[place + 2]) for place in again if place < four]
    return [
        len(first),
        two,
        three - len(threes) + len(set(threes)),
        three,
        four - len(fours) + len(set(fours)),
        four,
    ]


def from_counts(counts: NDArray[np.float64], *, texts: int) -> Diversity:
    """Return the diversity that rows of `ngram_counts` come to."""
    sums = counts.sum(axis=0).tolist()
    rep = {
        n: round(100 * (1 - unique / total), 2) if total else None
        for n, unique, total in zip(ORDERS, sums[::2], sums[1::2], strict=True)
    }
    rates = [rate for rate in rep.values() if rate is not None]
    value = round(100 * prod(1 - rate / 100 for rate in rates), 2) if len(rates) == len(rep) else None
    return Diversity(texts=texts, diversity=value, rep=rep)


def diversity_of_sums(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `simctg` diversity, percent, `[...]`, of sums of `ngram_counts`, `[..., 6]`, or NaN."""
    rates = np.stack([repetition_of_sums(sums, n) for n in ORDERS], axis=-1)
    product: NDArray[np.float64] = 100 * np.prod(1 - rates / 100, axis=-1)
    return product


def repetition_of_sums(sums: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return rep-n, percent and rounded as published, `[...]`, of sums of `ngram_counts`, `[..., 6]`."""
    place = 2 * ORDERS.index(n)
    with np.errstate(invalid="ignore"):
        return np.round(100 * (1 - sums[..., place] / sums[..., place + 1]), 2)


def textbook_diversity(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return each text's own DIV = ∏ₙ unique n-grams / n-grams, percent (Appendix D), `[texts]`.

    NaN below four words, where a text has no 4-gram.

    >>> textbook_diversity(["the cat saw the cat and ran"])  # 5/6 · 5/5 · 4/4
    array([83.33333333])
    """
    counts = ngram_counts(texts, dropped=0)
    with np.errstate(invalid="ignore"):
        shares: NDArray[np.float64] = 100 * (counts[:, ::2] / counts[:, 1::2]).prod(axis=1)
    return shares


def diversity_outcomes(group: Group, definition: str) -> list[Outcome]:
    """Return diversity of a group as `definition` (of `SIGNATURES`) has it."""
    texts = [text.text for text in group.texts]
    if definition == "textbook":
        values = textbook_diversity(texts)
        defined = ~np.isnan(values)
        rows = group.summed(np.stack([np.where(defined, values, 0), defined], axis=1))
        counts = group.counts | nonzero({"shorter than four words": int((~defined).sum())})
        signature = SIGNATURES[definition]
        n = int(defined.sum())
        return [ratio_of("diversity", rows, n=n, counts=counts, signature=signature)]
    counted = ngram_counts(texts)
    whole = from_counts(counted, texts=len(texts))
    short = int((counted[:, -1] == 0).sum())
    return [
        sum_of(
            "diversity",
            group.summed(counted),
            diversity_of_sums,
            n=len(texts),
            counts=group.counts | nonzero({"shorter than five words": short}),
            signature=whole.signature,
            value=whole.diversity,
        )
    ]


def repetition_outcomes(group: Group) -> list[Outcome]:
    """Return how often n-grams repeat, for each n of `ORDERS`."""
    counted = ngram_counts([text.text for text in group.texts])
    whole = from_counts(counted, texts=len(group.texts))
    rows = group.summed(counted)
    return [
        sum_of(
            f"rep_{n}",
            rows,
            lambda sums, n=n: repetition_of_sums(sums, n),  # type: ignore[misc]
            n=len(group.texts),
            counts=group.counts,
            signature=f"rep-{n}|tokens:whitespace|last:dropped|rounded2",
            value=whole.rep[n],
        )
        for n in ORDERS
    ]
