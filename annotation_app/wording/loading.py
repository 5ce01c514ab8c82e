"""From files to a `Wording`: a shipped language, a study's own file over it, and every error at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from annotation_app.wording.values import Wording
from guard_eval.errors import StudyError
from guard_eval.rubric import CRITERIA
from guard_eval.study.criteria_settings import Language, OwnCriterion
from guard_eval.study.folder import Study
from guard_eval.study.problems import explain, problems_of

_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")

_PLAINLY = {
    "string_type": "write a text in quotes",
    "string_too_short": "is empty; write something",
    "model_type": "write a table with its keys",
    "dict_type": "write a table with its keys",
    "tuple_type": "write a list",
}
"""What pydantic's errors mean in a TOML file."""

Tree = dict[str, Any]
"""A TOML file as tomllib reads it."""


def load(
    language: Language = "en",
    own: Path | None = None,
    *,
    criteria: Mapping[str, OwnCriterion] = MappingProxyType({}),
) -> Wording:
    """Return the wording of a shipped language, with what a study's own file says over it.

    A file that names another language than the one it changes is a translation, and must be complete, but
    for the study's own criteria: those it does not word are as study.toml has them.

    Args:
        language: The shipped language.
        own: The study's own file.
        criteria: The study's own criteria, by name.

    Raises:
        StudyError: The file cannot be read, or has keys, values or placeholders that no page has; then all
            of them are named at once.
    """
    words = {} if own is None else _read(own)
    spoken = str(words.get("language", language))
    rubric = {
        name: each.text(spoken).model_dump(include={"title", "definition"}) for name, each in criteria.items()
    }
    if spoken == language:
        words = _over(_over(_shipped(language), {"criteria": rubric}), words)
    elif isinstance(words.get("criteria"), dict):
        words = _over({"criteria": rubric}, words)
    return _valid(words, own or _FOLDER / f"{language}.toml", criteria)


def of_study(study: Study) -> Wording:
    """Return what a study's raters read.

    Raises:
        StudyError: Its own file cannot be used; see `load`.
    """
    settings = study.settings.annotation
    own = study.folder / settings.wording if settings.wording else None
    return load(settings.language, own, criteria=study.settings.criteria)


def fill(text: str, **values: object) -> str:
    """Return `text` with its placeholders filled in; any other brace is a brace.

    >>> fill("Pair {number} of {total} {sic}", number=3, total=12)
    'Pair 3 of 12 {sic}'
    """
    return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), text)


def placeholders(tree: object, place: str = "") -> dict[str, frozenset[str]]:
    """Return the placeholders of every text in a file, by its place; a list's texts are one place."""
    if isinstance(tree, str):
        return {place: frozenset(_PLACEHOLDER.findall(tree))}
    if isinstance(tree, dict):
        inner = [placeholders(value, f"{place}.{key}" if place else key) for key, value in tree.items()]
        return {where: names for found in inner for where, names in found.items()}
    if isinstance(tree, list):
        inner = [placeholders(value) for value in tree]
        return {place: frozenset().union(*(names for found in inner for names in found.values()))}
    return {}


@cache
def _shipped(language: Language) -> Tree:
    words = _read(_FOLDER / f"{language}.toml")
    if language == "en":
        # Worded once for the judge and for people, and not to be edited: it is the paper's.
        words["criteria"] = {
            c.name: {"title": c.title, "definition": c.definition} for c in CRITERIA.values()
        }
    return words


def _read(path: Path) -> Tree:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise StudyError(
            f"annotation.wording names {path.name!r}, but {path} is missing; write it, or remove the setting"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path} is not valid TOML: {error}; fix that line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"cannot read {path}: {error}") from error


def _over(base: Tree, words: Tree) -> Tree:
    """Return `base` with what `words` says in its place; lists are replaced whole."""
    both = dict(base)
    for key, value in words.items():
        below = base.get(key)
        both[key] = _over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return both


def _valid(words: Tree, path: Path, criteria: Iterable[str]) -> Wording:
    problems = _wrong_placeholders(words)
    try:
        wording = Wording.model_validate(_tuples(words), context=tuple(criteria))
    except ValidationError as error:
        problems = problems_of(error, Wording, key="key", plainly=_PLAINLY) + problems
    if problems:
        raise StudyError(explain(path, problems))
    return wording


def _tuples(tree: Any) -> Any:  # noqa: ANN401 (whatever TOML holds)
    """Return `tree` with its lists as tuples, which a strict and frozen value asks for."""
    if isinstance(tree, dict):
        return {key: _tuples(value) for key, value in tree.items()}
    return tuple(_tuples(value) for value in tree) if isinstance(tree, list) else tree


def _wrong_placeholders(words: Tree) -> list[str]:
    """Name the texts whose placeholders are not those of the English text in the same place."""
    english = placeholders(_shipped("en"))
    problems = []
    for place, given in placeholders(words).items():
        if place.startswith("criteria."):  # nothing is filled in there, and a brace is a brace
            continue
        expected = english.get(place, frozenset())
        if expected - given:
            problems.append(f"{place}: lacks {_braces(expected - given)}; write it where it belongs")
        if given - expected:
            allowed = "nothing is filled in here; remove it"
            if expected:
                allowed = f"known here: {_braces(expected)}"
            problems.append(f"{place}: has {_braces(given - expected)}; {allowed}")
    return problems


def _braces(names: frozenset[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))
