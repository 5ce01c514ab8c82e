"""What a function says while it works. Nothing is shown unless a command line has attached its reporter.

with task("guard", total=len(prompts), unit="texts") as advance:
    for prompt in prompts:
        ...
        advance(1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from guard_eval.results import Result

Advance = Callable[..., None]
"""`advance(count, note=…)` counts what a task has done; the note stands behind the bar until the next one."""


class Reporter:
    """Shows what functions say. This one shows nothing, and its answer to a question is no."""

    def task(self, _description: str, _total: float | None, _unit: str) -> AbstractContextManager[Advance]:
        """Show a progress bar."""
        return nullcontext(lambda *_count, **_note: None)

    def notice(self, text: str) -> None:
        """Show a line that `--quiet` hides."""

    def warn(self, text: str) -> None:
        """Show a warning, also with `--quiet`."""

    def show(self, result: Result, *, clear: bool) -> None:
        """Show a result before the command ends."""

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
    """Return a context in which `advance(count, note=…)` moves a progress bar.

    Args:
        description: What is under way.
        total: How much there is to do; None if nobody knows.
        unit: What is counted, in the plural.
    """
    return _reporters[-1].task(description, total, unit)


def notice(text: str) -> None:
    """Say what happens now, such as a model that is loaded."""
    _reporters[-1].notice(text)


def warn(text: str) -> None:
    """Say at once what should worry the user; what can wait belongs to `Result.warnings`."""
    _reporters[-1].warn(text)


def show(result: Result, *, clear: bool = False) -> None:
    """Show the result of a step; `clear` clears the terminal's screen first."""
    _reporters[-1].show(result, clear=clear)


def write(text: str, style: str = "") -> None:
    """Show text at once and without a line break, in a style of rich such as "bold red"."""
    _reporters[-1].write(text, style)


def confirm(question: str) -> bool:
    """Ask a question that is answered with y or n. Without anybody to ask, the answer is no."""
    return _reporters[-1].confirm(question)
