"""From a signature to the strategy that it names."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import Any, cast

from guard_eval.errors import StudyError, nearest
from guard_eval.strategies import own
from guard_eval.strategies.values import STRATEGIES, Chain, Strategy, steps_of

_SPELLINGS = {"B": "beams", "num_beams": "beams"}
"""Other names of parameters, the paper's and transformers'; they hold where a strategy has the parameter."""


def parse(text: str) -> Strategy:
    """Read a strategy from its name or signature; parameters left out take their defaults.

    >>> parse("top_k(k=20)")
    TopK(k=20, temperature=1.0)
    >>> str(parse("contrastive")), str(parse("beam(B=3)"))
    ('contrastive(k=10, alpha=0.6)', 'beam(beams=3)')

    Raises:
        StudyError: An unknown name, parameter or word (the message offers the nearest), or a value out of
            range.
    """
    return _build(text, _tree(text))


def _build(text: str, tree: ast.expr) -> Strategy:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add):
        return Chain(steps=(*steps_of(_build(text, tree.left)), *steps_of(_build(text, tree.right))))
    name, values = _named(text, tree)
    kind: type[Any] | None = STRATEGIES.get(name) or own.find(name)
    if kind is None:
        known = [*STRATEGIES, *own.names()]
        remedy = " (one of your own: --code FILE.py names its file)" if name.isidentifier() else ""
        raise StudyError(f"unknown strategy {name!r}: {nearest(name, known)}{remedy}")
    parameters = [field.name for field in fields(kind)]
    arguments: dict[str, object] = {}
    for key, value in values:
        parameter = _SPELLINGS.get(key, key) if _SPELLINGS.get(key) in parameters else key
        if parameter not in parameters:
            raise StudyError(f"strategy {name!r} has no parameter {key!r}: {nearest(key, parameters)}")
        if parameter in arguments:
            raise StudyError(f"strategy {text!r} gives {parameter} twice; keep one of them")
        arguments[parameter] = value
    try:
        return cast("Strategy", kind(**arguments))
    except TypeError as error:  # one's own may have parameters without a default
        raise StudyError(f"strategy {text!r}: {error}") from error


_USAGE = "write it as name or name(parameter=value, …), for example top_k(k=50)"
_LONGEST = 500


def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise StudyError(f"cannot read the strategy {text[:40]!r}…, {len(text)} characters long: {_USAGE}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise StudyError(f"cannot read the strategy {text!r}: {_USAGE}") from error


def _named(text: str, tree: ast.expr) -> tuple[str, list[tuple[str, object]]]:
    if isinstance(tree, ast.Name):
        return tree.id, []
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)) or tree.args:
        raise StudyError(f"cannot read the strategy {text!r}: {_USAGE}")
    if any(keyword.arg is None for keyword in tree.keywords):  # **values
        raise StudyError(f"cannot read the strategy {text!r}: {_USAGE}")
    return tree.func.id, [(str(keyword.arg), _value(text, keyword)) for keyword in tree.keywords]


def _value(text: str, keyword: ast.keyword) -> object:
    if isinstance(keyword.value, ast.Name):
        return keyword.value.id
    try:
        return cast("object", ast.literal_eval(keyword.value))
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        raise StudyError(f"cannot read {keyword.arg!r} in the strategy {text!r}: {_USAGE}") from error
