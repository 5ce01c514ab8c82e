"""What a table of verdicts must fulfil; each check names the lines, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.encoding import TextCodes, combined, recoded
from analysis.verdicts.reading import places
from guard_eval.errors import StudyError
from guard_eval.lookalike import hides, look
from guard_eval.records import TIE, RaterKind

UNKNOWN_KIND = "unknown"
"""Raters of whom nobody has said whether they are people or models."""
KINDS: tuple[str, ...] = (*get_args(RaterKind), UNKNOWN_KIND)

_IDS = frozenset({"pair_id", "prompt_id"})
_THINGS = (("dataset",), ("method_a", "method_b"), ("criterion",), ("rater",), ("pair_id",), ("prompt_id",))
"""Columns that name things, those that name the same things together."""
_MISSING = frozenset({"nan", "none", "null", "na", "n/a", "<na>", "nat", "undefined"})
_MOST_REMARKS = 10
_MODEL = re.compile(
    r"(?<![a-z])(gpt|chatgpt|claude|llama|gemini|gemma|qwen|mi[sx]tral|deepseek|command-r|grok|llm|phi-?\d"
    r"|o[134](-mini|-preview|-pro)?$|(ai|model|llm)?[-_ ]?judge)(?![a-z])|^[\w.-]{2,}/[\w.-]{3,}$"
)
"""Names that people do not have, on what `look` returns; a name of the Hub has a slash."""

Texts = dict[str, TextCodes]
Mask = NDArray[np.bool_]


def check_filled(texts: Texts, names: Sequence[str], index: pd.Index) -> None:
    """Refuse empty cells in the columns `names`."""
    for name in names:
        empty = texts[name].codes < 0
        if empty.any():
            raise StudyError(f"{name} is empty on {where(empty, index)}; fill it in or remove the row")


def spelling(texts: Texts, index: pd.Index) -> list[str]:
    """Refuse names that look alike, which would be counted apart; return what is odd about others.

    Names that differ in case, white space, Unicode form (NFC or NFD, full width) or characters that cannot be
    seen look alike. The ids of pairs and prompts may differ in case alone, as ids made by programs do.
    """
    remarks: list[str] = []
    more = 0
    for names in _THINGS:
        exact: dict[str, str] = {}
        folded: dict[str, str] = {}
        for name in (name for name in names if name in texts):
            for code, text in enumerate(texts[name].texts):
                seen = look(text, case=name in _IDS)
                other, like = exact.setdefault(seen, text), folded.setdefault(seen.casefold(), text)
                odd = "they differ in case alone, and count as two" if like != text else _odd(text)
                if other == text and (not odd or len(remarks) == _MOST_REMARKS):
                    more += odd != ""
                    continue
                place = f"{text!a} on {where(texts[name].codes == code, index)}"
                if other != text:
                    raise StudyError(
                        f"{name} is {other!a}, and {place}; write it one way, or give different things names "
                        "that look different"
                    )
                remarks.append(f"{name} is {f'{like!a}, and ' if like != text else ''}{place}: {odd}")
    return [*remarks, *([f"{more} more names are odd in one of these ways"] if more else [])]


def _odd(text: str) -> str:
    """Return why a name that nothing else looks like is odd all the same, or nothing."""
    if text.strip().casefold() in _MISSING:
        return "a program's word for a missing value, which counts as a name here; fill it in if it is none"
    if text != " ".join(text.split()):
        return "it has white space at an end, or twice running"
    if hides(text):
        return "it has characters that cannot be seen"
    return ""


def refuse_unnamed_models(texts: Texts, index: pd.Index) -> None:
    """Refuse raters with a model's name where the table does not say what they are.

    Raises:
        StudyError: There is such a rater; the message names the remedies.
    """
    raters = texts["rater"]
    named = np.array([*(_MODEL.search(look(name)) is not None for name in raters.texts), False])[raters.codes]
    if "rater_kind" in texts:
        named &= texts["rater_kind"].codes < 0
    if not named.any():
        return
    found = sorted({raters.texts[code] for code in raters.codes[named]})
    names = ", ".join(map(repr, found[:5])) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
    raise StudyError(
        f"rater is {names} on {where(named, index)}, which looks like the name of a model, and nothing says "
        "what it is: add the option --rater-kind model (or person, if that is a person's name), or a column "
        f"rater_kind with {', '.join(KINDS[:3])} or {KINDS[3]} in every row"
    )


def prompt_hints(texts: Texts, index: pd.Index) -> list[str]:
    """Return which rows do not name their prompt where others do."""
    if "prompt_id" not in texts:
        return []
    empty = texts["prompt_id"].codes < 0
    if not empty.any() or empty.all():
        return []
    hint = (
        f"prompt_id is empty on {where(empty, index)}: each pair there counts as a prompt of its own, which "
        "is wrong if it shares its prompt with another; fill it in"
    )
    return [hint]


def check_methods(texts: Texts, index: pd.Index) -> None:
    """Refuse methods compared with themselves or called tie, and verdicts that name neither method."""
    (a, b, verdict), names = recoded([texts[name] for name in ("method_a", "method_b", "verdict")])
    tie = names.index(TIE) if TIE in names else -2
    same = a == b
    if same.any():
        raise StudyError(
            f"method_a and method_b are both {names[a[np.argmax(same)]]!r} on {where(same, index)}, a method "
            "compared with itself; name two"
        )
    called_tie = (a == tie) | (b == tie)
    if called_tie.any():
        raise StudyError(
            f"a method is called {TIE!r} on {where(called_tie, index)}; that word is the verdict; rename it"
        )
    wrong = (verdict != a) & (verdict != b) & (verdict != tie)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise StudyError(
            f"the verdict {names[verdict[first]]!r} names no method of its pair on {where(wrong, index)}; "
            f"write {names[a[first]]!r}, {names[b[first]]!r} or {TIE!r}"
        )


def kinds(texts: Texts, index: pd.Index, given: RaterKind | None) -> TextCodes:
    """Return every row's kind of rater: the table's own, else `given`, else unknown."""
    default = given or UNKNOWN_KIND
    if "rater_kind" not in texts:
        return TextCodes(codes=np.zeros(len(index), dtype=np.int64), texts=(default,))
    (own, _), names = recoded(
        [texts["rater_kind"], TextCodes(codes=np.zeros(0, dtype=np.int64), texts=(default,))]
    )
    unknown = np.array([*(name not in KINDS for name in names), False])[own]
    if unknown.any():
        value = names[own[np.argmax(unknown)]]
        raise StudyError(
            f"rater_kind {value!r} is unknown on {where(unknown, index)}; write one of: {', '.join(KINDS)}"
        )
    place = names.index(default)
    other = (own >= 0) & (own != place)
    if given and other.any():
        value = names[own[np.argmax(other)]]
        raise StudyError(
            f"the table itself says rater_kind {value!r} on {where(other, index)}, and {given!r} was given "
            "for all of it; leave that out, or fix the column"
        )
    return TextCodes(codes=np.where(own < 0, place, own), texts=names)


def ids_repeat(texts: Texts) -> bool:
    """Return whether half of the pairs' ids or more stand in several datasets."""
    pairs, datasets = texts["pair_id"], texts["dataset"]
    found = np.unique(np.stack([pairs.codes, datasets.codes]), axis=1)[0]
    several = np.bincount(found, minlength=len(pairs.texts)) > 1
    return bool(several.any()) and 2 * int(several.sum()) >= len(pairs.texts)


