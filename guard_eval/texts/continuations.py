"""Continuations on disk: one JSONL file per strategy and shard, appended and synced batch by batch.

A line is a `Continuation` with its recipe laid flat, so that `datasets`, pandas and people read it as it is.
A process that dies leaves at most one torn last line; reading skips it and the next append cuts it off. Each
shard has a file of its own, so no two processes ever append to the same one. An engine with many workers
leaves Parquet files beside it, a file every so many texts, with the same keys as columns. Such a file is
written under another name, synced, and only then renamed, so that a process that is killed leaves a whole
file or none. Readers take them all together.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Continuation, Recipe, Trace, content_id
from guard_eval.texts.shards import Shard

ALWAYS = tuple(field.name for field in fields(Recipe) if field.default is MISSING)
"""Keys of the recipe that every row has."""
RARE = {
    field.name: field.default
    for field in (*fields(Recipe), *fields(Continuation))
    if field.default is not MISSING
}
"""Keys of recipe and continuation that a row has where they are not as usual, and what is usual."""
OWN = tuple(
    field.name for field in fields(Continuation) if field.name != "recipe" and field.default is MISSING
)
"""Keys of the continuation itself that every row has."""
HASH = "text_hash"
"""The key by which a text that was edited later is noticed."""
PARTIAL = ".partial"
"""The end of the name of a file that is being written."""

_AT_ONCE = 1024
_WHOLE = {"prompt_tokens", "new_tokens", "batch", "seed", "max_new_tokens", "max_prompt_tokens", "run"}


def continuation_file(folder: Path, strategy: str, shard: Shard = Shard()) -> Path:  # noqa: B008 (frozen)
    """Return the file into which a shard's continuations by a strategy go; its name is the signature."""
    return folder / f"{strategy}{shard.suffix}.jsonl"


def trace_file(folder: Path, strategy: str, shard: Shard = Shard()) -> Path:  # noqa: B008
    """Return the file of the traces that belong to `continuation_file`."""
    return folder / f"{strategy}{shard.suffix}.trace.jsonl"


def trace_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files of traces of a strategy's texts, of all shards."""
    return _files(folder, strategy, r"\.trace\.jsonl")


def continuation_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files that hold continuations by a strategy: JSONL first, then by name."""
    return _files(folder, strategy, r"(\.jsonl|\.part-\d+\.parquet)")


def _files(folder: Path, strategy: str, ends: str) -> list[Path]:
    name = re.compile(re.escape(strategy) + r"(\.shard-\d+-of-\d+)?" + ends)
    found = [path for path in folder.iterdir() if name.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: (path.suffix, len(path.name), path.name))


def text_hash(row: Mapping[str, Any]) -> str:
    """Return a hash of a row's text, its length and its end, under its id."""
    return content_id(row["id"], row["text"], row["new_tokens"], row["finish"])


def row_of(continuation: Continuation) -> dict[str, Any]:
    """Return a continuation with its recipe laid flat."""
    row = asdict(continuation)
    flat = {**row.pop("recipe"), **row}
    rare = {name: flat[name] for name, default in RARE.items() if flat[name] != default}
    return {
        **{name: row[name] for name in OWN},
        HASH: text_hash(row),
        **{name: flat[name] for name in ALWAYS},
        **rare,
    }


def differing_field(one: Recipe, other: Recipe) -> str | None:
    """Return the first field in which two recipes differ."""
    names = (field.name for field in fields(Recipe))
    return next((name for name in names if getattr(one, name) != getattr(other, name)), None)


def continuation_of(row: dict[str, Any], where: str) -> Continuation:
    """Return the continuation of a row.

    Args:
        row: As `row_of` makes it; of a table, what is usual may be None.
        where: Its file and line, for messages.

    Raises:
        StudyError: A key is missing, it is no object, or its text was edited.
    """
    try:
        rare = {name: default if row.get(name) is None else row[name] for name, default in RARE.items()}
        run = rare.pop("run")
        recipe = Recipe(**{name: row[name] for name in ALWAYS}, **{**rare, "stop": tuple(rare["stop"])})
        made = Continuation(recipe=recipe, **{name: row[name] for name in OWN}, run=run)
        intact = row[HASH] == text_hash(row)
    except KeyError as error:
        raise StudyError(
            f"{where}: has no key {error}; was it written by this version of guard-eval generate? Remove the "
            "line, and it makes the text again"
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise StudyError(
            f"{where}: not a continuation ({error}); remove the line, and guard-eval generate makes it again"
        ) from error
    if not intact:
        raise StudyError(
            f"{where}: the text of {made.id} (prompt {made.prompt_id!r}) is not the one that was made: its "
            f"{HASH} is that of another text, length or end; restore the line, or remove it, and guard-eval "
            "generate makes it again"
        )
    return made


def read_continuations(path: Path) -> Iterator[Continuation]:
    """Yield the continuations of `path` in the order they were made, a few in memory at a time.

    There are none if there is no such file.

    Raises:
        StudyError: A whole line or record cannot be read; it is named by its number.
    """
    if path.suffix == ".parquet":
        yield from read_parquet(path)
        return
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):  # else its writer died, or is still at it
                    yield _parse(path, number, line)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error


