"""The files that a `[[judge]]` table names: a prompt of the study's own, and examples of verdicts.

They lie in the study's folder, and what they say is a part of the settings: it counts in the study's hash.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo

from guard_eval.errors import StudyError
from guard_eval.records import Choice
from guard_eval.rubric import check_name
from guard_eval.study.criteria_settings import SettingsTable, known_names
from guard_eval.study.files import StudyFile, read_setting
from guard_eval.study.problems import message_of

PLACEHOLDERS = {
    "criteria": "the criteria, numbered, each with its title and definition",
    "judgments": "the three judgments, a line each",
    "count": "how many criteria there are, in words",
    "metrics": "metric where there is one criterion, else metrics",
}
"""What a prompt template can have filled in."""

REQUIRED = ("criteria",)
"""Without these a template is no prompt."""

LONGEST_PROMPT = 2**15
LONGEST_EXAMPLES = 2**20
"""Bytes of a file."""

MOST_EXAMPLES = 64
LONGEST_RATIONALE = 1000
"""Characters of an example's rationale."""

_PLACEHOLDER = re.compile(r"\{\{[ \t]*([^{}\n]*?)[ \t]*\}\}")


class JudgedExample(SettingsTable):
    """A pair with its verdict, shown to a judge before the pair that is asked about.

    Attributes:
        id: A name of its own, which no pair of the study has.
        prompt: What the two texts continue.
        a: The text shown as Method A's.
        b: The text shown as Method B's.
        verdict: The choice on each criterion.
        rationale: Why, in a few words.
    """

    id: str | None = None
    prompt: str
    a: str
    b: str
    verdict: dict[str, Choice] = Field(min_length=1)
    rationale: Annotated[str, Field(min_length=1, max_length=LONGEST_RATIONALE)] | None = None


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its placeholders filled in, once: what is filled in is not read again.

    >>> fill('{{count}} of {{ criteria }}, as {"json": {}}', {"count": "two", "criteria": "{{count}}"})
    'two of {{count}}, as {"json": {}}'
    """
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


def check_template(text: str) -> None:
    """Check that a text can be a judge's prompt.

    Raises:
        ValueError: It lacks a placeholder, has one that is unknown, or has characters that cannot be printed.
    """
    _check_printable(text)
    found = [match[1] for match in _PLACEHOLDER.finditer(text)]
    for name in found:
        if name not in PLACEHOLDERS:
            near = difflib.get_close_matches(name, PLACEHOLDERS, n=1)
            hint = f"did you mean {{{{{near[0]}}}}}?" if near else f"known are: {_braces(PLACEHOLDERS)}"
            raise ValueError(f"{{{{{name}}}}} is not filled in: {hint}")
    if "{{" in _PLACEHOLDER.sub("", text):
        raise ValueError(f"it has {{{{ without its }}}}; a placeholder is one of: {_braces(PLACEHOLDERS)}")
    for name in REQUIRED:
        if name not in found:
            alone = f", in two braces, not one, {{{name}}}" if f"{{{name}}}" in text else ""
            raise ValueError(
                f"it lacks {{{{{name}}}}}, {PLACEHOLDERS[name]}; write it where it belongs{alone}"
            )


def _braces(names: Sequence[str] | Mapping[str, str]) -> str:
    return ", ".join(f"{{{{{name}}}}}" for name in names)


def _check_printable(text: str) -> None:
    for number, line in enumerate(text.split("\n"), start=1):
        hidden = next((one for one in line if not one.isprintable() and one not in "\t\r\u200c\u200d"), None)
        if hidden is not None:
            raise ValueError(f"line {number} has the character {hidden!a}, which cannot be printed")


@lru_cache(maxsize=16)
def read_examples(text: str) -> tuple[JudgedExample, ...]:
    """Return the examples in a file's text: a JSON object a line.

    Raises:
        ValueError: A line is none, or there are none, or too many.
    """
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found.append(JudgedExample.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the line"
            raise ValueError(
                f'line {number}: {place}: {message_of(first)}; a line is a JSON object with "prompt", "a", '
                '"b", "verdict" (a choice "A", "tie" or "B" for each criterion) and, if you like, "id" and '
                '"rationale"'
            ) from None
    if not 1 <= len(found) <= MOST_EXAMPLES:
        raise ValueError(f"it has {len(found)} examples; write 1 to {MOST_EXAMPLES}, each on a line")
    return tuple(found)


def check_covered(examples: Sequence[JudgedExample], names: Sequence[str], *, rationale: bool) -> None:
    """Check that each example has what a judge's answer has.

    Raises:
        ValueError: A choice on one of the criteria is missing, or the rationale.
    """
    for number, example in enumerate(examples, start=1):
        missing = [name for name in names if name not in example.verdict]
        if missing:
            raise ValueError(
                f"example {number} has no verdict on {', '.join(missing)}, which this judge is asked; add it"
            )
        if rationale and example.rationale is None:
            raise ValueError(f'example {number} has no "rationale", and rationale = true; add it')


def _read_prompt(value: object, info: ValidationInfo) -> object:
    return read_setting(value, info, most=LONGEST_PROMPT)


def _read_examples(value: object, info: ValidationInfo) -> object:
    return read_setting(value, info, most=LONGEST_EXAMPLES)


def _is_template(file: StudyFile) -> StudyFile:
    check_template(file.text)
    return file


def _are_examples(file: StudyFile, info: ValidationInfo) -> StudyFile:
    for number, example in enumerate(read_examples(file.text), start=1):
        try:
            for name in example.verdict:
                if info.context is not None:  # else what the study defines is unknown
                    check_name(name, known_names(info))
        except StudyError as error:
            raise ValueError(f"example {number}: {error}") from None
    return file


PromptFile = Annotated[StudyFile, BeforeValidator(_read_prompt), AfterValidator(_is_template)]
"""A judge's prompt, named in study.toml by its file."""

ExamplesFile = Annotated[StudyFile, BeforeValidator(_read_examples), AfterValidator(_are_examples)]
"""Examples for a judge, named in study.toml by their file."""
