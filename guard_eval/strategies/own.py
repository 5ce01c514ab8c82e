"""Strategies of one's own: from installed packages, and from files that the user's own command line names.

No settings file names a file of code: a study.toml may be a stranger's, and names strategies alone.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from guard_eval.errors import StudyError
from guard_eval.strategies.kinds import STRATEGIES, Chain, OwnStrategy, Strategy, name_of

GROUP = "guard_eval.strategies"
"""The entry points by which installed packages offer strategies."""
VARIABLE = "GUARD_EVAL_STRATEGIES"
"""The environment variable of files, joined by `os.pathsep`: how a command passes them to its processes."""

_HELP = "docs/own_strategy.md shows one"

_kinds: dict[str, type[OwnStrategy]] = {}
_hashes: dict[type, str] = {}
_texts: dict[str, str] = {}


def use_file(path: Path) -> list[str]:
    """Make the strategies of a Python file known here and in the processes that are started from here.

    Returns:
        Their names.

    Raises:
        StudyError: It cannot be read or run, or has no strategy; or one has another's name.
    """
    path = path.absolute()
    names = _load_file(path)
    listed = [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]
    if str(path) not in listed:
        os.environ[VARIABLE] = os.pathsep.join([*listed, str(path)])
    return names


def texts() -> dict[str, str]:
    """Return the files in use, by path: for workers on machines that do not have them."""
    _load_listed()
    return dict(_texts)


def use_text(path: str, text: str) -> list[str]:
    """Make the strategies of a file's text known; `path` names it in errors."""
    if _texts.get(path) == text:
        return [name for name, kind in _kinds.items() if kind.__module__ == _module_name(text)]
    module = _run(path, text)
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, OwnStrategy) and value.__module__ == module.__name__
    ]
    if not found:
        raise StudyError(f"{path}: no class in it is derived from OwnStrategy; {_HELP}")
    digest = _digest(text)
    for kind in found:
        _add(kind, path, digest)
    _texts[path] = text
    return [name_of(kind) for kind in found]


def find(name: str) -> type[OwnStrategy] | None:
    """Return one's own strategy of that name; None where there is none.

    Raises:
        StudyError: A file or package that offers strategies is broken.
    """
    if name not in _kinds:
        _load_listed()
        _load_installed(name)
    return _kinds.get(name)


def names() -> list[str]:
    """Return the names of one's own strategies that are known."""
    return sorted(_kinds)


def remedy(name: str) -> str:
    """Return what an error about the unknown strategy `name` adds."""
    if not name.isidentifier():
        return ""
    return " (one of your own: --strategies FILE.py names the file that has it)"


def source_of(strategy: Strategy) -> str | None:
    """Return a hash of the source of one's own strategies in `strategy`; None where there are none."""
    steps = strategy.steps if isinstance(strategy, Chain) else (strategy,)
    hashes = [_hash(type(step)) for step in steps if isinstance(step, OwnStrategy)]
    return "+".join(hashes) or None


def file_of(kind: type) -> str:
    """Return where a strategy of one's own is written."""
    return getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__


def _load_listed() -> None:
    for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        if name not in _texts:
            _load_file(Path(name))


def _load_file(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise StudyError(f"cannot read the strategies in {path}: {reason}; name a Python file") from error
    return use_text(str(path), text)


def _load_installed(name: str) -> None:
    for point in entry_points(group=GROUP):
        if point.name != name:
            continue
        try:
            kind = point.load()
        except Exception as error:
            raise StudyError(
                f"the strategy {name!r} of the package {_package(point)} cannot be loaded: "
                f"{type(error).__name__}: {error}; update the package, or remove it"
            ) from error
        if not (isinstance(kind, type) and issubclass(kind, OwnStrategy)) or name_of(kind) != name:
            raise StudyError(
                f"the entry point {name!r} of the package {_package(point)} names {point.value}, which is no "
                f"OwnStrategy called {name!r}; {_HELP}"
            )
        _add(kind, point.value, _digest(inspect.getsource(sys.modules[kind.__module__])))


def _package(point: Any) -> str:  # noqa: ANN401 (importlib.metadata's)
    return str(point.dist.name if point.dist else point.value)


def _add(kind: type[OwnStrategy], path: str, digest: str) -> None:
    name = name_of(kind)
    settings: Any = vars(kind).get("__dataclass_params__")
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
    if kind.candidates is OwnStrategy.candidates:
        raise StudyError(f"{path}: {kind.__name__} has no method candidates(self, logits); {_HELP}")
    if name in STRATEGIES or (name in _kinds and _hashes[_kinds[name]] != digest):
        other = "is a strategy of guard-eval" if name in STRATEGIES else f"is one of {file_of(_kinds[name])}"
        raise StudyError(f"{path}: {kind.__name__} is called {name!r}, and so {other}; rename the class")
    _kinds[name], _hashes[kind] = kind, digest


def _hash(kind: type) -> str:
    if kind not in _hashes:  # made in a program, without a file's being named
        try:
            _hashes[kind] = _digest(inspect.getsource(kind))
        except (OSError, TypeError) as error:
            raise StudyError(
                f"{kind.__name__} has no source that can be read, and texts are known by that; write a file"
            ) from error
    return _hashes[kind]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _module_name(text: str) -> str:
    return f"guard_eval_own_{_digest(text)}"


def _run(path: str, text: str) -> ModuleType:
    module = ModuleType(_module_name(text))
    module.__file__ = path
    sys.modules[module.__name__] = module  # where dataclasses and type hints look names up
    try:
        exec(compile(text, path, "exec"), vars(module))  # noqa: S102 (named on the command line)
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        line = _line(error, path)
        raise StudyError(
            f"cannot use the strategies in {path}{line}: {type(error).__name__}: {error}; correct the file"
        ) from error
    return module


def _line(error: BaseException, path: str) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            found = trace.tb_lineno
        trace = trace.tb_next
    return f", line {found}" if found else ""
