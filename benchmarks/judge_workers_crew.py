"""Workers that judge one study: `guard-eval judge` as several machines run it, started and killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from annotation_server import ROOT
from judge_study import KEY, Made

_ELSEWHERE = """
import sys
from guard_eval.store import runs
name = sys.argv.pop(1)
if name:
    runs._host = lambda: name
from guard_eval.cli import main
main()
"""
"""`guard-eval`, on a machine of that name as far as the study's database can tell."""


@dataclass
class Worker:
    """One machine's process.

    Attributes:
        study: What it judges.
        name: Its machine; empty for this one.
        options: More of its command line.
        starts: How often it was started.
    """

    study: Made
    name: str
    options: tuple[str, ...] = ()
    starts: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def log(self) -> Path:
        """Return where its output goes."""
        return self.study.folder / f"worker-{id(self)}.log"

    @property
    def going(self) -> bool:
        """Return whether it runs."""
        return self.process.poll() is None

    def start(self) -> None:
        """Start it, or start it again."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
        environ = {
            **os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": self.study.url, "PYTHONPATH": path,
        }  # fmt: skip
        command = [
            sys.executable,
            "-P",
            "-c",
            _ELSEWHERE,
            self.name,
            "judge",
            str(self.study.folder),
            "--yes",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 (our own interpreter)
                [*command, *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ
            )
        self.starts += 1

    def kill(self) -> int:
        """End it with SIGKILL; return its number."""
        self.process.kill()
        self.process.wait()
        return self.process.pid

    def said(self) -> str:
        """Return all its output."""
        return self.log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def machines(study: Made, count: int, *options: str, apart: bool) -> Iterator[list[Worker]]:
    """Start so many workers, and end those that are left."""
    crew = [Worker(study, f"machine {number}" if apart else "", options) for number in range(count)]
    for worker in crew:
        worker.start()
    try:
        yield crew
    finally:
        for worker in crew:
            worker.kill()
