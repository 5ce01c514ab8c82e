"""SIGTERM and SIGHUP end a command as Ctrl-C does. Containers, SLURM and closed terminals send them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def like_ctrl_c() -> Iterator[list[int]]:
    """Let the signals that ask a program to end do what Ctrl-C does; yield the list of those that came.

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
