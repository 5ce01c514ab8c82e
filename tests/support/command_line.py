"""The command line as a user sees it: a process with its output and its exit code."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

from guard_eval.cli.frame import main


@dataclass
class Ran:
    code: int
    out: str
    err: str

    def refused(self):
        """Return the message of a run that refused bad input."""
        assert self.code == 2, self
        assert "Traceback" not in self.err
        assert "\nerror: " in f"\n{self.err}"  # notices may come before it
        return self.err


def make_command(*arguments):
    return [sys.executable, "-m", "guard_eval", *map(str, arguments)]


def make_environment(**more):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return {**clean, "COLUMNS": "120", "OMP_NUM_THREADS": "1", **more}


def run_process(arguments, folder=None, *, timeout=240, stdout=subprocess.PIPE, **more):
    """Run a program as a user does. `more` has environment variables."""
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=make_environment(**more),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def run_code(code, *arguments, folder=None, **more):
    """Run Python code in a new process."""
    return run_process([sys.executable, "-c", code, *map(str, arguments)], folder, **more)


def run_here(monkeypatch, capsys, folder, *arguments, **more):
    """Run a command in this process, which is faster because the libraries are already loaded."""
    with monkeypatch.context() as patch:
        patch.chdir(folder)
        for name in [name for name in os.environ if name.startswith("OPENAI_")]:
            patch.delenv(name)
        for name, value in {"COLUMNS": "120", **more}.items():
            patch.setenv(name, value)
        patch.setattr(sys, "argv", ["guard-eval", *map(str, arguments)])
        capsys.readouterr()
        handler = signal.getsignal(signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            main()
        signal.signal(signal.SIGINT, handler)  # a command ends its process, so it leaves the default behind
    return Ran(ended.value.code or 0, *capsys.readouterr())
