"""The wording of criteria and instructions, for the app and for the judge.

The wording comes from the paper's Appendix F (`app:F`), the prompt of the paper's LLM judge. The form for the
human evaluation is a figure (`fig:human_evaluation_form`), and the paper's source does not contain its text.
Therefore, people see the same definitions as judges.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from guard_eval.bundled import read_bundled_toml
from guard_eval.errors import StudyError, suggest_nearest_word


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One quality on which two continuations are compared."""

    name: str
    title: str
    definition: str

    def __str__(self) -> str:
        """Return title and definition as one text."""
        return f"{self.title}: {self.definition}"


_WORDS = read_bundled_toml(__file__, "rubric.toml")

CHOICE_LABELS: dict[str, str] = _WORDS.pop("choices")
"""The three judgments of Appendix F, for "A", "tie" and "B"."""

CRITERIA: dict[str, Criterion] = {name: Criterion(name=name, **words) for name, words in _WORDS.items()}
"""The six criteria of Appendix F by name, in the appendix's order."""

HUMAN_CRITERIA: tuple[str, ...] = ("coherence", "fluency")
"""The criteria of the paper's human evaluation (`tab:humaneval_resultglacs`)."""

COMPOSITE = "composite"
"""The name in the column of criteria for results on the composite, a weighted mean of criteria."""

Weights = Annotated[dict[str, Annotated[float, Field(gt=0, le=1_000_000)]], Field(min_length=2)]
"""The weights of a composite, for at least two criteria."""


def select_criteria(names: Sequence[str], rubric: Mapping[str, Criterion]) -> tuple[Criterion, ...]:
    """Return the named criteria of the rubric, in the order of the names.

    Raises:
        StudyError: A name is unknown. The message suggests the nearest name.
    """
    for name in names:
        check_criterion(name, rubric)
    return tuple(rubric[name] for name in names)


def check_criterion(name: str, rubric: Collection[str]) -> None:
    """Check that a criterion with this name exists. The error suggests the nearest name."""
    if name not in rubric:
        raise StudyError(f"unknown criterion {name!r}: {suggest_nearest_word(name, list(rubric))}")


def remove_case_and_punctuation(words: str) -> str:
    """Return a name or title without case, spaces and punctuation, for comparing answers.

    >>> remove_case_and_punctuation("Story Development") == remove_case_and_punctuation("story_development")
    True
    """
    return "".join(letter for letter in words.casefold() if letter.isalnum())
