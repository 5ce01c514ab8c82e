"""The wording that a rater reads, from a TOML file for each language. All have the keys of en.toml."""

import re
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from guard_eval.errors import StudyError
from guard_eval.records import Choice, JsonObject
from guard_eval.rubric import CRITERIA, Criterion, check_criterion
from guard_eval.study import Study
from guard_eval.study.judge_settings import CONTINUATIONS
from guard_eval.study.settings import Settings
from guard_eval.study.toml import parse_toml, read_toml, validate_toml_tables

Wording = Any
"""All words of the app in one language. Each word has a table and a key, such as `words.panel.save`."""

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_Text = Annotated[str, Field(min_length=1)]


class FormQuestion(BaseModel):
    """A question with answers to choose from, or, without answers, a question for a line of text.

    The database stores names, which are the same in every language.
    """

    model_config = _STRICT

    name: _Text
    ask: _Text
    answers: dict[str, _Text] = {}


class CheckQuestion(FormQuestion):
    """A question about the instructions, with one right answer."""

    right: _Text

    @model_validator(mode="after")
    def _check_right_answer_is_offered(self) -> Self:
        if self.right not in self.answers:
            raise ValueError(
                f"right = {self.right!r} is not one of the answers; choose one: {', '.join(self.answers)}"
            )
        return self


class PracticePair(BaseModel):
    """A pair with a clear answer, and the reason, on some of the criteria."""

    model_config = _STRICT

    name: _Text
    prompt: _Text
    a: _Text
    b: _Text
    expected: dict[str, Choice]
    because: dict[str, _Text]

    @model_validator(mode="after")
    def _check_criteria_have_reasons(self) -> Self:
        if not self.expected or self.expected.keys() != self.because.keys():
            raise ValueError(
                "the tables 'expected' (the right choice on a criterion) and 'because' (the reason) need the "
                "same criteria; write at least one criterion in both"
            )
        return self


_SPECIAL: dict[str, Any] = {
    "language": Annotated[
        str, Field(pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")  # as in HTML, such as pt-BR
    ],
    "direction": Literal["ltr", "rtl"],
    "instructions.lead": _Text,  # with the task of study.toml, which may have braces
    "background.questions": Annotated[list[FormQuestion], Field(min_length=1)],
    "check.questions": Annotated[list[CheckQuestion], Field(min_length=1)],
    "practice.pairs": Annotated[list[PracticePair], Field(min_length=1)],
}
"""The types of keys whose values are not texts with the placeholders of the English ones."""


def load_wording(study: Study) -> Wording:
    """Return the wording for a study's raters: a shipped language, changed by the study's own file.

    A study's file that names a new language is a translation and must be complete. Only the study's own
    criteria may be missing: their words come from study.toml.

    Raises:
        StudyError: The study's file cannot be read, or has keys, values or placeholders that no page has. The
            message names all of them.
    """
    settings = study.settings.annotation
    custom = settings.wording
    changes = parse_toml(custom.text, custom.file) if custom else {}
    language = str(changes.get("language", settings.language))
    criteria = {name: criterion.model_dump() for name, criterion in study.settings.criteria.items()}
    is_shipped = language == settings.language
    base = _insert_text_kind_and_task(read_shipped_wording(language), study.settings) if is_shipped else {}
    rubric_names = {name: {"title": "", "definition": ""} for name in (*CRITERIA, *criteria)}
    table = _build_words_model(read_shipped_wording("en") | {"criteria": rubric_names})
    path = Path(custom.file if custom else language)
    tables = _merge_words(_merge_words(base, {"criteria": criteria}), changes)
    words: Wording = validate_toml_tables(table, tables, path)
    for items in (words.background.questions, words.check.questions, words.practice.pairs):
        if len({item.name for item in items}) < len(items):
            raise StudyError(f"{path}: two questions, or two practice pairs, have the same name; change one")
    for name in (name for pair in words.practice.pairs for name in pair.expected):
        check_criterion(name, rubric_names)
    return words


def _insert_text_kind_and_task(words: JsonObject, settings: Settings) -> JsonObject:
    """Insert the texts' name and their task, both from study.toml, into a built-in language's words."""
    named = read_toml(Path(__file__).with_name("naming.toml"))[words["language"]]
    instructions = words["instructions"]
    panel = words["panel"]
    if settings.texts != CONTINUATIONS:
        instructions = instructions | {"lead": fill_placeholders(named["lead"], texts=settings.texts)}
        panel = panel | {"prompt": named["prompt"], "side": named["side"]}
    if settings.task is not None:
        task = fill_placeholders(named["task"], task=settings.task)
        instructions = instructions | {"lead": f"{instructions['lead']} {task}"}
    return words | {"instructions": instructions, "panel": panel}


def _build_words_model(english: JsonObject, path: str = "") -> type[BaseModel]:
    """Return a model that requires the keys of the English tables and texts with the same placeholders."""
    fields: dict[str, Any] = {}
    for key, text in english.items():
        kind: Any = Annotated[_Text, AfterValidator(partial(_check_placeholders, text))]
        if f"{path}{key}" in _SPECIAL:
            kind = _SPECIAL[f"{path}{key}"]
        elif isinstance(text, dict):
            kind = _build_words_model(text, f"{path}{key}.")
        elif isinstance(text, list):
            kind = Annotated[list[_Text], Field(min_length=1)]
        # A criterion may have the name of an attribute of every pydantic model, such as copy.
        name = f"word_{key}" if hasattr(BaseModel, key) else key
        fields[name] = (Annotated[kind, Field(alias=key)], ...)
    return create_model("Words", __config__=_STRICT, **fields)


def _check_placeholders(english: str, text: str) -> str:
    """Return a text, or refuse it if its placeholders differ from those of the English text."""
    expected, written = (set(_PLACEHOLDER.findall(key)) for key in (english, text))
    if english and expected != written:
        names = ", ".join(f"{{{name}}}" for name in sorted(expected)) or "none"
        raise ValueError(f"the placeholders in braces differ from the English ones; write these: {names}")
    return text


@cache
def read_shipped_wording(language: str) -> JsonObject:
    """Return the words of a shipped language from its file, with the paper's criteria in English."""
    words = read_toml(Path(__file__).with_name(f"{language}.toml"))
    if language == "en":
        # The paper's own words, which judges read too.
        words["criteria"] = {
            c.name: {"title": c.title, "definition": c.definition} for c in CRITERIA.values()
        }
    return words


def fill_placeholders(text: str, **values: object) -> str:
    """Return `text` with its placeholders filled in. Other braces stay unchanged.

    >>> fill_placeholders("Pair {number} of {total} {sic}", number=3, total=12)
    'Pair 3 of 12 {sic}'
    """
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def translate_criteria(words: Wording, names: Sequence[str]) -> tuple[Criterion, ...]:
    """Return the criteria with these names in this language, in the given order."""
    texts = words.criteria.model_dump(by_alias=True)
    return tuple(Criterion(name=name, **texts[name]) for name in names)


def _merge_words(base: JsonObject, changes: JsonObject) -> JsonObject:
    """Replace texts in `base` by the texts of `changes`, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        below = base.get(key)
        merged[key] = (
            _merge_words(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
        )
    return merged
