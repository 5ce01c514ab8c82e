"""What a table of verdicts must fulfil; each check names the lines, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pandas as pd

from analysis.verdicts.encoding import aligned, as_texts, text_series
from analysis.verdicts.reading import where
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

Texts = dict[str, pd.Categorical]
UNIQUE_IDS = (
    "The same ids stand in several datasets; put the dataset's name before each id, or leave the column "
    "dataset out if the pairs are the same"
)


def check_filled(texts: Texts, names: Sequence[str], index: pd.Index) -> None:
    """Refuse empty cells in the columns `names`."""
    for name in names:
        empty = texts[name].isna()
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
            for code, text in enumerate(texts[name].categories):
                seen = look(text, case=name in _IDS)
                other, like = exact.setdefault(seen, text), folded.setdefault(seen.casefold(), text)
                odd = "they differ in case alone, and count as two" if like != text else _odd(text)
                if other == text and (not odd or len(remarks) == _MOST_REMARKS):
                    more += odd != ""
                    continue
                position = f"{text!a} on {where(texts[name].codes == code, index)}"
                if other != text:
                    raise StudyError(
                        f"{name} is {other!a}, and {position}; write it one way, or give different things "
                        "names that look different"
                    )
                remarks.append(f"{name} is {f'{like!a}, and ' if like != text else ''}{position}: {odd}")
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
    """Refuse raters with a model's name if the table does not say what they are.

    Raises:
        StudyError: There is such a rater; the message names the remedies.
    """
    raters = texts["rater"]
    named = raters.isin([name for name in raters.categories if _MODEL.search(look(name))])
    if "rater_kind" in texts:
        named &= texts["rater_kind"].isna()
    if not named.any():
        return
    known = sorted(raters[named].unique())
    names = ", ".join(map(repr, known[:5])) + (f" and {len(known) - 5} more" if len(known) > 5 else "")
    raise StudyError(
        f"rater is {names} on {where(named, index)}, which looks like the name of a model, and nothing says "
        "what it is: add the option --rater-kind model (or person, if that is a person's name), or a column "
        f"rater_kind with {', '.join(KINDS[:3])} or {KINDS[3]} in every row"
    )


def prompt_hints(texts: Texts, index: pd.Index) -> list[str]:
    """Return which rows do not name their prompt if others do."""
    empty = texts["prompt_id"].isna() if "prompt_id" in texts else np.zeros(1, dtype=bool)
    if not empty.any() or empty.all():
        return []
    hint = (
        f"prompt_id is empty on {where(empty, index)}: each pair there counts as a prompt of its own, which "
        "is wrong if it shares its prompt with another; fill it in"
    )
    return [hint]


def check_methods(texts: Texts, index: pd.Index) -> None:
    """Refuse methods compared with themselves or called tie, and verdicts that name neither method."""
    a, b, verdict = aligned(*(texts[name] for name in ("method_a", "method_b", "verdict")))
    same = a == b
    if same.any():
        raise StudyError(
            f"method_a and method_b are both {a[np.argmax(same)]!r} on {where(same, index)}, a method "
            "compared with itself; name two"
        )
    called_tie = a.isin([TIE]) | b.isin([TIE])
    if called_tie.any():
        raise StudyError(
            f"a method is called {TIE!r} on {where(called_tie, index)}; that word is the verdict; rename it"
        )
    wrong = (verdict != a) & (verdict != b) & ~verdict.isin([TIE])
    if wrong.any():
        first = int(np.argmax(wrong))
        raise StudyError(
            f"the verdict {verdict[first]!r} names no method of its pair on {where(wrong, index)}; "
            f"write {a[first]!r}, {b[first]!r} or {TIE!r}"
        )


def kinds(texts: Texts, index: pd.Index, declared: RaterKind | None) -> pd.Categorical:
    """Return every row's kind of rater: the table's own, else `declared`, else unknown."""
    default = declared or UNKNOWN_KIND
    if "rater_kind" not in texts:
        return as_texts(pd.Series([default] * len(index)))
    column = texts["rater_kind"]
    unknown = column.notna() & ~column.isin(KINDS)
    if unknown.any():
        raise StudyError(
            f"rater_kind {column[np.argmax(unknown)]!r} is unknown on {where(unknown, index)}; write one of: "
            f"{', '.join(KINDS)}"
        )
    other = column.notna() & ~column.isin([default])
    if declared and other.any():
        raise StudyError(
            f"the table itself says rater_kind {column[np.argmax(other)]!r} on {where(other, index)}, and "
            f"{declared!r} was given for all of it; leave that out, or fix the column"
        )
    return as_texts(text_series(column, index).where(column.notna(), default))


def check_consistent(texts: Texts, index: pd.Index) -> None:
    """Refuse a pair in two datasets or of two prompts, and a rater of two kinds."""
    for key, value, remedy in (
        ("pair_id", "dataset", "give each pair one dataset"),
        ("pair_id", "prompt_id", "give each pair one prompt"),
        ("rater", "rater_kind", "give each rater one kind; people and models are never counted together"),
    ):
        if value not in texts:
            continue
        table = pd.DataFrame({"key": texts[key].codes, "value": texts[value].codes})
        several = table.drop_duplicates().groupby("key").size() > 1
        if not several.any():
            continue
        bad = several.to_numpy()[table["key"]]
        position = int(np.argmax(bad))
        group = texts[value][texts[key] == texts[key][position]].dropna().unique()
        raise StudyError(
            f"the {key} {texts[key][position]!r} has more than one {value} "
            f"({', '.join(map(repr, group[:5]))}; {where(bad, index)}); "
            f"{UNIQUE_IDS if value == 'dataset' and several.mean() >= 0.5 else remedy}"
        )


def shown_first(texts: Texts, index: pd.Index) -> pd.Categorical:
    """Name the method shown first: a cell may say it, or say a or b."""
    first, a, b = aligned(*(texts[name] for name in ("shown_first", "method_a", "method_b")))
    says_a, says_b = (
        first.isin([name for name in first.categories if name.lower() == letter]) for letter in "ab"
    )
    codes = [(first == a, a), (first == b, b), (says_a, a), (says_b, b)]
    named = np.select([is_so for is_so, _ in codes], [method.codes for _, method in codes], default=-1)
    wrong = first.notna() & (named < 0)
    if wrong.any():
        raise StudyError(
            f"shown_first {first[np.argmax(wrong)]!r} names no method of its pair on {where(wrong, index)}; "
            "write the method, a or b"
        )
    return pd.Categorical.from_codes(named, categories=first.categories)


def check_duplicates(texts: Texts, index: pd.Index) -> None:
    """Refuse two verdicts of a rater on one pair and criterion, unless they are of different showings."""
    a, b = (column.codes for column in aligned(texts["method_a"], texts["method_b"]))
    names = [name for name in ("pair_id", "rater", "criterion", "presentation") if name in texts]
    keys = pd.DataFrame({name: texts[name].codes for name in names})
    keys = keys.assign(low=np.minimum(a, b), high=np.maximum(a, b))
    if not keys.duplicated().any():
        return
    twice = keys.duplicated(keep=False).to_numpy()
    rater, pair, criterion = (texts[name][np.argmax(twice)] for name in ("rater", "pair_id", "criterion"))
    raise StudyError(
        f"rater {rater!r} judged pair {pair!r} on {criterion!r} more than once ({where(twice, index)}); keep "
        "the current verdict, or distinguish showings by a column 'presentation'"
    )
