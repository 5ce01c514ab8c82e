"""A verdict in plain text: the last block between tags that carry the comparison's code.

No text that is judged can contain the code, so nothing that an answer quotes from it can be such a block.
What stands around the block is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from guard_eval.records import Choice
from guard_eval.rubric import CRITERIA

_DECORATION = " \t*_`'\"“”[]()."
_BULLET = re.compile(r"^[\s>#*•–-]*(?:\d+[.)]\s*)?")
_REASONS = re.compile(r"\s+(?:because|since|as|but)\b.*|\s*[;,(–—].*|\.\s.*|\s-\s.*", re.DOTALL)

_JUDGMENTS: dict[str, Choice] = {
    **dict.fromkeys(("method a is better", "a is better", "method a", "a"), "A"),
    **dict.fromkeys(("method b is better", "b is better", "method b", "b"), "B"),
    **dict.fromkeys(
        ("both methods are similar", "both are similar", "similar", "both", "tie", "equal"), "tie"
    ),
}


def has_block(content: str, code: str) -> bool:
    """Return whether an opening tag with the code stands in `content`."""
    return _opening(code).search(content) is not None


def read_block(content: str, names: Sequence[str], code: str) -> dict[str, Choice] | None:
    r"""Return the verdict of the last block that gives one choice for every criterion, or None.

    Args:
        content: The model's answer.
        names: The criteria that were asked; other lines are not read.
        code: What the tags must carry.

    >>> read_block("<verdict-1f>\nFluency: Method A is better\n</verdict-1f>", ["fluency"], "1f")
    {'fluency': 'A'}
    """
    starts = [match.end() for match in _opening(code).finditer(content)]
    for start, end in reversed(list(pairwise([*starts, len(content)]))):
        inside = _closing(code).split(content[start:end], maxsplit=1)[0]
        if (found := _choices(inside, names)) is not None:
            return found
    return None


def _opening(code: str) -> re.Pattern[str]:
    return re.compile(rf"<\s*verdict-{re.escape(code)}[0-9a-f]*\s*>", re.IGNORECASE)


def _closing(code: str) -> re.Pattern[str]:
    return re.compile(rf"<\s*/\s*verdict(?:-{re.escape(code)}[0-9a-f]*)?\s*>", re.IGNORECASE)


def _choices(block: str, names: Sequence[str]) -> dict[str, Choice] | None:
    wanted = {_plain(alias): name for name in names for alias in (name, _title(name))}
    found: dict[str, Choice] = {}
    for line in block.splitlines():
        label, colon, said = _BULLET.sub("", line).partition(":")
        name = wanted.get(_plain(label))
        if name is None or not colon:
            continue
        choice = _judgment(said)
        if choice is None or found.get(name, choice) != choice:
            return None  # it says nothing, or two things
        found[name] = choice
    return {name: found[name] for name in names} if len(found) == len(set(names)) else None


def _judgment(said: str) -> Choice | None:
    words = " ".join(said.casefold().split()).strip(_DECORATION)
    return _JUDGMENTS.get(words) or _JUDGMENTS.get(_REASONS.sub("", words).strip(_DECORATION))


def _title(name: str) -> str:
    return CRITERIA[name].title if name in CRITERIA else name


def _plain(words: str) -> str:
    return "".join(letter for letter in words.casefold() if letter.isalnum())
