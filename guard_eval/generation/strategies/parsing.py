"""Parse the signatures of strategies."""

import ast
import re
from dataclasses import fields
from itertools import product
from math import prod
from typing import NamedTuple, cast

from guard_eval.errors import StudyError, suggest_nearest_word
from guard_eval.generation.strategies import own
from guard_eval.generation.strategies.values import (
    STRATEGIES,
    Step,
    Strategy,
    is_user_defined,
    list_strategy_steps,
)

_MOST_CHARACTERS = 500
_MOST_SETTINGS = 1000
_LIST = re.compile(r"\[([^][]*)\]")


class Grid(NamedTuple):
    """A strategy whose parameters may have lists of values.

    Attributes:
        text: The strategy as written in study.toml, or the full signature if there are no lists.
        settings: The signature of each combination of values, in the order of the lists.
    """

    text: str
    settings: tuple[str, ...]


def parse(text: str) -> Strategy:
    """Parse the name or signature of a strategy. Missing parameters get their default values.

    >>> parse("guard(window=4)") == parse("guard(window = 4)")
    True
    >>> str(parse("contrastive")), str(parse("beam(beams=3)"))
    ('contrastive(k=10, alpha=0.6)', 'beam(beams=3)')

    Raises:
        StudyError: A name, a parameter or a word is unknown (the message suggests the most similar one), or
            a value is out of range.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body if len(text) <= _MOST_CHARACTERS else None
        strategy = _build_strategy(text, tree)
    except StudyError:
        if text in own.recorded and not own.list_own_strategies():
            return own.recorded[text]
        raise
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise StudyError(
            f"cannot read the strategy {text[:40]!r}: write it as name or name(parameter=value, …) with "
            "numbers and words, for example top_k(k=50)"
        ) from error
    if any(map(is_user_defined, list_strategy_steps(strategy))):
        own.spellings[text] = strategy
    return strategy


def convert_to_strategy(strategy: object) -> Strategy:
    """Return a strategy that a program gives as an object or as a signature, such as `"top_k(k=50)"`.

    Raises:
        StudyError: `strategy` is neither a strategy nor a valid signature.
    """
    result = parse(strategy) if isinstance(strategy, str) else strategy
    if not isinstance(result, Strategy):
        raise StudyError(f"{strategy!r:.60} is not a strategy; write Guard() or 'guard', for example")
    return result


def parse_grid(text: str) -> Grid:
    """Parse a strategy whose parameters may have lists of values.

    >>> parse_grid("top_p(p=[0.9, 0.8])")
    Grid(text='top_p(p=[0.9, 0.8])', settings=('top_p(p=0.9)', 'top_p(p=0.8)'))

    Raises:
        StudyError: As in `parse`, or there are too many settings, or two settings are equal.
    """
    lists = [listed.split(",") for listed in _LIST.findall(text)]
    if not lists or len(text) > _MOST_CHARACTERS:
        strategy = str(parse(text))
        return Grid(strategy, (strategy,))
    count = prod(map(len, lists))
    # Every second part is a list. The other parts are the text around the lists.
    parts = _LIST.split(text)
    settings: dict[str, None] = {}
    for values in product(*lists) if count <= _MOST_SETTINGS else ():
        parts[1::2] = values
        settings[str(parse("".join(parts)))] = None
    if len(settings) < count:
        raise StudyError(
            f"the lists in {text} must give 1 to {_MOST_SETTINGS} different settings; change the lists"
        )
    return Grid(" ".join(text.split()), tuple(settings))


def _build_strategy(text: str, tree: ast.expr | None) -> Strategy:
    match tree:
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _build_strategy(text, left) + cast("Step", _build_strategy(text, right))
        case ast.Name(id=name):
            keywords: list[ast.keyword] = []
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            pass
        case _:
            raise SyntaxError
    kind = STRATEGIES.get(name) or own.list_own_strategies().get(name)
    if kind is None:
        names = [*STRATEGIES, *own.list_own_strategies()]
        remedy = "(to load your own strategy, add --code FILE.py)"
        raise StudyError(f"unknown strategy {name!r}: {suggest_nearest_word(name, names)} {remedy}")
    arguments = _read_arguments(name, [field.name for field in fields(kind)], keywords)
    try:
        return cast("Strategy", kind(**arguments))
    except StudyError:
        raise
    except (TypeError, ValueError) as error:  # a user's own strategy may check its parameters
        raise StudyError(f"strategy {text!r}: {error}") from error


def _read_arguments(name: str, parameters: list[str], keywords: list[ast.keyword]) -> dict[str, object]:
    arguments: dict[str, object] = {}
    for keyword in keywords:
        if keyword.arg is None:  # **values
            raise SyntaxError
        if keyword.arg not in parameters:
            raise StudyError(
                f"strategy {name!r} has no parameter {keyword.arg!r}: "
                f"{suggest_nearest_word(keyword.arg, parameters)}"
            )
        if keyword.arg in arguments:
            raise StudyError(f"strategy {name!r} gives {keyword.arg} twice; keep one of them")
        value = keyword.value
        arguments[keyword.arg] = value.id if isinstance(value, ast.Name) else ast.literal_eval(value)
    return arguments
