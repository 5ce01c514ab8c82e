"""Compare headings of tables without case, spaces and signs."""

import re
from collections.abc import Sequence
from functools import cache

_SIDES = frozenset(
    map(
        frozenset,
        (
            *("ab", "01", "12", "xy", "аб"),
            *(("left", "right"), ("first", "second"), ("one", "two"), ("won", "lost"), ("winner", "loser")),
            *(("winning", "losing"), ("chosen", "rejected"), ("preferred", "rejected"), ("better", "worse")),
            *(("preferred", "dispreferred"), ("best", "worst")),
        ),
    )
)
"""Pairs of words that name two sides, such as left and right."""
_PREFIX = re.compile(
    r"\s*((inputs?|outputs?|answers?|player|assignment|spreadsheet|data|meta(data)?|vars|fields)[.:/])+",
    re.IGNORECASE,
)
"""The beginnings of headings in results of Mechanical Turk, oTree, Toloka and Gorilla, and of nested JSON."""


@cache
def simplify_heading(heading: str) -> str:
    """Return the letters and digits of a heading in lower case, without the prefixes of survey tools.

    >>> simplify_heading("Pair ID"), simplify_heading("Input.model_a")
    ('pairid', 'modela')
    """
    return "".join(filter(str.isalnum, _PREFIX.sub("", heading).casefold()))


def get_last_part(heading: str) -> str:
    """Return the last part of a heading of nested JSON. Other headings have spaces and stay as they are.

    >>> get_last_part("user.annotator"), get_last_part("1. Annotator")
    ('annotator', '1. Annotator')
    """
    return heading if " " in heading else heading.rpartition(".")[2]


def prefer_plain_headings(headings: Sequence[str]) -> list[str]:
    """Return the headings without those that have a prefix and are another heading without it.

    >>> prefer_plain_headings(["meta.winner", "winner", "meta.rater"])
    ['winner', 'meta.rater']
    """
    plain = {simplify_heading(name) for name in headings if not _PREFIX.match(name)}
    return [name for name in headings if not _PREFIX.match(name) or simplify_heading(name) not in plain]


@cache
def split_heading_words(heading: str) -> tuple[str, ...]:
    """Return the words and numbers of a heading in lower case, without the prefixes of survey tools.

    >>> split_heading_words("WorkTimeInSeconds 2"), split_heading_words("Answer.modelA")
    (('work', 'time', 'in', 'seconds', '2'), ('model', 'a'))
    """
    words = re.findall(r"[A-Z]*[^\W\d_A-Z]+|[A-Z]+|\d+", _PREFIX.sub("", heading))
    return tuple(map(str.casefold, words))


def differ_only_in_side(heading: str, other: str) -> bool:
    """Return whether two headings differ only in a word or a last letter for a side.

    >>> differ_only_in_side("model_a", "model_b"), differ_only_in_side("texta", "textb")
    (True, True)
    >>> differ_only_in_side("system1rank", "system2rank"), differ_only_in_side("model", "method")
    (True, False)
    """
    words, others = split_heading_words(heading), split_heading_words(other)
    different = [couple for couple in zip(words, others, strict=False) if couple[0] != couple[1]]
    if len(words) != len(others) or len(different) != 1:
        return False
    first, second = different[0]
    ends = (first[-1], second[-1]) if first[:-1] == second[:-1] else ()
    return frozenset((first, second)) in _SIDES or frozenset(ends) in _SIDES
