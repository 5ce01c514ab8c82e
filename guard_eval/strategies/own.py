"""Users' own strategies, from files that the command line names.

No settings file names a file of code: a study.toml may be a stranger's, and names strategies alone.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from guard_eval.errors import StudyError
from guard_eval.strategies.protocol import apply_step
from guard_eval.strategies.values import STRATEGIES, Step, Strategy, is_own, name_of, steps_of

VARIABLE = "GUARD_EVAL_STRATEGIES"
"""The environment variable of files, joined by `os.pathsep`: how a command passes them to its processes."""
_HELP = "docs/own_strategy.md shows one"

_classes: dict[str, type[Step]] = {}
_hashes: dict[type, str] = {}
_texts: dict[str, str] = {}


def use_file(path: Path) -> list[str]:
    """Make the strategies of a Python file known here and in the processes that are started from here.

    Returns:
        Their names.

    Raises:
        StudyError: The file cannot be read or run, or has no strategy, or one has another's name.
    """
    path = path.absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise StudyError(f"cannot read the strategies in {path}: {reason}; name a Python file") from error
    names = use_text(str(path), text)
    listed = os.environ.get(VARIABLE, "").split(os.pathsep)
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys(filter(None, [*listed, str(path)])))
    return names


def texts() -> dict[str, str]:
    """Return the files in use, by path, for workers on machines that do not have them."""
    _use_listed()
    return dict(_texts)


def use_text(path: str, text: str) -> list[str]:
    """Make the strategies of a file's text known; `path` names it in errors."""
    digest = _digest(text)
    if _texts.get(path) != text:
        module = _run(path, text)
        kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Step)]
        if not (kinds := [kind for kind in kinds if kind.__module__ == module.__name__]):
            raise StudyError(f"{path}: no class in it is derived from Sampler or Penalty; {_HELP}")
        for kind in kinds:
            _check(kind, path, digest)
            _classes[name_of(kind)], _hashes[kind] = kind, digest
        _texts[path] = text
    return [name for name, kind in _classes.items() if _hashes[kind] == digest]


def find(name: str) -> type[Step] | None:
    """Return the user's own strategy of that name; None if there is none.

    Raises:
        StudyError: A file of strategies is broken.
    """
    if name not in _classes:
        _use_listed()
    return _classes.get(name)


def names() -> list[str]:
    """Return the names of the user's own strategies that are known."""
    return sorted(_classes)


def source_of(strategy: Strategy) -> str | None:
    """Return a hash of the source of the user's own strategies in `strategy`; None if there are none."""
    own = (step for step in steps_of(strategy) if isinstance(step, Step) and is_own(step))
    return "+".join(_hash(type(step)) for step in own) or None


def file_of(kind: type) -> str:
    """Return where a strategy is written."""
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__


def _use_listed() -> None:
    for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if name not in _texts:
            use_file(Path(name))


def _check(kind: type[Step], path: str, digest: str) -> None:
    """Refuse a class that is no strategy, or has another strategy's name."""
    name, settings = name_of(kind), vars(kind).get("__dataclass_params__")
    if settings is None or not settings.frozen:
        raise StudyError(
            f"{path}: {kind.__name__} is no frozen dataclass; write @dataclass(frozen=True, kw_only=True) "
            f"above it; {_HELP}"
        )
    try:
        get_type_hints(kind)
    except Exception as error:
        raise StudyError(
            f"{path}: the types of {kind.__name__}'s fields cannot be read: {error}; write int, float or str"
        ) from error
    if apply_step.dispatch(kind) is apply_step.dispatch(object):
        raise StudyError(f"{path}: no function is registered for {kind.__name__}; {_HELP}")
    taken = "guard-eval" if name in STRATEGIES else None
    if name in _classes and _hashes[_classes[name]] != digest:
        taken = file_of(_classes[name])
    if taken:
        raise StudyError(f"{path}: {name!r} is a strategy of {taken}; rename the class {kind.__name__}")


def _hash(kind: type) -> str:
    if kind not in _hashes:  # defined in a program, which named no file
        try:
            _hashes[kind] = _digest(inspect.getsource(kind) + inspect.getsource(apply_step.dispatch(kind)))
        except (OSError, TypeError) as error:
            raise StudyError(
                f"{kind.__name__} has no source that can be read, and texts are known by that; write a file"
            ) from error
    return _hashes[kind]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _run(path: str, text: str) -> Any:  # noqa: ANN401 (a module with any names)
    module = ModuleType(f"guard_eval_own_{_digest(text)}")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses and type hints look names up
    try:
        exec(compile(text, path, "exec"), vars(module))  # noqa: S102 (named on the command line)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
        where = f", line {line}" if line else ""
        raise StudyError(
            f"cannot use the strategies in {path}{where}: {type(error).__name__}: {error}; correct the file"
        ) from error
    return module
