"""The start of the command line, before any module except Python's own is imported.

Modules are never imported from the current folder, which may be a stranger's: `python -m` would import a
local `judge.py` instead of ours. But a local `guard_eval` is imported before this code can run. If the folder
may have one, use the script `guard-eval`.
"""

import os
import signal
import sys

_HOME = os.path.realpath(f"{__file__}/../../..")


def main() -> None:
    """Run the command line. Ctrl-C during loading ends the command immediately, without a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    open_closed_standard_streams()
    os.environ.pop("MPLBACKEND", None)  # a notebook's backend may not be installed here; figures are files
    remove_current_folder_from_path()
    from guard_eval.cli.frame import main as run  # noqa: PLC0415 (only now is the search path safe)

    signal.signal(signal.SIGINT, handler)
    run()


def open_closed_standard_streams() -> None:
    """Open the null device in place of each closed standard stream.

    Otherwise, a file that is opened later, such as the study's database, would get the stream's number, and
    all printed text would go into this file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (for the process's life)


def remove_current_folder_from_path() -> None:
    """Remove the current folder from the search path, unless it contains this package, as in a checkout.

    Child processes, such as those of multiprocessing, do the same.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:  # the folder was deleted, so it has no modules; the frame reports this
        return
    if here != _HOME:
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
        listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in listed if os.path.realpath(path) != here)
