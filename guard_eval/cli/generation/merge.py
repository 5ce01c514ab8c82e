"""`guard-eval merge`: what several processes and machines made, checked and joined into a file a strategy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.console import is_study, progress, say, say_next
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files
from guard_eval.texts.merging import Merged, merge_files, merge_strategy
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard, reserve

_SHOWN = 5
_SHARD = re.compile(r"\.shard-\d+-of-(\d+)\.")


def command(
    targets: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY|FILE...",
            help="A study's folder, or files that guard-eval generate wrote: JSONL, Parquet.",
        ),
    ],
    others: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Also what another machine made: its copy of the study, or of its continuations. May be "
            "given several times; the folder stays as it is.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="For files: what they become, .jsonl or .parquet."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, say what would be joined, and stop.")
    ] = False,
) -> None:
    """Check and join the parts of a study's continuations.

    The files of --shard i/n and of --engine ray become one file for each strategy. A text that occurs twice
    counts once; two different texts of one id are refused. What is missing is listed, with the command that
    makes it. Parts are removed when the whole is on disk; stop it at any moment and run it again.
    """
    if is_study(targets):
        if output is not None:
            raise StudyError(f"--output {output} is for files; a study's continuations stay in its folder")
        merge(Study.open(targets[0]), [_continuations(path) for path in others or ()], dry_run=dry_run)
        return
    if others:
        raise StudyError("--from is for a study; name all files one after the other, and --output")
    _merge_files(targets, output, dry_run=dry_run)


def merge(study: Study, others: Sequence[Path] = (), *, dry_run: bool = False) -> list[Merged]:
    """Join a study's files, strategy by strategy, all of them checked before the first is written.

    Args:
        study: The study.
        others: Folders of continuations that another machine made.
        dry_run: Only check.

    Returns:
        For each strategy what was joined, and what is missing.

    Raises:
        StudyError: Something does not fit together; what stood there still does.
    """
    settings = study.settings
    prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
    strategies = settings.generation.strategies
    _name_foreign([study.continuations, *others], strategies)
    merged: list[Merged] = []
    with reserve(study.continuations, Shard()):
        for write in (False,) if dry_run else (False, True):
            with progress("texts") as bar:
                task = bar.add_task("joining" if write else "checking", total=None, note="")
                merged = [
                    merge_strategy(
                        study.continuations,
                        others,
                        strategy,
                        prompts,
                        settings,
                        write=write,
                        progress=lambda n, task=task, bar=bar: bar.advance(task, n),  # type: ignore[misc]
                    )
                    for strategy in strategies
                ]
            if not write:
                for one in merged:
                    _show(one, len(prompts) * settings.runs_of(one.strategy))
    lacking = [command for one in merged for command in _commands(study, one)]
    if dry_run:
        say_next(" ".join(["guard-eval merge", str(study.folder), *(f"--from {path}" for path in others)]))
    elif lacking:
        say_next(*dict.fromkeys(lacking))
    else:
        say_next(f"guard-eval measure {study.folder}", f"guard-eval pair {study.folder}")
    return merged


def _continuations(folder: Path) -> Path:
    """Return where another machine's continuations lie, given its study or that folder."""
    inner = folder / "continuations"
    if inner.is_dir():
        return inner
    if not folder.is_dir():
        raise StudyError(f"--from {folder}: there is no such folder; copy the other machine's study there")
    return folder


def _name_foreign(folders: Sequence[Path], strategies: Sequence[str]) -> None:
    """Say which files are none of the study's strategies'."""
    for folder in folders:
        ours = {path for strategy in strategies for path in continuation_files(folder, strategy)}
        files = [*folder.glob("*.jsonl"), *folder.glob("*.parquet")] if folder.is_dir() else []
        for path in sorted(set(files) - ours):
            if not path.name.endswith(".trace.jsonl"):
                say(f"{path}: of none of the study's strategies; left alone")


def _show(one: Merged, wanted: int) -> None:
    found = [f"{wanted - len(one.missing)} of {wanted} continuations in {len(one.files)} files"]
    if one.doubled:
        found.append(f"{one.doubled} occur twice, the same both times")
    if one.earlier:
        found.append(f"{one.earlier} that earlier settings made, kept")
    say(f"{one.strategy}: {'; '.join(found)}")
    if one.missing:
        names = ", ".join(
            prompt.id if run == 1 else f"{prompt.id} (run {run})" for prompt, run in one.missing[:_SHOWN]
        )
        more = f" and {len(one.missing) - _SHOWN} more" if len(one.missing) > _SHOWN else ""
        say(f"  missing: {names}{more}")
        for shard, number in _shards(one).items():
            say(f"  of shard {shard}: {number}")


def _shards(one: Merged) -> dict[str, int]:
    """Return how many missing texts are of which shard, where the files tell of one division."""
    divisions = {int(found[1]) for path in one.files if (found := _SHARD.search(path.name))}
    if len(divisions) != 1:
        return {}
    count = divisions.pop()
    parts = [Shard(number, count) for number in range(1, count + 1)]
    held = Counter(str(shard) for prompt, _ in one.missing for shard in parts if shard.holds(prompt.id))
    return {str(shard): held[str(shard)] for shard in parts if held[str(shard)]}


def _commands(study: Study, one: Merged) -> list[str]:
    if not one.missing:
        return []
    shards = _shards(one)
    plain = f"guard-eval generate {study.folder}"
    return [f"{plain} --shard {shard}" for shard in shards] or [plain]


def _merge_files(paths: Sequence[Path], output: Path | None, *, dry_run: bool) -> None:
    for path in paths:
        if path.suffix not in {".jsonl", ".parquet"}:
            raise StudyError(
                f"{path}: no file of guard-eval generate; name .jsonl and .parquet files, or a study"
            )
        if not path.exists():
            raise StudyError(f"there is no file {path}; check its name")
    if output is None:
        raise StudyError("say what the files become: --output OUT.jsonl")
    if output.suffix not in {".jsonl", ".parquet"}:
        raise StudyError(f"--output {output} names no format; let it end in .jsonl or .parquet")
    if output.exists():
        raise StudyError(f"--output {output} exists already; name another file, or remove it")
    merged = merge_files(paths, output, write=not dry_run)
    twice = f", {merged.doubled} more occur twice and are the same" if merged.doubled else ""
    say(f"{merged.strategy}: {merged.texts} texts of {len(paths)} files{twice}")
    if dry_run:
        say_next(f"guard-eval merge {' '.join(map(str, paths))} -o {output}")
    else:
        say(f"continuations: {output}")
        say_next(f"guard-eval measure {output}")
