"""Files of JSON lines that survive a crash: texts are appended as soon as they are generated.

Each append is synced. A killed process leaves at most one incomplete last line. Readers skip this line, and
the next append removes it.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from guard_eval.errors import StudyError
from guard_eval.files.opening import open_regular
from guard_eval.reporting.writing import find_target, open_to_append

Item = TypeVar("Item")

_LONGEST_LINE = 2**26


def append_lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Append objects as lines and sync the file. Before and after, remove an incomplete last line.

    Raises:
        StudyError: The file cannot be written (disk full, no permission). Earlier lines and complete new
            lines stay valid.
    """
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    unwritten = memoryview(lines.encode("utf-8", "surrogatepass"))
    try:
        with open_to_append(path) as file:  # without a buffer, which would repeat a write after "disk full"
            file.truncate(_measure_whole_lines(file))
            try:
                while unwritten:
                    unwritten = unwritten[file.write(unwritten) :]
            finally:
                file.truncate(_measure_whole_lines(file))
                os.fsync(file.fileno())
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error


def _measure_whole_lines(file: FileIO) -> int:
    """Return the number of bytes in complete lines of a file."""
    if not os.fstat(file.fileno()).st_size:
        return 0
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.rfind(b"\n") + 1


def read_lines(path: Path, build: Callable[[dict[str, Any]], Item], kind: str) -> Iterator[Item]:
    """Build an item from each complete line, and yield the items in the order of writing.

    Args:
        path: The file.
        build: Makes an item from a line's object, or raises a ValueError, TypeError or LookupError.
        kind: The name for a line in messages.

    Raises:
        StudyError: A complete line cannot be read, or a link leads out of the study.
    """
    find_target(path)
    with open_regular(path) as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST_LINE), b""), start=1):
            if len(line) == _LONGEST_LINE:
                raise StudyError(f"{path}, line {number}: this line is too long to be a text; remove it")
            if not line.endswith(b"\n"):  # the line is incomplete, or another process is writing it
                return
            try:
                yield build(json.loads(line))
            except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
                raise StudyError(
                    f"{path}, line {number}: not a {kind} ({type(error).__name__}: {error}); remove it, and "
                    "guard-eval generate makes the text again"
                ) from error
