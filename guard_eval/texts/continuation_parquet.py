"""Continuations in Parquet: what an engine with many workers writes, a file every so many texts.

A file is written under another name, synced, and only then given its own, so that whoever dies leaves a whole
file or none. Columns are the keys of the JSONL lines; pandas and `datasets` read them as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Continuation
from guard_eval.texts.continuation_rows import ALWAYS, HASH, OWN, RARE, continuation_of, row_of

PARTIAL = ".partial"
"""The end of the name of a file that is being written."""

_AT_ONCE = 1024
_WHOLE = {"prompt_tokens", "new_tokens", "batch", "seed", "max_new_tokens", "max_prompt_tokens"}


def write_parquet(path: Path, batch: Sequence[Continuation]) -> None:
    """Write a file of continuations; when this returns it outlives a crash, and until then there is none.

    Raises:
        StudyError: It cannot be written, or an id holds what is no UTF-8.
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    try:
        rows = [row_of(one) for one in batch]
        more = [name for name in RARE if any(name in row for row in rows)]
        schema = arrow.schema([(name, _type(arrow, name)) for name in (*OWN, HASH, *ALWAYS, *more)])
        table = arrow.Table.from_pylist(rows, schema=schema)
    except UnicodeEncodeError as error:
        raise StudyError(
            f"cannot write {path}: {error.object[:60]!r} is no valid Unicode; fix the id of that prompt"
        ) from error
    with whole_file(path) as file:
        parquet.write_table(table, file, compression="zstd")


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to be written whole or not at all; after the block it outlives a crash of the machine.

    Raises:
        StudyError: It cannot be written.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def read_parquet(path: Path) -> Iterator[Continuation]:
    """Yield the continuations of a file, some at a time in memory.

    Raises:
        StudyError: It cannot be read; remedy named.
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = pyarrow()
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield continuation_of(row, f"{path}, record {number}")
    except FileNotFoundError:
        return
    except (arrow.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StudyError(
            f"{path} cannot be read as Parquet ({reason}); remove it, and guard-eval generate makes its "
            "texts anew"
        ) from error


def next_part(folder: Path, stem: str) -> Path:
    """Return the path of the next file of a series: `stem`.part-00001.parquet, then 00002 and so on."""
    name = re.compile(re.escape(stem) + r"\.part-(\d+)\.parquet")
    found = (name.fullmatch(path.name) for path in folder.iterdir()) if folder.is_dir() else ()
    last = max((int(match[1]) for match in found if match), default=0)
    return folder / f"{stem}.part-{last + 1:05d}.parquet"


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder outlive a crash of the machine, where its system knows how."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _type(arrow: Any, name: str) -> Any:  # noqa: ANN401 (untyped)
    if name in _WHOLE:
        return arrow.int64()
    return {"seconds": arrow.float64(), "chat": arrow.bool_()}.get(name, arrow.string())


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its module of Parquet, or raise a `MissingExtraError`."""
    if find_spec("pyarrow") is None:
        raise MissingExtraError("metrics", "pyarrow")
    return import_module("pyarrow"), import_module("pyarrow.parquet")
