"""Continuations on disk: one JSONL file per strategy and shard, appended and synced batch by batch.

A line is a `Continuation` with its recipe laid flat, so that `datasets`, pandas and people read it as it is.
A process that dies leaves at most one torn last line; reading skips it and the next append cuts it off. Each
shard has a file of its own, so no two processes ever append to the same one. An engine with many workers
leaves Parquet files beside it (`continuation_parquet.py`). Readers take them all together.
"""

from __future__ import annotations

import json
import os
import re
import sys
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from guard_eval.continuation_parquet import next_part, read_parquet
from guard_eval.continuation_rows import continuation_of, row_of
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe, Trace
from guard_eval.settings import Settings
from guard_eval.shards import Shard

_ID = re.compile("[0-9a-f]{16}")


def continuation_file(folder: Path, strategy: str, shard: Shard = Shard()) -> Path:  # noqa: B008 (frozen)
    """Return the file into which a shard's continuations by a strategy go; its name is the signature."""
    return folder / f"{strategy}{shard.suffix}.jsonl"


def trace_file(folder: Path, strategy: str, shard: Shard = Shard()) -> Path:  # noqa: B008
    """Return the file of the traces that belong to `continuation_file`."""
    return folder / f"{strategy}{shard.suffix}.trace.jsonl"


def trace_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files of traces of a strategy's texts, of all shards."""
    name = re.compile(re.escape(strategy) + r"(\.shard-\d+-of-\d+)?\.trace\.jsonl")
    found = [path for path in folder.iterdir() if name.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: (len(path.name), path.name))


def continuation_files(folder: Path, strategy: str) -> list[Path]:
    """Return the files that hold continuations by a strategy: JSONL first, then by name."""
    name = re.compile(re.escape(strategy) + r"(\.shard-\d+-of-\d+)?(\.jsonl|\.part-\d+\.parquet)")
    found = [path for path in folder.iterdir() if name.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: (path.suffix, len(path.name), path.name))


def part_file(folder: Path, strategy: str, shard: Shard = Shard()) -> Path:  # noqa: B008
    """Return the path of the next Parquet file of a shard's continuations by a strategy."""
    return next_part(folder, f"{strategy}{shard.suffix}")


def read_continuations(path: Path) -> list[Continuation]:
    """Return the continuations of `path` in the order they were made; none if there is no such file.

    Raises:
        StudyError: A whole line cannot be read; it is named by its number.
    """
    return list(iter_continuations(path))


def iter_continuations(path: Path) -> Iterator[Continuation]:
    """Yield the continuations of `path`, as `read_continuations`, with a few in memory at a time."""
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
    """Return the line that stands for a continuation."""
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
    trace is there twice, the same both times.
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
            f"cannot write {path}: {error.strerror}; mend that and run the command again"
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
        raise StudyError(f"{where}: not a continuation ({error}); remove the line to make it anew") from error
    return continuation_of(row, where)


def current_continuations(
    folder: Path, strategy: str, prompts: Iterable[Prompt], settings: Settings
) -> dict[str, Continuation]:
    """Return the continuation of each prompt that `settings` ask for, by prompt id, as far as it is made.

    A file may also hold what earlier settings made; only texts whose recipe and prompt still match count, and
    of several (a model folder whose weights changed) the last one made.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    found: dict[str, Continuation] = {}
    for path in continuation_files(folder, strategy):
        for continuation in iter_continuations(path):
            prompt = by_id.get(continuation.prompt_id)
            if (
                prompt
                and is_asked_for(continuation.recipe, strategy, settings)
                and continuation.recipe.continuation_id(prompt) == continuation.id
            ):
                found[prompt.id] = continuation
    return found


def is_asked_for(recipe: Recipe, strategy: str, settings: Settings) -> bool:
    """Return whether a text was made as `settings` ask for it, by whichever revision of the model."""
    made = (
        recipe.model,
        recipe.seed,
        recipe.max_new_tokens,
        recipe.max_prompt_tokens,
        recipe.amateur,
        recipe.chat,
    )
    return made == (
        settings.model.name,
        settings.seed,
        settings.generation.max_new_tokens,
        settings.generation.max_prompt_tokens,
        settings.amateur_of(strategy),
        settings.generation.chat,
    )


class MadeAlready:
    """Which prompts a strategy has continued as the settings ask for it: `prompt in made`.

    It holds eight bytes a text, however long the texts are, and says the same as `current_continuations`.

    Attributes:
        seconds: How long the texts took, together.
        devices: Where they were made.
    """

    def __init__(self, folder: Path, strategy: str, settings: Settings) -> None:
        """Read what there is, text by text."""
        ids = array("Q")
        self.seconds = 0.0
        devices, recipes = set(), set()
        for path in continuation_files(folder, strategy):
            for continuation in iter_continuations(path):
                if is_asked_for(continuation.recipe, strategy, settings) and _ID.fullmatch(continuation.id):
                    ids.append(int(continuation.id, 16))
                    self.seconds += continuation.seconds
                    devices.add(continuation.device)
                    recipes.add(continuation.recipe)
        self.devices = frozenset(devices)
        self._recipes = tuple(recipes)
        self._ids = np.unique(np.frombuffer(ids, dtype=np.uint64) if ids else np.empty(0, np.uint64))

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, prompt: Prompt) -> bool:
        return any(self._holds(recipe.continuation_id(prompt)) for recipe in self._recipes)

    def _holds(self, name: str) -> bool:
        wanted = np.uint64(int(name, 16))
        place = int(np.searchsorted(self._ids, wanted))
        return place < len(self._ids) and bool(self._ids[place] == wanted)
