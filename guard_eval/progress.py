"""Messages from functions during their work. Messages are shown only after a command attaches a reporter."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from guard_eval.results import Result


class Advance(Protocol):
    """A function that counts finished steps of a task, and may show a note beside the progress bar."""

    def __call__(self, count: float = 1, /, note: str | None = None) -> None:
        """Count further steps of the task as done."""


class Reporter:
    """Show the messages of this module's functions. This base class shows nothing and answers no."""

    def show_task(self, description: str, total: float | None, unit: str) -> AbstractContextManager[Advance]:
        """Show a progress bar while the context is open."""
        del description, total, unit
        return nullcontext(lambda *_count, **_note: None)

    def show_notice(self, text: str) -> None:
        """Show what the command does now, such as loading a model."""

    def warn(self, text: str) -> None:
        """Show a warning."""

    def show_result(self, result: Result, *, clear_screen: bool) -> None:
        """Show the result of a step."""

    def print_text(self, text: str, style: str) -> None:
        """Show text without a line break."""

    def confirm(self, question: str) -> bool:  # noqa: ARG002
        """Return the answer to a question."""
        return False


_reporters = [Reporter()]
"""The reporters in use, which all threads share. The last reporter is the current one."""


@contextmanager
def use_reporter(reporter: Reporter) -> Iterator[None]:
    """Send all messages inside the block to a reporter."""
    _reporters.append(reporter)
    try:
        yield
    finally:
        _reporters.pop()


def show_task(
    description: str, total: float | None = None, unit: str = ""
) -> AbstractContextManager[Advance]:
    """Return a context with a progress bar. `unit` is in the plural; `total` is None if it is unknown."""
    return _reporters[-1].show_task(description, total, unit)


def show_notice(text: str) -> None:
    """Show the present step, such as loading a model, unless the user chose `--quiet`."""
    _reporters[-1].show_notice(text)


def warn(text: str) -> None:
    """Show a warning at once. A warning that can wait belongs to `Result.warnings`."""
    _reporters[-1].warn(text)


def show_result(result: Result, *, clear_screen: bool = False) -> None:
    """Show the result of a step; `clear_screen` clears the terminal's screen first."""
    _reporters[-1].show_result(result, clear_screen=clear_screen)


def print_text(text: str, style: str = "") -> None:
    """Show text without a line break, in a style of rich such as "bold red"."""
    _reporters[-1].print_text(text, style)


def confirm(question: str) -> bool:
    """Ask a question with the answers y and n. Without a user, the answer is no."""
    return _reporters[-1].confirm(question)
