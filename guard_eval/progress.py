"""What a function says while it works. Nothing is shown unless a command line has attached its reporter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from guard_eval.results import Result


class Advance(Protocol):
    """Counts what a task has done. A note stands behind the bar until the next one."""

    def __call__(self, count: float = 1, /, note: str | None = None) -> None:
        """Count more of the task as done."""


class Reporter:
    """Shows what the functions of this module are given. This one shows nothing, and its answer is no."""

    def task(self, description: str, total: float | None, unit: str) -> AbstractContextManager[Advance]:
        """Show a progress bar while the context is open."""
        del description, total, unit
        return nullcontext(lambda *_count, **_note: None)

    def notice(self, text: str) -> None:
        """Show what happens now."""

    def warn(self, text: str) -> None:
        """Show a warning."""

    def show(self, result: Result, *, clear: bool) -> None:
        """Show the result of a step."""

    def write(self, text: str, style: str) -> None:
        """Show a part of a line."""

    def confirm(self, question: str) -> bool:  # noqa: ARG002
        """Return the answer to a question."""
        return False


_reporters = [Reporter()]
"""The current reporter is the last one. The threads of a process share it."""


@contextmanager
def attached(reporter: Reporter) -> Iterator[None]:
    """Send everything to a reporter while the block runs."""
    _reporters.append(reporter)
    try:
        yield
    finally:
        _reporters.pop()


def task(description: str, total: float | None = None, unit: str = "") -> AbstractContextManager[Advance]:
    """Return a context with a progress bar up to a total, if it is known, of a unit in the plural."""
    return _reporters[-1].task(description, total, unit)


def notice(text: str) -> None:
    """Show what happens now, such as a model that is loaded, unless the user chose `--quiet`."""
    _reporters[-1].notice(text)


def warn(text: str) -> None:
    """Show at once what should worry the user; what can wait belongs to `Result.warnings`."""
    _reporters[-1].warn(text)


def show(result: Result, *, clear: bool = False) -> None:
    """Show the result of a step; `clear` clears the terminal's screen first."""
    _reporters[-1].show(result, clear=clear)


def write(text: str, style: str = "") -> None:
    """Show text without a line break, in a style of rich such as "bold red"."""
    _reporters[-1].write(text, style)


def confirm(question: str) -> bool:
    """Ask a question that is answered with y or n. Without anybody to ask, the answer is no."""
    return _reporters[-1].confirm(question)
