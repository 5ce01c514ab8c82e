"""Continuations on disk: one JSONL file per strategy, appended and synced batch by batch.

A line is a `Continuation` with its recipe laid flat, so that `datasets`, pandas and people read it as it is.
A process that dies leaves at most one torn last line; reading skips it and the next append cuts it off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study import Settings

_RECIPE = tuple(field.name for field in fields(Recipe))
_OWN = tuple(field.name for field in fields(Continuation) if field.name != "recipe")


def continuation_file(folder: Path, strategy: str) -> Path:
    """Return the file of a strategy's continuations; its name is the signature."""
    return folder / f"{strategy}.jsonl"


def read_continuations(path: Path) -> list[Continuation]:
    """Return the continuations of `path` in the order they were made; none if there is no such file.

    Raises:
        StudyError: A whole line cannot be read; it is named by its number.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error
    lines = data.split(b"\n")
    return [_parse(path, number, line) for number, line in enumerate(lines[:-1], start=1)]


def append_continuations(path: Path, batch: Iterable[Continuation]) -> None:
    """Append a batch and sync it to disk; when this returns the batch outlives a crash.

    Raises:
        StudyError: The file cannot be written (disk full, no permission); what stood in it stays valid.
    """
    data = b"".join(_line(continuation) for continuation in batch)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            whole = _whole_lines(path)
            file.truncate(whole)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                file.truncate(whole)
                raise
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


def _line(continuation: Continuation) -> bytes:
    row = asdict(continuation)
    recipe = row.pop("recipe")
    # Lone surrogates cannot be written as UTF-8; JSON's \u escapes carry them.
    return json.dumps({**row, **recipe}, ensure_ascii=not _encodable(continuation.text)).encode() + b"\n"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse(path: Path, number: int, line: bytes) -> Continuation:
    try:
        row: dict[str, Any] = json.loads(line)
        recipe = Recipe(**{name: row[name] for name in _RECIPE})
        return Continuation(recipe=recipe, **{name: row[name] for name in _OWN})
    except KeyError as error:
        raise StudyError(
            f"{path}, line {number}: has no key {error}; was it written by guard-eval generate?"
        ) from error
    except (ValueError, TypeError) as error:
        raise StudyError(
            f"{path}, line {number}: not a continuation ({error}); remove the line to make it anew"
        ) from error


def current_continuations(
    folder: Path, strategy: str, prompts: Iterable[Prompt], settings: Settings
) -> dict[str, Continuation]:
    """Return the continuation of each prompt that `settings` ask for, by prompt id, as far as it is made.

    A file may also hold what earlier settings made; only texts whose recipe and prompt still match count, and
    of several (a model folder whose weights changed) the last one made.
    """
    by_id = {prompt.id: prompt for prompt in prompts}
    wanted = (
        settings.model.name,
        settings.seed,
        settings.generation.max_new_tokens,
        settings.generation.max_prompt_tokens,
    )
    found: dict[str, Continuation] = {}
    for continuation in read_continuations(continuation_file(folder, strategy)):
        recipe = continuation.recipe
        prompt = by_id.get(continuation.prompt_id)
        made = (recipe.model, recipe.seed, recipe.max_new_tokens, recipe.max_prompt_tokens)
        if prompt and made == wanted and recipe.continuation_id(prompt) == continuation.id:
            found[prompt.id] = continuation
    return found
