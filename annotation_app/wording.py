"""What a rater reads: a file a language. en.toml is also the schema against which others are checked."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from guard_eval.errors import StudyError
from guard_eval.records import Choice
from guard_eval.rubric import CRITERIA, Criterion, check_name
from guard_eval.study import Study
from guard_eval.study.files import parse_toml, read_toml
from guard_eval.study.problems import explain, problems_of

Wording = dict[str, Any]
"""Tables of texts, as the TOML file has them: `words["panel"]["save"]`."""

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_Text = Annotated[str, StringConstraints(min_length=1)]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""What is stored in place of the words: the same in every language."""


class Question(BaseModel):
    """A question: with answers to choose from, or without, for a line of text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: _Name
    ask: _Text
    answers: dict[_Name, _Text] = Field(default={})


class CheckQuestion(Question):
    """A question about the instructions with one right answer, and the reason."""

    right: _Name
    because: _Text

    @model_validator(mode="after")
    def _check_answers(self) -> Self:
        if len(self.answers) < 2 or self.right not in self.answers:
            names = ", ".join(self.answers) or "none"
            raise ValueError(
                f"right = {self.right!r} must be one of at least two answers, and they are: {names}"
            )
        return self


class PracticePair(BaseModel):
    """A pair with a clear answer, and the reason, on some of the criteria."""

    model_config = Question.model_config

    name: _Name
    prompt: _Text
    a: _Text
    b: _Text
    expected: dict[_Name, Choice]
    because: dict[_Name, _Text]

    @model_validator(mode="after")
    def _check_reasons(self) -> Self:
        if not self.expected or self.expected.keys() != self.because.keys():
            raise ValueError("expected and because must name the same criteria, and at least one")
        return self


_LISTS: dict[str, type[Question | PracticePair]] = {
    "background.questions": Question,
    "check.questions": CheckQuestion,
    "practice.pairs": PracticePair,
}
"""The lists of tables, by their place in the file."""


def of_study(study: Study) -> Wording:
    """Return what a study's raters read: a shipped language, with the study's own file over it.

    A file that names another language than the one it changes is a translation, and must be complete, except
    for the study's own criteria, which are then worded as in study.toml.

    Raises:
        StudyError: The study's file cannot be read, or has keys, values or placeholders that no page has.
            All of them are named at once.
    """
    settings = study.settings.annotation
    custom = settings.wording
    changes = parse_toml(custom.text, custom.file) if custom else {}
    language = str(changes.get("language", settings.language))
    criteria = {name: each.model_dump() for name, each in study.settings.criteria.items()}
    base = shipped_wording(settings.language) if language == settings.language else {}
    words = _merge(_merge(base, {"criteria": criteria}), changes)
    known = {*CRITERIA, *criteria}
    problems = [*_differences(shipped_wording("en"), words, known), *_check_lists(words, known)]
    if problems:
        raise StudyError(explain(Path(custom.file if custom else language), problems))
    return words


@cache
def shipped_wording(language: str) -> Wording:
    """Return a shipped language as its file has it, with the paper's criteria in English."""
    words = read_toml(Path(__file__).with_name(f"{language}.toml"))
    if language == "en":
        # The paper's own words, which the judge reads too.
        words["criteria"] = {
            c.name: {"title": c.title, "definition": c.definition} for c in CRITERIA.values()
        }
    return words


def fill(text: str, **values: object) -> str:
    """Return `text` with its placeholders filled in; any other brace is a brace.

    >>> fill("Pair {number} of {total} {sic}", number=3, total=12)
    'Pair 3 of 12 {sic}'
    """
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def rubric(words: Wording, names: Sequence[str]) -> tuple[Criterion, ...]:
    """Return the named criteria in this language, in the order given."""
    return tuple(Criterion(name=name, **words["criteria"][name]) for name in names)


def _merge(base: Wording, changes: Mapping[str, Any]) -> Wording:
    """Return `base` with the texts of `changes` in place of its own, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        below = base.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _differences(english: Any, words: Any, criteria: set[str], path: str = "") -> Iterator[str]:  # noqa: ANN401
    """Yield how `words` differs from the English file in keys, kinds of values and placeholders."""
    if isinstance(english, list):
        texts = isinstance(words, list) and words and all(isinstance(text, str) and text for text in words)
        if path not in _LISTS and not texts:
            yield f"{path}: write a list of texts in quotes, and at least one"
    elif not isinstance(english, dict):
        yield from _text_problems(english, words, path)
    elif not isinstance(words, dict):
        yield f"{path}: write a table with its keys"
    else:
        inside = f"{path}." if path else ""
        known = criteria if path == "criteria" else english.keys()
        for key in words.keys() - known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1)
            yield f"{inside}{key}: is not a key; " + (f"did you mean {near[0]!r}?" if near else "remove it")
        for key in known - words.keys():
            yield f"{inside}{key}: is missing; add it"
        for key in known & words.keys():
            like = {"title": "", "definition": ""} if path == "criteria" else english[key]
            yield from _differences(like, words[key], criteria, f"{inside}{key}")


def _text_problems(english: str, text: object, path: str) -> Iterator[str]:
    """Yield what is wrong with a text, which stands where the English file has `english`."""
    if not isinstance(text, str) or not text:
        yield f"{path}: {text!r}: write a text in quotes"
    elif path == "language" and not re.fullmatch(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*", text):
        yield f"language: {text!r}: write it as HTML does, such as 'fr' or 'pt-BR'"
    elif path == "direction" and text not in {"ltr", "rtl"}:
        yield f"direction: {text!r}: write 'ltr' or 'rtl'"
    elif not path.startswith("criteria."):  # nothing is filled in there, and a brace is a brace
        expected, written = (set(_PLACEHOLDER.findall(each)) for each in (english, text))
        if expected - written:
            yield f"{path}: lacks {_braces(expected - written)}; write it where it belongs"
        if written - expected:
            allowed = (
                f"known here: {_braces(expected)}" if expected else "nothing is filled in here; remove it"
            )
            yield f"{path}: has {_braces(written - expected)}; {allowed}"


def _braces(names: set[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))


def _check_lists(words: Wording, criteria: set[str]) -> Iterator[str]:
    """Replace the questions and the practice pairs by their classes; yield what is wrong with them."""
    for position, kind in _LISTS.items():
        table, name = position.split(".")
        items = words[table].get(name) if isinstance(words.get(table), dict) else None
        if not isinstance(items, list) or not items:
            yield f"{position}: write at least one; to leave the page out, switch it off in study.toml"
            continue
        valid = []
        for index, item in enumerate(items, start=1):
            try:
                valid.append(kind.model_validate(item))
                for criterion in getattr(valid[-1], "expected", ()):
                    check_name(criterion, criteria)
            except ValidationError as error:
                for problem in problems_of(error, kind):
                    yield f"{position}[{index}]: {problem.removeprefix('the file: ')}"
            except StudyError as error:
                yield f"{position}[{index}]: {error}"
        for repeated, times in Counter(item.name for item in valid).items():
            if times > 1:
                yield f"{position}: the name {repeated!r} is used twice; give each its own"
        words[table] = {**words[table], name: valid}
