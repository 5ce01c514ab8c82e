"""The start of the command line, before anything but Python's own modules is imported.

No module is taken from the folder in which a command is run, which may be anybody's: `python -m` would take a
local `judge.py` in place of ours. A local `guard_eval` is taken before this code runs; use the script
`guard-eval` where that may be.
"""

import os
import signal
import sys

_HOME = os.path.realpath(f"{__file__}/../../..")


def main() -> None:
    """Run the command line. Ctrl-C while it loads ends it immediately and without a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    open_missing_streams()
    leave_out_current_folder()
    from guard_eval.cli.frame import main as run  # noqa: PLC0415 (only now nothing else is found)

    signal.signal(signal.SIGINT, handler)
    run()


def open_missing_streams() -> None:
    """Open the null device in place of a standard stream that was closed.

    A file that is opened later, such as the study's database, would otherwise get the stream's number, and
    with it all that is printed.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (for the process's life)


def leave_out_current_folder() -> None:
    """Take the current folder out of the search path, unless it holds this package itself, as in a checkout.

    The processes that this one starts, as multiprocessing and Ray do, do the same.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:  # it was deleted, and holds no module; the frame says so
        return
    if here != _HOME:
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
        listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in listed if os.path.realpath(path) != here)
