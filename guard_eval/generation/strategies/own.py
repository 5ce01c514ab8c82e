"""Users' own strategies, from files that the command line names.

No settings file names a file of code: a study.toml may be a stranger's, and names strategies alone.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text
from guard_eval.generation.strategies.values import (
    STRATEGIES,
    Recorded,
    Step,
    Strategy,
    apply_step,
    is_own,
    name_of,
    steps_of,
)

VARIABLE = "GUARD_EVAL_STRATEGIES"
"""The environment variable of files, joined by `os.pathsep`: how a command passes them to its processes."""
_MODULE = "guard_eval_own_"
"""What the name of a file's module begins with; the hash of the file's text follows."""

_classes: dict[str, type[Step]] = {}
texts: dict[str, str] = {}
"""The files in use, by path; workers on other machines, which do not have them, get their texts."""
spellings: dict[str, Strategy] = {}
"""The strategies with a step of the user's own that were parsed, by the text that names them."""
recorded: dict[str, Recorded] = {}
"""What studies recorded of strategies, by the text that names them; it counts while no file is loaded."""


def use_file(path: Path) -> None:
    """Make the strategies of a Python file known here and in the processes that are started from here.

    Raises:
        StudyError: The file cannot be read or run, or has no strategy, or one has another's name.
    """
    path = path.absolute()
    use_text(str(path), read_text(path))
    files = filter(None, [*os.environ.get(VARIABLE, "").split(os.pathsep), str(path)])
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys(files))


def use_text(path: str, text: str) -> None:
    """Make the strategies of a file's text known; `path` names it in errors."""
    if texts.get(path) != text:
        for kind in _run(f"{_MODULE}{_digest(text)}", path, text):
            _check(kind, path)
            _classes[name_of(kind)] = kind
        texts[path] = text


def classes() -> dict[str, type[Step]]:
    """Return the user's own strategies by name.

    Raises:
        StudyError: A file of strategies is broken.
    """
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if path not in texts:
            use_file(Path(path))
    return dict(_classes)


def source_of(strategy: Strategy) -> str | None:
    """Return a hash of the source of the user's own strategies in `strategy`; None if there are none."""
    if isinstance(strategy, Recorded):
        return strategy.digest
    return "+".join(_hash_source(type(step)) for step in steps_of(strategy) if is_own(step)) or None


def find_unloaded(signatures: Iterable[str]) -> list[str]:
    """Return the strategies that a study recorded and that no file in use defines."""
    return [name for name in signatures if name in recorded and not classes()]


def check_loaded(signatures: Iterable[str]) -> None:
    """Raise a `StudyError` if the file of a strategy is needed, to make texts, and not in use."""
    for name in find_unloaded(signatures):
        raise StudyError(
            f"the strategy {name} is your own, and texts by it need its file; name it: --code FILE.py"
        )


def file_of(kind: type) -> str:
    """Return where a strategy is written."""
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__


def _run(name: str, path: str, text: str) -> list[type[Step]]:
    """Run a file's text as the module `name`, and return the strategies that it defines."""
    module = sys.modules[name] = ModuleType(name)  # where dataclasses and type hints look names up
    module.__file__ = path
    try:
        exec(compile(text, path, "exec"), vars(module))  # noqa: S102 (named on the command line)
        kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Step)]
        kinds = [kind for kind in kinds if kind.__module__ == name and get_type_hints(kind)]
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        if isinstance(error, SyntaxError):
            lines = [error.lineno]
        where = f", line {lines[-1]}" if lines else ""
        raise StudyError(
            f"cannot use the strategies in {path}{where}: {type(error).__name__}: {error}; correct the file"
        ) from error
    if not kinds:
        raise _refuse(path, "no class in it is derived from Sampler or Penalty")
    return kinds


def _check(kind: type[Step], path: str) -> None:
    """Refuse a class that is no strategy, or has another strategy's name."""
    name, settings = name_of(kind), vars(kind).get("__dataclass_params__")
    if settings is None or not settings.frozen:
        above = "write @dataclass(frozen=True, kw_only=True) above it"
        raise _refuse(path, f"{kind.__name__} is no frozen dataclass; {above}")
    if apply_step.dispatch(kind) is apply_step.dispatch(object):
        raise _refuse(path, f"no function is registered for {kind.__name__}")
    other = None if name in STRATEGIES else _classes.get(name, kind)
    if other is None or other.__module__ != kind.__module__:
        owner = file_of(other) if other else "guard-eval"
        raise _refuse(path, f"{name!r} is a strategy of {owner}; rename the class {kind.__name__}")


def _refuse(path: str, problem: str) -> StudyError:
    return StudyError(f"{path}: {problem}; docs/own_strategy.md shows a strategy")


def _hash_source(kind: type) -> str:
    if kind.__module__.startswith(_MODULE):
        return kind.__module__.removeprefix(_MODULE)
    try:  # it is defined in a program, which named no file
        return _digest(inspect.getsource(kind) + inspect.getsource(apply_step.dispatch(kind)))
    except (OSError, TypeError) as error:
        raise StudyError(
            f"{kind.__name__} has no source that can be read, and texts are known by that; write a file"
        ) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
