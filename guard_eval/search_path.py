"""Where modules are taken from: never from the folder in which a command is run, which may be anybody's.

`python -m` would take a local `judge.py` in place of ours. A local `guard_eval` is taken before this code
runs: use the script `guard-eval` where that may be. Nothing is imported here that is not loaded by now.
"""

import os
import sys

HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 (pathlib may be a local file)
"""The folder that holds this package."""


def leave_out_current_folder() -> None:
    """Take the current folder out of the search path, here and for the processes that this one starts.

    It stays where it holds this package itself, as in a checkout.
    """
    os.environ["PYTHONSAFEPATH"] = "1"  # for what multiprocessing and Ray start
    here = os.path.realpath(os.curdir)
    if here == HOME:
        return
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
    listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in listed if os.path.realpath(entry) != here)