def check_consistent(texts: Texts, index: pd.Index, *, ids: str = "give each pair one dataset") -> None:
    """Refuse a pair in two datasets, in which `ids` is the remedy, and a rater of two kinds."""
    for key, value, remedy in (
        ("pair_id", "dataset", ids),
        ("pair_id", "prompt_id", "give each pair one prompt"),
        ("rater", "rater_kind", "give each rater one kind; people and models are never counted together"),
    ):
        if value not in texts:
            continue
        keys, values = texts[key], texts[value]
        expected = np.zeros(len(keys.texts), dtype=np.int64)
        expected[keys.codes] = values.codes  # of a key with several the last remains, and others differ
        several = np.zeros(len(keys.texts), dtype=bool)
        several[keys.codes[values.codes != expected[keys.codes]]] = True
        if several.any():
            bad = several[keys.codes]
            name = keys.texts[keys.codes[np.argmax(bad)]]
            own = values.codes[bad & (keys.codes == keys.codes[np.argmax(bad)])]
            found = ", ".join(repr(values.texts[code]) for code in np.unique(own[own >= 0])[:5])
            raise StudyError(
                f"the {key} {name!r} has more than one {value} ({found}; {where(bad, index)}); {remedy}"
            )


def shown_first(texts: Texts, index: pd.Index) -> TextCodes:
    """Name the method shown first: a cell may say it, or say a or b."""
    (first, a, b), names = recoded([texts[name] for name in ("shown_first", "method_a", "method_b")])
    says_a, says_b = (np.array([*(name.lower() == letter for name in names), False]) for letter in "ab")
    named = np.select([first == a, first == b, says_a[first], says_b[first]], [a, b, a, b], default=-1)
    wrong = (first >= 0) & (named < 0)
    if wrong.any():
        value = names[first[np.argmax(wrong)]]
        raise StudyError(
            f"shown_first {value!r} names no method of its pair on {where(wrong, index)}; write the method, "
            "a or b"
        )
    return TextCodes(codes=named, texts=names)


def check_duplicates(texts: Texts, index: pd.Index) -> None:
    """Refuse two verdicts of a rater on one pair and criterion, unless they are of different showings."""
    (a, b), _ = recoded([texts[name] for name in ("method_a", "method_b")])
    parts = [texts[name].codes for name in ("pair_id", "rater", "criterion")]
    parts += [np.minimum(a, b), np.maximum(a, b)]
    if "presentation" in texts:
        parts.append(texts["presentation"].codes)
    key = pd.Series(combined(*parts))
    if not key.duplicated().any():
        return
    twice = key.duplicated(keep=False).to_numpy()
    rater, pair, criterion = (
        texts[name].texts[texts[name].codes[np.argmax(twice)]] for name in ("rater", "pair_id", "criterion")
    )
    raise StudyError(
        f"rater {rater!r} judged pair {pair!r} on {criterion!r} more than once ({where(twice, index)}); keep "
        "the current verdict, or distinguish showings by a column 'presentation'"
    )


def where(mask: Mask, index: pd.Index) -> str:
    """Return the lines or rows of a mask by number."""
    return places([int(place) for place in index[mask]], str(index.name))
