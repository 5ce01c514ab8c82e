"""Where Python looks for modules. Nothing is imported here that Python has not loaded by now."""

import os
import sys

_HOME = os.path.realpath(f"{__file__}/../../..")


def leave_out_current_folder() -> None:
    """Take the current folder out of the search path, unless it holds this package itself, as in a checkout.

    The processes that this one starts, as multiprocessing and Ray do, do the same.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    here = os.path.realpath(os.curdir)
    if here != _HOME:
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
        listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in listed if os.path.realpath(path) != here)