def line_of(continuation: Continuation) -> bytes:
    """Return a continuation's line."""
    return _line(row_of(continuation))


def append_continuations(path: Path, batch: Iterable[Continuation]) -> None:
    """Append a batch and sync it to disk; when this returns the batch outlives a crash.

    Raises:
        StudyError: The file cannot be written (disk full, no permission); what stood in it stays valid, and
            so do the lines that still found room.
    """
    _append(path, b"".join(map(line_of, batch)))


def append_traces(path: Path, batch: Iterable[Trace]) -> None:
    """Append traces, as `append_continuations` does: one object a line, its values as lists by their names.

    Written before their continuations, so that none of these lacks its trace; after a crash in between a
    trace exists twice, the same both times.
    """
    rows = ({"id": trace.id, "prompt_id": trace.prompt_id, **trace.values} for trace in batch)
    _append(path, b"".join(map(_line, rows)))


def read_traces(paths: Iterable[Path]) -> list[Trace]:
    """Return the traces that `append_traces` wrote, in order, each text's once.

    A torn last line is skipped. A text that was traced twice counts where it came first, as it was last.

    Raises:
        StudyError: A file cannot be read, or a whole line is no trace; it is named by its number.
    """
    traces: dict[str, Trace] = {}
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StudyError(
                f"cannot read {path}: {error.strerror}; guard-eval generate --trace writes traces"
            ) from error
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            trace = _parsed_trace(path, number, line)
            traces[trace.id] = trace
    return list(traces.values())


def _parsed_trace(path: Path, number: int, line: bytes) -> Trace:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict):
        names = {name: row.pop(name, None) for name in ("id", "prompt_id")}
        if all(isinstance(name, str) for name in names.values()) and all(map(_is_series, row.values())):
            return Trace(**names, values=row)
    raise StudyError(
        f"{path}, line {number}: not a trace, which has an id, a prompt_id and lists of numbers by name; "
        f"was it written by guard-eval generate --trace? Remove the line to go on without it"
    )


def _is_series(values: object) -> bool:
    """Say whether these are finite numbers; Python's JSON knows others, and takes true for 1."""
    return isinstance(values, list) and all(
        type(value) in {int, float} and abs(value) <= sys.float_info.max for value in values
    )


def _append(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:  # a buffer would try again to write what found no room
            file.truncate(_whole_lines(path))
            try:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
            finally:
                file.truncate(_whole_lines(path))
                os.fsync(file.fileno())
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error


def _whole_lines(path: Path) -> int:
    """Return how many bytes of `path` are whole lines."""
    size = path.stat().st_size
    step = 65536
    with path.open("rb") as file:
        for start in range(max(0, size - step), -step, -step):
            file.seek(max(0, start))
            end = file.read(step).rfind(b"\n")
            if end >= 0:
                return max(0, start) + end + 1
    return 0


def _line(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # lone surrogates cannot be written as UTF-8; JSON's \\u escapes carry them
        return json.dumps(row).encode() + b"\n"


def _parse(path: Path, number: int, line: bytes) -> Continuation:
    where = f"{path}, line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StudyError(
            f"{where}: not a continuation ({error}); remove the line, and guard-eval generate makes it again"
        ) from error
    return continuation_of(row, where)


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
            "texts again"
        ) from error


def part_file(folder: Path, strategy: str, shard: Shard = Shard()) -> Path:  # noqa: B008
    """Return the path of a shard's next Parquet file: NAME.part-00001.parquet, then 00002 and so on."""
    stem = f"{strategy}{shard.suffix}"
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
    other = {"seconds": arrow.float64(), "chat": arrow.bool_(), "stop": arrow.list_(arrow.string())}
    return other.get(name, arrow.string())


def pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its module of Parquet, or raise a `MissingExtraError`."""
    if find_spec("pyarrow") is None:
        raise MissingExtraError("metrics", "pyarrow")
    return import_module("pyarrow"), import_module("pyarrow.parquet")
