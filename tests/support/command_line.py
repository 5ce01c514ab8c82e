"""The command line as its user meets it: a process, its output, its exit code."""

import os
import sys
from dataclasses import dataclass


@dataclass
class Ran:
    code: int
    out: str
    err: str

    def refused(self):
        """Return the message of a run that ended as bad input must."""
        assert self.code == 2, self
        assert "Traceback" not in self.err
        assert self.err.startswith("error: ")
        return self.err


def command(*arguments):
    return [sys.executable, "-m", "guard_eval", *map(str, arguments)]


def environment(**more):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return {**clean, "COLUMNS": "120", "OMP_NUM_THREADS": "1", **more}
