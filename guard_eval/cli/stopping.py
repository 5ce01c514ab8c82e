"""End commands at SIGTERM and SIGHUP as at Ctrl-C. Containers, SLURM and closed terminals send them."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """Make SIGTERM and SIGHUP do the same as Ctrl-C. Yield the list of received signals.

    An event loop that handles Ctrl-C then also handles these signals. Within this context, Python handles
    Ctrl-C even in the background commands of a script, which otherwise ignore Ctrl-C.
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


def is_caused_by_signal(error: BaseException, received_signals: Sequence[int]) -> bool:
    """Return whether a signal caused this error, even if a library replaced the error by another one.

    A library that loads files in threads may report the stop as its own failure.
    """
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return bool(received_signals) or any(isinstance(cause, KeyboardInterrupt) for cause in causes)


def find_signal_exit_code(received_signals: Sequence[int]) -> int:
    """Return the exit code of a stopped command: the first signal's code or, without a signal, Ctrl-C's."""
    return 128 + (received_signals[0] if received_signals else signal.SIGINT)
