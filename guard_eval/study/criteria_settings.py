"""The `[criteria.NAME]` tables of study.toml: criteria of the study's own, for people and judges alike."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from guard_eval.rubric import COMPOSITE, CRITERIA, Criterion, check_name, spelling

Language = Literal["en", "de"]
"""Languages in which the app's wording is shipped."""

LONGEST_TITLE = 60
LONGEST_DEFINITION = 1000
"""Characters. The paper's longest definition has 201."""

RESERVED = frozenset({"rationale", COMPOSITE})
"""Names that an answer's other fields have, or a result across criteria."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_JOINERS = "\u200c\u200d"
"""Invisible, and part of the spelling of Persian, of Indian scripts and of emoji."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsContext:
    """What the tables of one study.toml need to know of each other and of their place while they are checked.

    Attributes:
        folder: The study's, in which files are read.
        criteria: Names of the criteria that the study defines itself.
    """

    folder: Path
    criteria: frozenset[str]


class SettingsTable(BaseModel):
    """A table of study.toml: unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


def known_names(info: ValidationInfo) -> list[str]:
    """Return the criteria that a study may name: the paper's and its own."""
    custom = info.context.criteria if isinstance(info.context, SettingsContext) else ()
    return list(dict.fromkeys((*CRITERIA, *sorted(custom))))


def _known_criterion(name: str, info: ValidationInfo) -> str:
    check_name(name, known_names(info))
    return name


def each_once(names: list[str]) -> list[str]:
    """Return names, none of which may be repeated."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names {', '.join(repeated)} twice; name each once")
    return names


CriteriaNames = Annotated[
    list[Annotated[str, AfterValidator(_known_criterion)]], Field(max_length=100), AfterValidator(each_once)
]
"""Names of criteria in the order in which they are asked."""


def _words(text: str, most: int) -> str:
    r"""Return words as they are shown: one line, in Unicode's composed form.

    >>> _words(" How harmful\n  the text is. ", 100)
    'How harmful the text is.'
    """
    words = unicodedata.normalize("NFC", " ".join(text.split()))
    if not 0 < len(words) <= most:
        raise ValueError(f"write 1 to {most} characters; these are {len(words)}")
    hidden = next((word for word in words if not (word.isprintable() or word in _JOINERS)), None)
    if hidden is not None:
        raise ValueError(f"the character {hidden!a} cannot be printed; leave it out")
    return words


def _title(text: str) -> str:
    title = _words(text, LONGEST_TITLE)
    if not title[0].isalpha() or ":" in title:
        raise ValueError("a title begins with a letter and has no colon: an answer has it before a colon")
    return title


def _definition(text: str) -> str:
    return _words(text, LONGEST_DEFINITION)


class OwnCriterion(SettingsTable):
    """A criterion that the study defines, or words in place of the paper's: people and judges read the same.

    Attributes:
        title: What it is called on the page, in a judge's prompt and in the report.
        definition: What it means, as plain text in one paragraph.
    """

    title: Annotated[str, AfterValidator(_title)]
    definition: Annotated[str, AfterValidator(_definition)]


def _named(own: dict[str, OwnCriterion]) -> dict[str, OwnCriterion]:
    for name in own:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name for a criterion: it has up to 40 of a to z, 0 to 9 and _, and begins "
                "with a letter; its title may be anything"
            )
        if name in RESERVED:
            raise ValueError(
                f"{name!r} has a meaning of its own in answers and results; give the criterion another name"
            )
    _distinct(rubric(own).values())
    return own


def _distinct(criteria: Iterable[Criterion]) -> None:
    """Check that no criterion could be taken for another by its name or title, in whatever spelling."""
    taken: dict[str, str] = {}
    for each in criteria:
        for words in (each.name, each.title):
            other = taken.setdefault(spelling(words), each.name)
            if other != each.name:
                raise ValueError(
                    f"{each.name!r} and {other!r} are both called {words!r}, but for the spelling; an answer "
                    "could mean either: give one of them another name or title"
                )


OwnCriteria = Annotated[dict[str, OwnCriterion], AfterValidator(_named)]


def rubric(own: dict[str, OwnCriterion]) -> dict[str, Criterion]:
    """Return all criteria that a study may name: the paper's, then its own, which override those."""
    return CRITERIA | {
        name: Criterion(name=name, title=each.title, definition=each.definition) for name, each in own.items()
    }
