"""What a function says while it works. Nothing is shown unless a command line has attached its reporter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from guard_eval.results import Result

Advance = Callable[..., None]
"""`advance(count, note=…)` counts what a task has done; the note stands behind the bar until the next one."""


class Reporter:
    """Shows what functions say. This one shows nothing, and its answer to a question is no."""

    def task(
        self, description: str, total: float | None = None, unit: str = ""
    ) -> AbstractContextManager[Advance]:
        """Return a context with a progress bar up to a total, if it is known, of a unit in the plural."""
        del description, total, unit
        return nullcontext(lambda *_count, **_note: None)

    def notice(self, text: str) -> None:
        """Show what happens now, such as a model that is loaded, unless the user chose `--quiet`."""

    def warn(self, text: str) -> None:
        """Show at once what should worry the user; what can wait belongs to `Result.warnings`."""

    def show(self, result: Result, *, clear: bool = False) -> None:
        """Show the result of a step; `clear` clears the terminal's screen first."""

    def write(self, text: str, style: str = "") -> None:
        """Show text without a line break, in a style of rich such as "bold red"."""

    def confirm(self, question: str) -> bool:  # noqa: ARG002
        """Ask a question that is answered with y or n. Without anybody to ask, the answer is no."""
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


def __getattr__(name: str) -> Any:  # noqa: ANN401 (mypy checks no call of a module's `__getattr__`)
    """Return a method of the current reporter: `progress.notice(text)` and the others are these."""
    return getattr(_reporters[-1], name)
