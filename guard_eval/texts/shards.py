"""Parts of a study that several processes make without talking to each other, and the locks between them.

A prompt belongs to the shard that its id's hash says, so every machine comes to the same division by itself.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

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
        """What the shard's files have in their names; nothing if there is only one."""
        return "" if self.count == 1 else f".shard-{self.number}-of-{self.count}"


WHOLE = Shard()
"""All of a study."""


@contextmanager
def reserve(folder: Path, shard: Shard) -> Iterator[None]:
    """Keep other processes from making the same texts in `folder` as long as the context lasts.

    A shard excludes itself and the whole, the whole excludes everything. The locks are the system's (flock)
    and go with the process however it ends; where there are none (some network file systems, Windows),
    nothing is excluded.

    Raises:
        StudyError: Another process makes these texts.
    """
    with ExitStack() as files:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for suffix in dict.fromkeys(("", shard.suffix)):
                file = files.enter_context((folder / f".generate{suffix}.lock").open("ab"))
                if sys.platform != "win32":
                    mode = fcntl.LOCK_EX if suffix == shard.suffix else fcntl.LOCK_SH
                    fcntl.flock(file, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StudyError(
                f"another guard-eval generate is making these continuations in {folder}; wait for it, stop "
                "it, or give each its own --shard i/n"
            ) from None
        except OSError as error:
            if error.errno not in {errno.ENOLCK, errno.ENOTSUP}:
                raise
        yield
