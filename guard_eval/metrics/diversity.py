"""Diversity and repetition as this line of research publishes them.

The signature `simctg` stands for the definition behind every published table (Su et al. 2022 and their
successors), which is not the textbook's: n-grams of whitespace tokens, counted per text and summed over
texts; each text's last n-gram is left out; each repetition rate is rounded to two decimals of a percent
before the product is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

SIGNATURE = "simctg|tokens:whitespace|n:2-4|last:dropped|rep:rounded2"


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
    signature: str = SIGNATURE


def diversity(texts: Sequence[str]) -> Diversity:
    """Return the diversity of `texts`; None where they are too short to have any n-gram.

    >>> diversity(["the cat saw the cat and ran"]).rep  # 5 bigrams counted, 4 different; 4 of 4; 3 of 3
    {2: 20.0, 3: 0.0, 4: 0.0}
    >>> diversity(["the cat saw the cat and ran"]).diversity
    80.0
    """
    tokens = [text.strip().split() for text in texts]
    rep = {n: _repetition(tokens, n) for n in (2, 3, 4)}
    rates = [rate for rate in rep.values() if rate is not None]
    value = round(100 * prod(1 - rate / 100 for rate in rates), 2) if len(rates) == len(rep) else None
    return Diversity(texts=len(texts), diversity=value, rep=rep)


def _repetition(tokens: Sequence[Sequence[str]], n: int) -> float | None:
    unique = total = 0
    for words in tokens:
        # The published code takes len(words) − n n-grams, one fewer than there are; published figures depend
        # on it.
        grams = [tuple(words[start : start + n]) for start in range(len(words) - n)]
        unique += len(set(grams))
        total += len(grams)
    return round(100 * (1 - unique / total), 2) if total else None
