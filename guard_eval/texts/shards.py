"""Divide a study into shards for independent processes, and lock the texts that a process is making.

The hash of a prompt's id decides the prompt's shard, so every machine divides the prompts in the same way.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.records import make_content_id
from guard_eval.reporting.writing import open_to_append


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a study's prompts. The `number` is 1 to `count`.

    >>> Shard.parse("2/3")
    Shard(number=2, count=3)
    """

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `i/n`.

        Raises:
            StudyError: The text does not have this form, or i is not in 1 … n.
        """
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise StudyError(f"--shard {text!r} is not a shard; write i/n with i from 1 to n, such as 1/4")
        return cls(int(match[1]), int(match[2]))

    def holds(self, prompt_id: str) -> bool:
        """Return whether the prompt belongs to this shard."""
        return int(make_content_id("shard", prompt_id), 16) % self.count == self.number - 1

    @property
    def suffix(self) -> str:
        """Return the part of a file name that names the shard, or "" if there is only one shard."""
        return "" if self.count == 1 else f".shard-{self.number}-of-{self.count}"


WHOLE = Shard()
"""The shard that is the whole study."""


@contextmanager
def reserve_shard(
    folder: Path, shard: Shard, *, remedy: str = "wait for it, stop it, or give each its own --shard i/n"
) -> Iterator[None]:
    """Prevent other processes from making the same texts in `folder` until the context ends.

    A shard excludes the same shard and the whole study. The whole study excludes all shards and itself. The
    locks are the operating system's (flock), so they end with the process, even if it is killed. Some network
    file systems have no locks; there, nothing is excluded.

    Raises:
        StudyError: Another process makes these texts. The message ends with `remedy`.
    """
    with ExitStack() as locks:
        try:
            for suffix in dict.fromkeys(("", shard.suffix)):
                path = folder / f".generate{suffix}.lock"
                locks.enter_context(_lock(path, shared=suffix != shard.suffix))
        except (BlockingIOError, FileNotFoundError):
            raise StudyError(
                f"another guard-eval generate is writing these texts in {folder}; {remedy}"
            ) from None
        except OSError as error:
            if error.errno not in {errno.ENOLCK, errno.ENOTSUP}:
                raise
        yield


@contextmanager
def _lock(path: Path, *, shared: bool) -> Iterator[None]:
    """Lock a file. At the end, remove the file unless another process has locked it too.

    Raises:
        BlockingIOError: Another process has locked the file.
        FileNotFoundError: Another process is removing the file.
    """
    with open_to_append(path) as file:
        fcntl.flock(file, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
        if not os.path.samestat(os.fstat(file.fileno()), path.stat()):
            raise FileNotFoundError(path)
        try:
            yield
        finally:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_NB | fcntl.LOCK_EX)
                path.unlink()
