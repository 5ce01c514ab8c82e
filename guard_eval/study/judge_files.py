"""The files that a `[[judge]]` table names: a prompt of the study's own, and examples of verdicts.

They lie in the study's folder, and what they say is a part of the settings: it counts in the study's hash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from guard_eval.records import Choice
from guard_eval.study.criteria_settings import SettingsTable
from guard_eval.study.files import StudyFile, read_setting
from guard_eval.study.problems import message_of

PLACEHOLDERS = {
    "criteria": "the criteria, numbered, each with its title and definition",
    "judgments": "the three judgments, a line each",
    "count": "how many criteria there are, in words",
    "metrics": "metric where there is one criterion, else metrics",
}
"""What a prompt template can have filled in; `criteria` must be there."""

LONGEST_PROMPT, LONGEST_EXAMPLES = 2**15, 2**20
"""Bytes of a file."""

MOST_EXAMPLES = 64

_PLACEHOLDER = re.compile(r"\{\{[ \t]*([^{}\n]*?)[ \t]*\}\}")


class JudgedExample(SettingsTable):
    """A pair with its verdict, shown to a judge before the pair that is asked about.

    `id` is a name that no pair of the study has; `a` and `b` are the texts shown as Method A's and B's.
    """

    id: str | None = None
    prompt: str
    a: str
    b: str
    verdict: dict[str, Choice] = Field(min_length=1)
    rationale: str | None = Field(default=None, min_length=1, max_length=1000)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its placeholders filled in, once: what is filled in is not read again.

    >>> fill('{{count}} of {{ criteria }}, as {"json": {}}', {"count": "two", "criteria": "{{count}}"})
    'two of {{count}}, as {"json": {}}'
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


@lru_cache(maxsize=16)
def read_examples(text: str) -> tuple[JudgedExample, ...]:
    """Return the examples in a file's text: a JSON object a line.

    Raises:
        ValueError: A line is none, or there are none, or too many.
    """
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not 1 <= len(lines) <= MOST_EXAMPLES:
        raise ValueError(f"it has {len(lines)} examples; write 1 to {MOST_EXAMPLES}, each on a line")
    examples = []
    for number, line in lines:
        try:
            examples.append(JudgedExample.model_validate_json(line))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise ValueError(
                f'line {number}: {where}: {message_of(first)}; a line is a JSON object with "prompt", "a", '
                '"b", "verdict" (a choice "A", "tie" or "B" for each criterion) and, if you like, "id" and '
                '"rationale"'
            ) from None
    return tuple(examples)


def _check_template(file: StudyFile) -> StudyFile:
    names = [match[1] for match in _PLACEHOLDER.finditer(file.text)]
    known = ", ".join(f"{{{{{name}}}}}" for name in PLACEHOLDERS)
    for name in names:
        if name not in PLACEHOLDERS:
            raise ValueError(f"{{{{{name}}}}} is not filled in; known are: {known}")
    if "criteria" not in names:
        raise ValueError(f"it lacks {{{{criteria}}}}, {PLACEHOLDERS['criteria']}; write it where it belongs")
    return file


def _check_examples(file: StudyFile) -> StudyFile:
    read_examples(file.text)
    return file


PromptFile = Annotated[
    StudyFile, BeforeValidator(partial(read_setting, most=LONGEST_PROMPT)), AfterValidator(_check_template)
]
"""A judge's prompt, named in study.toml by its file."""

ExamplesFile = Annotated[
    StudyFile, BeforeValidator(partial(read_setting, most=LONGEST_EXAMPLES)), AfterValidator(_check_examples)
]
"""Examples for a judge, named in study.toml by their file."""
