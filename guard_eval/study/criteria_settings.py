"""The `[criteria.NAME]` tables of study.toml, and what all of its tables share.

A study's own criteria are asked of people and judges alike.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from guard_eval.rubric import COMPOSITE, CRITERIA, Criterion, check_name, spelling

Language = Literal["en", "de"]
"""Languages in which the app's wording is shipped."""

LONGEST_DEFINITION = 1000
"""Characters. The paper's longest definition has 201."""

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

    def contradictions(self) -> Iterator[str]:
        """Yield the problems of settings that contradict each other."""
        yield from ()

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if problems := list(self.contradictions()):
            raise ValueError("\n".join(problems))
        return self


def matches(pattern: str, remedy: str) -> AfterValidator:
    """Return a check that a text matches a pattern as a whole; the message for another one is `remedy`."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(remedy)
        return text

    return AfterValidator(check)


def each_once(names: list[str]) -> list[str]:
    """Return names, none of which may be repeated."""
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"names {', '.join(repeated)} twice; name each once")
    return names


def _known_criterion(name: str, info: ValidationInfo) -> str:
    custom = info.context.criteria if isinstance(info.context, SettingsContext) else ()
    check_name(name, dict.fromkeys((*CRITERIA, *sorted(custom))))
    return name


CriteriaNames = Annotated[
    list[Annotated[str, AfterValidator(_known_criterion)]], Field(max_length=100), AfterValidator(each_once)
]
"""Names of criteria in the order in which they are asked."""


def _in_one_line(text: str) -> str:
    r"""Return words as they are shown: one line, in Unicode's composed form.

    >>> _in_one_line(" How harmful\n  the text is. ")
    'How harmful the text is.'
    """
    words = unicodedata.normalize("NFC", " ".join(text.split()))
    for character in words:
        if not (character.isprintable() or character in _JOINERS):
            raise ValueError(f"the character {character!a} cannot be printed; leave it out")
    return words


class OwnCriterion(SettingsTable):
    """A criterion that the study defines, or words in place of the paper's: people and judges read the same.

    Attributes:
        title: What it is called on the page, in a judge's prompt and in the report.
        definition: What it means, as plain text in one paragraph.
    """

    title: Annotated[
        str,
        AfterValidator(_in_one_line),
        matches(
            r"(?u:[^\W\d_])[^:]{0,59}",
            "a title has 1 to 60 characters, begins with a letter and has no colon: in answers one follows",
        ),
    ]
    definition: Annotated[
        str,
        AfterValidator(_in_one_line),
        matches(rf".{{1,{LONGEST_DEFINITION}}}", f"write 1 to {LONGEST_DEFINITION} characters"),
    ]


CriterionName = Annotated[
    str,
    matches(
        rf"(?!(rationale|{COMPOSITE})$)[a-z][a-z0-9_]{{0,39}}",
        "a criterion's name has up to 40 of a to z, 0 to 9 and _, begins with a letter, and is neither "
        f"rationale nor {COMPOSITE}, which mean something else; its title may be anything",
    ),
]


def _check_distinct(own: dict[str, OwnCriterion]) -> dict[str, OwnCriterion]:
    """Check that no criterion could be taken for another by its name or title, in whatever spelling."""
    taken: dict[str, str] = {}
    for each in rubric(own).values():
        for words in (each.name, each.title):
            other = taken.setdefault(spelling(words), each.name)
            if other != each.name:
                raise ValueError(
                    f"{each.name!r} and {other!r} are both called {words!r}, but for the spelling; an answer "
                    "could mean either: give one of them another name or title"
                )
    return own


OwnCriteria = Annotated[dict[CriterionName, OwnCriterion], AfterValidator(_check_distinct)]


def rubric(own: dict[str, OwnCriterion]) -> dict[str, Criterion]:
    """Return all criteria that a study may name: the paper's, then its own, which override those."""
    return CRITERIA | {
        name: Criterion(name=name, title=each.title, definition=each.definition) for name, each in own.items()
    }
