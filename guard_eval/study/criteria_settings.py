"""The `[criteria.NAME]` tables of study.toml, and the base class of all tables.

People and judges rate a study's own criteria.
"""

import unicodedata
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text
from guard_eval.rubric import COMPOSITE, CRITERIA, Criterion, check_criterion, remove_case_and_punctuation

Item = TypeVar("Item")


class SettingsTable(BaseModel):
    """A table of study.toml: unknown keys and values of another type are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, allow_inf_nan=False
    )


class StudyFile(SettingsTable):
    """A text file of the study's folder, which study.toml names."""

    file: str
    text: str

    @model_validator(mode="before")
    @classmethod
    def _read_study_file(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, dict | cls) or not info.context:
            return value
        if not isinstance(value, str):
            raise StudyError("input should be the name of a file")
        return {"file": value, "text": read_text(find_study_file(info.context["folder"], value))}


def find_study_file(folder: Path, name: str) -> Path:
    """Return the path of a file in the study's folder, with all links followed.

    Raises:
        StudyError: The file does not exist, is not a regular file, or is outside the folder.
    """
    try:
        path = (folder / name).resolve()
        is_file = path.is_file()
    except (OSError, RuntimeError, ValueError):  # a circle of links, or an invalid character
        raise StudyError("this is not a file name; name a file in the study's folder") from None
    if not path.is_relative_to(folder.resolve()):
        raise StudyError("the file is outside the study's folder; copy it into this folder")
    if not is_file:
        raise StudyError("there is no such file in the study's folder; write this file, or name another one")
    return path


def refuse_duplicates(values: list[Item]) -> list[Item]:
    """Return a list unchanged, or refuse a list that repeats a name, or a pair of names in either order."""
    names = Counter(
        " with ".join(sorted(map(str, value))) if isinstance(value, list) else str(value) for value in values
    )
    if repeated := sorted(name for name, count in names.items() if count > 1):
        raise ValueError(f"these names occur twice: {', '.join(repeated)}; write each once")
    return values


def _check_criterion(name: str, info: ValidationInfo) -> str:
    check_criterion(name, info.context["criteria"] if info.context else CRITERIA)
    return name


CriteriaNames = Annotated[
    list[Annotated[str, AfterValidator(_check_criterion)]],
    Field(min_length=1, max_length=100),
    AfterValidator(refuse_duplicates),
]
"""Names of criteria, in the order in which raters see them."""


def to_one_line(text: str) -> str:
    r"""Return words as one line of printable characters, in Unicode's composed form (NFC).

    >>> to_one_line(" How harmful\n  the text is. ")
    'How harmful the text is.'
    """
    words = unicodedata.normalize("NFC", " ".join(text.split()))
    if not words:
        raise ValueError("the text is empty; write words, or remove this key")
    # Persian, Indian scripts and emoji need the two joiners.
    if not words.translate({0x200C: None, 0x200D: None}).isprintable():
        raise ValueError("the text has a character that cannot be printed; remove this character")
    return words


class OwnCriterion(SettingsTable):
    """A criterion that the study defines, or a new wording of a criterion of the paper.

    Attributes:
        title: The criterion's name on the page, in a judge's prompt and in the report: up to 60 characters
            that begin with a letter, without a colon.
        definition: The criterion's meaning: plain text of up to 1000 characters in one paragraph.
    """

    title: Annotated[str, AfterValidator(to_one_line), Field(pattern=r"^\p{L}[^:]{0,59}$")]
    definition: Annotated[str, AfterValidator(to_one_line), Field(pattern="^.{1,1000}$")]


CriterionName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]


def _check_distinct_names(criteria: dict[str, OwnCriterion]) -> dict[str, OwnCriterion]:
    """Check that no two criteria have names or titles that differ only in spelling."""
    words = [
        {remove_case_and_punctuation(criterion.name), remove_case_and_punctuation(criterion.title)}
        for criterion in make_rubric(criteria).values()
    ]
    refuse_duplicates(["rationale", COMPOSITE, *chain(*words)])
    return criteria


OwnCriteria = Annotated[dict[CriterionName, OwnCriterion], AfterValidator(_check_distinct_names)]


def make_rubric(criteria: dict[str, OwnCriterion]) -> dict[str, Criterion]:
    """Return all criteria of a study by name. The study's own replace the paper's of the same name."""
    return CRITERIA | {name: Criterion(name=name, **words.model_dump()) for name, words in criteria.items()}
