"""Joining what several processes and machines made: checked text by text, and nothing lost whenever it stops.

The parts of a strategy become one JSONL file: it is written under another name, synced, and given its own;
only then are the parts removed. A process killed in between leaves texts twice at worst, the same both
times, and merging again finishes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.study.settings import Settings
from guard_eval.texts.continuations import (
    continuation_file,
    continuation_files,
    differing_field,
    line_of,
    read_continuations,
    trace_file,
    trace_files,
    whole_file,
    write_parquet,
)
from guard_eval.texts.current import departures, kind, refuse_mixture, wanted

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What joining a strategy's files came to.

    Attributes:
        strategy: Its signature.
        files: What was joined.
        texts: Texts in the file that they become.
        doubled: Texts that came more than once, the same each time; each is kept once.
        earlier: Of `texts`, those that other settings made, or of other prompts or runs; they are kept.
        missing: Prompts and runs of the study without a text.
    """

    strategy: str
    files: tuple[Path, ...]
    texts: int
    doubled: int
    earlier: int
    missing: tuple[tuple[Prompt, int], ...]


def merge_strategy(
    folder: Path,
    others: Sequence[Path],
    strategy: str,
    prompts: Sequence[Prompt],
    settings: Settings,
    *,
    write: bool = True,
    progress: Callable[[int], None] = lambda _: None,
) -> Merged:
    """Join the files of a strategy in `folder`, and those of `others`, into one; `others` stay as they are.

    Args:
        folder: The study's continuations.
        others: Folders of continuations from other machines.
        strategy: Its signature.
        prompts: The study's.
        settings: The study's; texts from elsewhere must have been made with them.
        write: Join; else check alone.
        progress: Called for each text.

    Raises:
        StudyError: Two texts of one id differ, a text from elsewhere is none of this study's, texts of
            several kinds would be mixed, or a line cannot be read; where, and what to do, is named, and
            nothing has been changed.
    """
    own = continuation_files(folder, strategy)
    guests = [path for other in others for path in continuation_files(other, strategy)]
    by_id = {prompt.id: prompt for prompt in prompts}
    runs = range(1, settings.runs_of(strategy) + 1)
    kinds: dict[Recipe, set[tuple[str, int]]] = {}
    earlier = 0
    seen = _Seen()

    def chosen() -> Iterator[Continuation]:
        nonlocal earlier
        for path in (*own, *guests):
            for one, where in seen.new(path):
                progress(1)
                prompt = by_id.get(one.prompt_id)
                wrong = _departure(one, prompt, strategy, settings)
                if not wrong and path in guests and kinds and one.recipe not in kinds:
                    here = " and ".join(map(kind, kinds))
                    wrong = f"it is of another kind, {kind(one.recipe)}, here {here}"
                if not wrong and one.run in runs:
                    kinds.setdefault(one.recipe, set()).add((one.prompt_id, one.run))
                elif not wrong:
                    earlier += 1
                elif path in guests:
                    raise StudyError(
                        f"{where}: not of this study: {wrong}; name the folder of a machine that ran "
                        "the same study.toml and prompts"
                    )
                else:
                    earlier += 1
                yield one
        refuse_mixture(strategy, folder.parent, kinds)

    target = continuation_file(folder, strategy)
    if write and [*own, *guests] != [target]:
        _join_traces(folder, others, strategy)
        _write(target, map(line_of, chosen()))
        _remove(path for path in own if path != target)
    else:
        for _ in chosen():
            pass
    found = max(kinds.values(), key=len, default=set())
    return Merged(
        strategy=strategy,
        files=(*own, *guests),
        texts=len(seen),
        doubled=seen.doubled,
        earlier=earlier + sum(map(len, kinds.values())) - len(found),
        missing=tuple((prompt, run) for prompt in prompts for run in runs if (prompt.id, run) not in found),
    )


