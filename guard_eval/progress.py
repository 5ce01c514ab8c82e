"""What a function says while it works. Nothing is shown unless a command line has attached a reporter.

with task("guard", total=len(prompts), unit="texts") as advance:
    for prompt in prompts:
        ...
        advance(1)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from guard_eval.results import Result


class Advance(Protocol):
    """Count what a task has done; `note` stands behind the bar until the next note."""

    def __call__(self, count: float = 1, /, note: str | None = None) -> None:
        """Add `count` to what is done."""


class Reporter(Protocol):
    """Where the words of a running function go."""

    def task(self, description: str, total: float | None, unit: str) -> AbstractContextManager[Advance]:
        """Show a progress bar."""

    def notice(self, text: str) -> None:
        """Show a line that `--quiet` hides."""

    def warn(self, text: str) -> None:
        """Show a warning, also with `--quiet`."""

    def show(self, result: Result) -> None:
        """Show a result before the command ends."""

    def write(self, text: str, style: str) -> None:
        """Show a part of a line at once."""

    def clear(self) -> None:
        """Clear the screen."""

    def confirm(self, question: str) -> bool:
        """Return the answer to a question."""


_attached: list[Reporter] = []
"""The reporters of this process, the current one last: threads share it."""


@contextmanager
def attached(reporter: Reporter) -> Iterator[None]:
    """Send everything to a reporter while the block runs."""
    _attached.append(reporter)
    try:
        yield
    finally:
        _attached.pop()


def task(description: str, total: float | None = None, unit: str = "") -> AbstractContextManager[Advance]:
    """Return a context in which `advance(count, note=…)` moves a progress bar.

    Args:
        description: What is under way.
        total: How much there is to do; None if nobody knows.
        unit: What is counted, in the plural.
    """
    return _attached[-1].task(description, total, unit) if _attached else nullcontext(_no_bar)


def _no_bar(count: float = 1, /, note: str | None = None) -> None:
    pass


def notice(text: str) -> None:
    """Say what happens now, such as a model that is loaded."""
    if _attached:
        _attached[-1].notice(text)


def warn(text: str) -> None:
    """Say at once what should worry the user; what can wait belongs to `Result.warnings`."""
    if _attached:
        _attached[-1].warn(text)


def show(result: Result) -> None:
    """Show a result of a step, or of a command that this command called."""
    if _attached:
        _attached[-1].show(result)


def write(text: str, style: str = "") -> None:
    """Show text at once and without a line break, in a style of rich such as "bold red"."""
    if _attached:
        _attached[-1].write(text, style)


def clear() -> None:
    """Clear the terminal's screen before something is shown again."""
    if _attached:
        _attached[-1].clear()


def confirm(question: str) -> bool:
    """Ask a question that is answered with y or n. Without anybody to ask, the answer is no."""
    return bool(_attached) and _attached[-1].confirm(question)
