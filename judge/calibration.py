"""Pairs whose answer is known, made of the study's own texts: how a judge does on them tells its worth.

Four checks. A text against itself must be a tie. A text should be preferred to its own words in disorder. The
same pair the other way round should get the same verdict. And a text made longer with what says nothing new
should not be preferred to itself. None of this is a verdict of the study.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from guard_eval.records import BlindPair, Pair, content_id

Check = Literal["identical", "shuffled", "swapped", "padded"]
"""Which check a pair is for."""

Side = Literal["A", "B"]

ITEMS = 20
"""Pairs of the study from which the checks are made: 7 requests each."""

FILLER = (
    "There is more that could be said about this.",
    "And so it went, as such things do.",
    "In a way, that was all there was to it.",
    "One could go on like this for quite some time.",
)
"""Sentences that say nothing; how many of them, and which come first, follows from the seed."""

_FEWEST_WORDS = 4
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A pair to ask about.

    Attributes:
        check: What it is for.
        item: The study's pair it is made of, by its id.
        blind: The two texts in the order in which they are shown; its presentation is 0.
        target: On which side the text stands that the check is about: the whole one, the padded one, or the
            study's first method; of identical texts the one shown first.
    """

    check: Check
    item: str
    blind: BlindPair
    target: Side


def questions(pairs: Sequence[Pair], *, seed: int, items: int = ITEMS) -> list[Question]:
    """Return the calibration set of a study: the same for the same pairs and seed.

    Texts of too few words cannot be put into disorder; that check is left out for them.

    Args:
        pairs: The study's pairs.
        seed: The study's seed.
        items: From how many of them, drawn by the seed, it is made.
    """
    drawn = sorted(pairs, key=lambda pair: content_id(seed, "calibration", pair.id))[:items]
    return [question for pair in drawn for question in _of(pair, seed)]


def _of(pair: Pair, seed: int) -> Iterator[Question]:
    text = (pair.text_a, pair.text_b)[int(content_id(seed, "text", pair.id), 16) % 2]
    blind = BlindPair(presentation=0, prompt=pair.prompt, text_a=text, text_b=text)
    yield Question(check="identical", item=pair.id, blind=blind, target="A")
    disordered = shuffled(text, seed=seed)
    if disordered != text:
        yield from _both_orders("shuffled", pair, text, disordered)
    yield from _both_orders("swapped", pair, pair.text_a, pair.text_b)
    yield from _both_orders("padded", pair, padded(text, seed=seed), text)


def _both_orders(check: Check, pair: Pair, target: str, other: str) -> Iterator[Question]:
    for side, texts in (("A", (target, other)), ("B", (other, target))):
        blind = BlindPair(presentation=0, prompt=pair.prompt, text_a=texts[0], text_b=texts[1])
        yield Question(check=check, item=pair.id, blind=blind, target="A" if side == "A" else "B")


def shuffled(text: str, *, seed: int) -> str:
    """Return the words of `text` in an order drawn by the seed, or `text` where they are too few.

    >>> sorted(shuffled("one two three four", seed=1).split())
    ['four', 'one', 'three', 'two']
    """
    words = text.split()
    if len(set(words)) < _FEWEST_WORDS:
        return text
    order = sorted(range(len(words)), key=lambda place: content_id(seed, "word", place, text))
    mixed = [words[place] for place in order]
    return " ".join(mixed if mixed != words else mixed[::-1])


def padded(text: str, *, seed: int) -> str:
    """Return `text`, about half as long again: its own first sentences once more, and filler.

    >>> padded("A cat sat. It slept.", seed=1).startswith("A cat sat. It slept. A cat sat.")
    True
    """
    repeated: list[str] = []
    for sentence in _SENTENCE.split(text.strip()):
        repeated.append(sentence)
        if len(" ".join(repeated)) >= len(text) / 3:
            break
    start = int(content_id(seed, "filler", text), 16)
    filler = [FILLER[(start + place) % len(FILLER)] for place in range(2)]
    return " ".join([text.rstrip(), *repeated, *filler])