def merge_files(paths: Sequence[Path], output: Path, *, write: bool = True) -> Merged:
    """Join files that need no study: all texts by one recipe. The files stay as they are.

    Args:
        paths: JSONL or Parquet, as `guard-eval generate` writes them.
        output: A `.jsonl` or `.parquet` file that does not exist yet.
        write: Join; else check alone.

    Raises:
        StudyError: As `merge_strategy`, or the recipes differ.
    """
    seen = _Seen()
    first: tuple[Recipe, str] | None = None
    found: list[Continuation] = []
    for path in paths:
        for one, where in seen.new(path):
            recipe, before = first = first or (one.recipe, where)
            name = differing_field(recipe, one.recipe)
            if name:
                raise StudyError(
                    f"{where}: {name} is {getattr(one.recipe, name)!r}, and {getattr(recipe, name)!r} in "
                    f"{before}; merge texts of one recipe at a time, or a study: guard-eval merge STUDY"
                )
            found.append(one)
    if first is None:
        raise StudyError(f"{', '.join(map(str, paths))}: no texts in it; name files of guard-eval generate")
    if write and output.suffix == ".parquet":
        write_parquet(output, found)
    elif write:
        _write(output, map(line_of, found))
    return Merged(
        strategy=first[0].strategy,
        files=tuple(paths),
        texts=len(seen),
        doubled=seen.doubled,
        earlier=0,
        missing=(),
    )


class _Seen:
    """Ids that have come, each with a hash of its text and where it stood; about 200 bytes a text."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[int, Path, int]] = {}
        self.doubled = 0

    def __len__(self) -> int:
        return len(self._texts)

    def new(self, path: Path) -> Iterator[tuple[Continuation, str]]:
        """Yield the texts of a file that have not come before, and where they stand."""
        for number, one in enumerate(read_continuations(path), start=1):
            text = hash((one.text, one.new_tokens, one.finish))
            before = self._texts.setdefault(one.id, (text, path, number))
            if before == (text, path, number):
                yield one, _place(path, number)
            elif before[0] == text:
                self.doubled += 1
            else:
                raise StudyError(
                    f"{_place(*before[1:])} and {_place(path, number)} have the same id, {one.id}, and "
                    "different texts; the machines' arithmetic differs, or one was changed: remove one"
                )


def _place(path: Path, number: int) -> str:
    return f"{path}, {'record' if path.suffix == '.parquet' else 'line'} {number}"


def _departure(one: Continuation, prompt: Prompt | None, strategy: str, settings: Settings) -> str:
    """Return what makes a text none of the study's, or nothing."""
    if prompt is None:
        return f"the study has no prompt {one.prompt_id!r}"
    if one.recipe.strategy != strategy:
        return f"it is by {one.recipe.strategy}, in a file of {strategy}"
    wrong = departures(one.recipe, wanted(strategy, settings))
    if wrong:
        return f"other settings made it ({', '.join(wrong.values())})"
    if one.recipe.continuation_id(prompt, one.run) != one.id:
        return f"its prompt {prompt.id!r} had another text"
    return ""


def _join_traces(folder: Path, others: Sequence[Path], strategy: str) -> None:
    own = trace_files(folder, strategy)
    target = trace_file(folder, strategy)
    paths = [*own, *(path for other in others for path in trace_files(other, strategy))]
    if paths not in ([], [target]):
        _write(target, _traces(paths))
        _remove(path for path in own if path != target)


def _traces(paths: Iterable[Path]) -> Iterator[bytes]:
    """Yield the lines of traces, each text's once; who reads them says which are none."""
    seen: set[str] = set()
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                with suppress(ValueError, RecursionError, KeyError, TypeError):
                    name = json.loads(line)["id"]
                    if name in seen:
                        continue
                    seen.add(name)
                if line.endswith(b"\n"):
                    yield line


def _write(path: Path, lines: Iterable[bytes]) -> None:
    with whole_file(path) as file:
        file.writelines(lines)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StudyError(
                f"cannot remove {path}: {error.strerror}; its texts are in the joined file: remove it"
            ) from error
