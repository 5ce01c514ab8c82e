"""SIGTERM and SIGHUP end a command as Ctrl-C does. Containers, SLURM and closed terminals send them."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP do what Ctrl-C does. Yield the list of signals that came.

    An event loop that handles Ctrl-C, for instance to receive what is under way, handles them too. In the
    background of a script, where Ctrl-C is ignored, it is Python's to handle as long as this lasts.
    """
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (*STOPS, signal.SIGINT)}
    for number in STOPS:
        if before[number] is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, interrupt)
    if before[signal.SIGINT] is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def is_caused_by_signal(error: BaseException, received: Sequence[int]) -> bool:
    """Return whether a signal caused this error, even if a library raised another one for it.

    A library that loads something in threads may report the stop as a failure of its own.
    """
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return bool(received) or any(isinstance(cause, KeyboardInterrupt) for cause in causes)


def exit_code_of(received: Sequence[int]) -> int:
    """Return the exit code of a command that a signal ended: the first signal, or else Ctrl-C."""
    return 128 + (received[0] if received else signal.SIGINT)
