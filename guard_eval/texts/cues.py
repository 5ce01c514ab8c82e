"""What in the texts themselves could tell a rater which system wrote them, or make a comparison unfair.

Names are never shown, but a text can give its system away: by the system's name in it, by an opening that the
system always uses, by Markdown, or by stopping in mid-sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from guard_eval.records import as_shown
from guard_eval.reporting.escaping import one_line

TextsByName = Mapping[str, Sequence[str]]
"""The texts of each system."""

OPENING_CHARACTERS = 12
OFTEN = 0.2
SELDOM = 0.02
"""A feature gives a system away if more than the first share of its texts have it, and less than the second
share of the other system's texts."""

_LEAST_DIFFERENCE = 0.1
_LEAST_TEXTS = 2
"""A difference between shares of unfinished texts is told if it is this large, and this many texts."""

_LEAST_SHARED = 3
"""Fewer texts with one opening can have it by chance."""
_END = re.compile(r"[.!?…。！？।؟۔︒]['\"”’»›)\]*_`}]*\s*$|[:;]['\")]\s*$|```\s*$|[|}\]>]\s*$")
_MARKDOWN = re.compile(
    r"^ {0,3}(?:#{1,6} \S|[*-] \S|\d{1,3}[.)] \S|>\s\S|```|\|.+\|\s*$)|\*\*[^*\n]+\*\*|`[^`\n]+`|\]\(https?:",
    re.MULTILINE,
)


def describe_endings(texts: TextsByName) -> str | None:
    """Return a sentence on texts that end in mid-sentence, if systems differ in it.

    >>> describe_endings({"A": ["It was", "Yes.", "And so", "No."], "B": ["No.", "Oh!"]})
    "50 % of A's texts end in mid-sentence, none of B's"
    """
    finished = {
        name: [_END.search(text) is not None for text in every if text.strip()]
        for name, every in texts.items()
    }
    shares = {name: each.count(False) / len(each) for name, each in finished.items() if each}
    difference = max(shares.values(), default=0) - min(shares.values(), default=0)
    if difference < _LEAST_DIFFERENCE or difference * max(map(len, finished.values())) < _LEAST_TEXTS:
        return None
    (first, share), *others = sorted(shares.items(), key=lambda item: -item[1])
    parts = [f"{_words(share)} of {_called(first)}'s texts end in mid-sentence"]
    parts += [f"{_words(share)} of {_called(name)}'s" for name, share in others]
    return ", ".join(parts)


def _words(share: float) -> str:
    return "none" if share == 0 else f"{max(1, round(100 * share))} %"


def _called(name: str) -> str:
    return one_line(name)


def find_cues(
    texts: TextsByName, compare: Sequence[Sequence[str]], *, own_names: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each feature by which raters could tell the systems of a comparison apart.

    Args:
        texts: The compared texts of each system.
        compare: Couples of systems.
        own_names: The systems whose names could stand in their texts.
    """
    told: set[tuple[str, str]] = set()
    for couple in compare:
        for name, other in (couple, couple[::-1]):
            cues = {
                "name": _find_name(name, texts[name], texts[other]) if name in own_names else "",
                "opening": _find_opening(name, texts[name], other, texts[other]),
                "markdown": _find_markdown(name, texts[name], other, texts[other]),
            }
            for kind, sentence in cues.items():
                if sentence and (name, kind) not in told:
                    told.add((name, kind))
                    yield sentence


def _find_name(name: str, texts: Sequence[str], others: Sequence[str]) -> str:
    """Return how many texts hold their system's name, if more of them do than of the other system's."""
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
    own, foreign = (sum(word.search(text) is not None for text in each) for each in (texts, others))
    if own * len(others) <= foreign * len(texts):
        return ""
    return (
        f"{own} of {len(texts)} texts by {_called(name)} hold its name, which tells raters who wrote them; "
        "write another word in its place"
    )


def _find_opening(name: str, texts: Sequence[str], other: str, others: Sequence[str]) -> str:
    """Return the opening that many of a system's texts share, and few of the other system's."""
    openings, foreign = (
        Counter(as_shown(text)[:OPENING_CHARACTERS] for text in each if text.strip())
        for each in (texts, others)
    )
    if not openings:
        return ""
    opening, count = openings.most_common(1)[0]
    if count < _LEAST_SHARED or count <= OFTEN * len(texts) or foreign[opening] >= SELDOM * len(others):
        return ""
    return (
        f"{count} of {len(texts)} texts by {_called(name)} begin with {opening!r}, and {foreign[opening]} of "
        f"{len(others)} by {_called(other)}: raters recognise the system"
    )


def _find_markdown(name: str, texts: Sequence[str], other: str, others: Sequence[str]) -> str:
    """Return how many of a system's texts have Markdown, if the other system writes none."""
    own, foreign = (sum(_MARKDOWN.search(text) is not None for text in each) for each in (texts, others))
    if own <= OFTEN * len(texts) or foreign >= SELDOM * len(others):
        return ""
    return (
        f"{own} of {len(texts)} texts by {_called(name)} have Markdown, and {foreign} of {len(others)} by "
        f"{_called(other)}: raters recognise the system by its headings, lists or bold words"
    )
