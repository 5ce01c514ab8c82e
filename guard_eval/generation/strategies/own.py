"""Load users' own strategies from files that the command line names.

A study.toml never names a file of code, because a study may come from a stranger. It names only strategies.
"""

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
    RecordedStrategy,
    Step,
    Strategy,
    apply_step,
    get_strategy_name,
    is_user_defined,
    list_strategy_steps,
)

VARIABLE = "GUARD_EVAL_STRATEGIES"
"""The environment variable with the paths of strategy files for child processes, joined by `os.pathsep`."""
_MODULE = "guard_eval_own_"
"""The beginning of a strategy file's module name. A hash of the file's text follows."""

_classes: dict[str, type[Step]] = {}
_loaded_paths: set[str] = set()
spellings: dict[str, Strategy] = {}
"""Parsed strategies that contain a user's own strategy, by the text from which they were parsed."""
recorded: dict[str, RecordedStrategy] = {}
"""Users' own strategies as studies have recorded them, by signature, for use without their file."""


def load_strategies(path: Path) -> None:
    """Load the strategies of a Python file for this process and its child processes.

    Raises:
        StudyError: The file cannot be read or run, the file has no strategy, or a name is already in use.
    """
    path = path.absolute()
    for strategy_class in _run_strategy_file(path, read_text(path)):
        _check_strategy_class(strategy_class, path)
        _classes[get_strategy_name(strategy_class)] = strategy_class
    _loaded_paths.add(str(path))
    files = filter(None, [*os.environ.get(VARIABLE, "").split(os.pathsep), str(path)])
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys(files))


def list_own_strategies() -> dict[str, type[Step]]:
    """Return the classes of the user's own strategies, by name.

    Raises:
        StudyError: A strategy file cannot be loaded.
    """
    for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if path not in _loaded_paths:
            load_strategies(Path(path))
    return dict(_classes)


def hash_own_strategy_source(strategy: Strategy) -> str | None:
    """Return a hash of the source code of a strategy's user-defined steps, or None without these steps."""
    if isinstance(strategy, RecordedStrategy):
        return strategy.digest
    return (
        "+".join(
            _hash_class_source(type(step)) for step in list_strategy_steps(strategy) if is_user_defined(step)
        )
        or None
    )


def list_unloaded_strategies(signatures: Iterable[str]) -> list[str]:
    """Return the signatures of user-defined strategies whose file is not loaded."""
    return [name for name in signatures if name in recorded and not list_own_strategies()]


def refuse_unloaded_strategies(signatures: Iterable[str]) -> None:
    """Raise a `StudyError` if a user-defined strategy among these has no loaded file."""
    for name in list_unloaded_strategies(signatures):
        raise StudyError(f"the file that defines your own strategy {name} is not loaded; add --code FILE.py")


def find_defining_file(strategy_class: type) -> str:
    """Return the path of the file that defines a strategy class, or the module's name without a file."""
    return getattr(sys.modules.get(strategy_class.__module__), "__file__", None) or strategy_class.__module__


def _run_strategy_file(path: Path, text: str) -> list[type[Step]]:
    """Run a file's source code as a module. Return the strategy classes that the file defines."""
    name = f"{_MODULE}{_hash_text(text)}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses and type hints search here for names
    try:
        exec(compile(text, path, "exec"), vars(module))  # noqa: S102 (the command line names the file)
        kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Step)]
        kinds = [kind for kind in kinds if kind.__module__ == name and get_type_hints(kind)]
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise StudyError(
            f"cannot use the strategies in {path}{where}: {type(error).__name__}: {error}; correct the file"
        ) from error
    if not kinds:
        raise _make_strategy_file_error(path, "the file has no class that is derived from Sampler or Penalty")
    return kinds


def _check_strategy_class(strategy_class: type[Step], path: Path) -> None:
    """Raise a `StudyError` if a class is not a complete strategy or has the name of another strategy."""
    name = get_strategy_name(strategy_class)
    settings = vars(strategy_class).get("__dataclass_params__")
    if settings is None or not settings.frozen:
        above = "write @dataclass(frozen=True, kw_only=True) above it"
        raise _make_strategy_file_error(path, f"{strategy_class.__name__} is not a frozen dataclass; {above}")
    if apply_step.dispatch(strategy_class) is apply_step.dispatch(object):
        raise _make_strategy_file_error(path, f"no function is registered for {strategy_class.__name__}")
    other = STRATEGIES.get(name) or _classes.get(name, strategy_class)
    if other.__module__ != strategy_class.__module__:
        owner = "guard-eval" if name in STRATEGIES else find_defining_file(other)
        raise _make_strategy_file_error(
            path, f"{name!r} is a strategy of {owner}; rename the class {strategy_class.__name__}"
        )


def _make_strategy_file_error(path: Path, problem: str) -> StudyError:
    return StudyError(f"{path}: {problem}; see the example in docs/own_strategy.md")


def _hash_class_source(strategy_class: type) -> str:
    if strategy_class.__module__.startswith(_MODULE):
        return strategy_class.__module__.removeprefix(_MODULE)
    try:  # a program defines the class, not a file of strategies
        return _hash_text(
            inspect.getsource(strategy_class) + inspect.getsource(apply_step.dispatch(strategy_class))
        )
    except (OSError, TypeError) as error:
        raise StudyError(
            f"the source code of {strategy_class.__name__} cannot be read, but a hash of the code is "
            "stored with the texts; put the class into a file"
        ) from error


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
