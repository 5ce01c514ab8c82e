"""Find features of texts that could reveal their system to raters, or make a comparison unfair.

Raters never see the names of systems. But a text can reveal its system if it contains the system's name, has
the system's usual opening, has Markdown, or stops in mid-sentence.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from guard_eval.lookalike import make_name_pattern
from guard_eval.records import clean_for_raters
from guard_eval.reporting.escaping import join_lines

TextsByName = Mapping[str, Sequence[str]]
"""The texts of each system."""

NAME = "hold its name"
"""The feature that reveals a system if it is more frequent than in the other system's texts."""
OPENING_CHARACTERS = 12
OFTEN = 0.2
SELDOM = 0.02
"""A feature reveals a system if the share of the system's texts with this feature is above `OFTEN`, and the
share of the other system's texts is below `SELDOM`."""

_LEAST_DIFFERENCE = 0.1
_LEAST_TEXTS = 2
"""A difference between two systems' shares of unfinished texts is reported from this number of texts on.

The shares must also differ by `_LEAST_DIFFERENCE`."""

_LEAST_SHARED = 3
"""An opening is reported if at least this number of texts share it. Fewer may do so by chance."""
_END = re.compile(r"[.!?…。！？।؟۔︒]['\"”’»›)\]*_`}]*\s*$|[:;]['\")]\s*$|```\s*$|[|}\]>]\s*$")
_MARKDOWN = re.compile(
    r"^ {0,3}(?:#{1,6} \S|[*-] \S|\d{1,3}[.)] \S|>\s\S|```|\|.+\|\s*$)|\*\*[^*\n]+\*\*|`[^`\n]+`|\]\(https?:",
    re.MULTILINE,
)


def describe_unfinished_texts(texts: TextsByName) -> str | None:
    """Describe the shares of texts that end in mid-sentence, if systems differ.

    >>> describe_unfinished_texts({"A": ["It was", "Yes.", "And so", "No."], "B": ["No.", "Oh!"]})
    "50 % of A's texts end in mid-sentence, none of B's"
    """
    written = {name: list(filter(str.strip, every)) for name, every in texts.items()}
    shares = {name: 1 - _count_matches(_END, every) / len(every) for name, every in written.items() if every}
    difference = max(shares.values(), default=0) - min(shares.values(), default=0)
    if difference < _LEAST_DIFFERENCE or difference * max(map(len, written.values())) < _LEAST_TEXTS:
        return None
    (first, share), *others = sorted(shares.items(), key=lambda item: -item[1])
    parts = [f"{_format_percent(share)} of {join_lines(first)}'s texts end in mid-sentence"]
    parts += [f"{_format_percent(share)} of {join_lines(name)}'s" for name, share in others]
    return ", ".join(parts)


def _format_percent(share: float) -> str:
    return "none" if share == 0 else f"{max(1, round(100 * share))} %"


def _count_matches(pattern: re.Pattern[str], texts: Sequence[str]) -> int:
    """Count the texts in which a pattern matches."""
    return sum(pattern.search(text) is not None for text in texts)


def describe_revealing_cues(
    texts: TextsByName, compare: Sequence[Sequence[str]], *, own_names: Collection[str]
) -> Iterator[str]:
    """Yield a sentence for each feature by which raters could tell the systems of a comparison apart.

    Args:
        texts: The compared texts of each system.
        compare: Couples of systems.
        own_names: The systems whose texts could contain the system's name.
    """
    cleaned = {name: [clean_for_raters(text) for text in every] for name, every in texts.items()}
    described: set[tuple[str, str]] = set()
    for couple in compare:
        for name, other in (couple, couple[::-1]):
            texts_of_both = cleaned[name], cleaned[other]
            sizes = [len(every) for every in texts_of_both]
            for cue, pattern in _list_cues(name, cleaned[name], has_own_name=name in own_names).items():
                count, foreign = [_count_matches(pattern, every) for every in texts_of_both]
                if cue == NAME:
                    reveals = count * sizes[1] > foreign * sizes[0]
                else:
                    reveals = count > OFTEN * sizes[0] and foreign < SELDOM * sizes[1]
                if reveals and (name, cue) not in described:
                    described.add((name, cue))
                    yield (
                        f"{count} of {sizes[0]} texts by {join_lines(name)} {cue}, and {foreign} of "
                        f"{sizes[1]} by {join_lines(other)}: raters recognise the system"
                    )


def _list_cues(name: str, texts: Sequence[str], *, has_own_name: bool) -> dict[str, re.Pattern[str]]:
    """Return the features that could reveal a system: a description and a pattern for each."""
    cues = {"have Markdown": _MARKDOWN}
    if has_own_name:
        cues[NAME] = make_name_pattern([name])
    openings = Counter(text[:OPENING_CHARACTERS] for text in texts if text)
    for opening, count in openings.most_common(1):
        if count >= _LEAST_SHARED:
            is_whole_text = len(opening) < OPENING_CHARACTERS
            end = r"\Z" if is_whole_text else ""
            cues[f"begin with {opening!r}"] = re.compile(rf"\A{re.escape(opening)}{end}")
    return cues
