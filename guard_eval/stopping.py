"""The end that others ask for: SIGTERM and SIGHUP end a command as Ctrl-C does, so that nothing made is lost.

`docker stop`, systemd and SLURM send SIGTERM; a terminal that closes sends SIGHUP.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def like_ctrl_c() -> Iterator[list[int]]:
    """Let the signals that ask a program to end do what Ctrl-C does; yield the list of those that came.

    What handles Ctrl-C at the moment handles them, such as an event loop that first receives what is under
    way. A second signal is a second Ctrl-C. Outside the main thread, where Python takes no signals, it does
    nothing.
    """
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.getsignal(number) for number in STOPS}
    taken = [number for number in STOPS if before[number] is not signal.SIG_IGN]  # nohup ignores SIGHUP
    for number in taken:
        signal.signal(number, interrupt)
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and hasattr(signal, "pthread_sigmask"):
        # A shell's background job ignores Ctrl-C, and goes on doing so; but an event loop ends in good order,
        # whichever signal came, only where Ctrl-C is Python's to handle.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield came
    finally:
        for number in taken:
            signal.signal(number, before[number] or signal.SIG_DFL)
        if ignored and hasattr(signal, "pthread_sigmask"):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
