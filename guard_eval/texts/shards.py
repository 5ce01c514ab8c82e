"""Parts of a study that several processes make without talking to each other, and the locks between them.

A prompt belongs to the shard that its id's hash says, so every machine comes to the same division by itself.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from guard_eval.errors import StudyError
from guard_eval.records import content_id

if sys.platform != "win32":
    import fcntl


@dataclass(frozen=True)
class Shard:
    """The `number`th (1, 2, …) of `count` parts of a study's prompts; of one, it is all of them.

    >>> Shard.parse("2/3")
    Shard(number=2, count=3)
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `i/n`.

        Raises:
            StudyError: It is not of this form, or i is not one of 1 … n.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise StudyError(f"--shard {text!r} names no shard; write i/n with i from 1 to n, such as 1/4")
        return cls(int(match[1]), int(match[2]))

    def holds(self, prompt_id: str) -> bool:
        """Return whether the prompt is this shard's to make."""
        return int(content_id("shard", prompt_id), 16) % self.count == self.number - 1

    @property
    def suffix(self) -> str:
        """Return what the shard's files have in their names; nothing if there is only one."""
        return "" if self.count == 1 else f".shard-{self.number}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@contextmanager
def reserve(folder: Path, shard: Shard) -> Iterator[None]:
    """Keep other processes from making the same shard in `folder` as long as the context lasts.

    The lock is the system's (flock) and goes with the process however it ends. If the file system has no
    locks, as some network ones (and on Windows), nothing is kept.

    Raises:
        StudyError: Another process makes this shard, or the folder cannot be written.
    """
    path = folder / f".generate-{shard.number}-of-{shard.count}.lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="ascii")
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error
    with file:
        if not _lock(file):
            file.seek(0)
            what = "all of it" if shard.count == 1 else f"its shard {shard}"
            raise StudyError(
                f"another guard-eval generate (process {file.read().strip() or 'unknown'}) is making "
                f"continuations of this study, {what}; wait for it, stop it, or give each its own --shard i/n"
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _lock(file: IO[str]) -> bool:
    """Lock a file; return False if another process holds it or is removing the file."""
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), Path(file.name).stat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:  # this file system has no locks
        return True
