"""`guard-eval generate`: continuations by every strategy of the study."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import StudyFolder, say, say_next

if TYPE_CHECKING:
    from guard_eval.study.folder import Study
    from guard_eval.texts.shards import Shard


class Engine(StrEnum):
    """Where texts are made."""

    LOCAL = "local"
    RAY = "ray"
    VLLM = "vllm"


def command(
    folder: StudyFolder,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be made, how much of it and how long, and stop."),
    ] = False,
    strategy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this strategy of the study; may be given several times."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only the I-th of N parts of the prompts, I from 1 to N: run each on a GPU or machine of "
            "its own. A prompt's part follows from its id, so the runs need not know of each other.",
        ),
    ] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Also write, for each new text, what GUARD adapted at every token (H_t, H_glob,t, k_t, α_t, "
            "q) to continuations/NAME.trace.jsonl.",
        ),
    ] = False,
    engine: Annotated[
        Engine,
        typer.Option(
            help="local: this process. ray: workers on this machine or on a cluster, the same texts, in "
            "Parquet. vllm: vLLM, for the strategies that it can do."
        ),
    ] = Engine.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|auto",
            help="For --engine ray: a Ray cluster that is running; without it one is started here and "
            "stopped in the end.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="For --engine ray: models at work at once; default: one for each GPU, without GPUs one for "
            "each CPU but one.",
        ),
    ] = None,
) -> None:
    """Write continuations with every strategy.

    Every batch is on disk before the next begins; what is there already is not made again. Stop it at any
    moment and run it again. A prompt keeps its last max_prompt_tokens tokens, a beginning-of-text token in
    front included; a chat model's template comes on top. With batch_size = "auto" batches grow as long as
    memory holds them, and shrink when it runs out.
    """
    from guard_eval.study.folder import Study
    from guard_eval.texts.shards import Shard

    run(
        Study.open(folder),
        dry_run=dry_run,
        shard=Shard.parse(shard) if shard else Shard(),
        only=strategy or (),
        trace=trace,
        engine=engine,
        address=address,
        workers=workers,
    )
    if dry_run:
        say_next(f"guard-eval generate {folder}{_given(engine, address=address, workers=workers)}")
    else:
        say_next(f"guard-eval measure {folder}", f"guard-eval pair {folder}")


def _given(engine: Engine, *, address: str | None, workers: int | None) -> str:
    """Return how the engine is named on the command line."""
    named = "" if engine is Engine.LOCAL else f" --engine {engine}"
    return named + "".join(
        f" {option} {value}"
        for option, value in (("--address", address), ("--workers", workers))
        if value is not None
    )


def run(
    study: Study,
    *,
    dry_run: bool = False,
    shard: Shard | None = None,
    only: Sequence[str] = (),
    trace: bool = False,
    engine: Engine = Engine.LOCAL,
    address: str | None = None,
    workers: int | None = None,
) -> None:
    """Make what is missing, batch by batch; every batch is on disk before the next begins."""
    from guard_eval.texts.shards import Shard

    shard = shard or Shard()
    _refuse(engine, trace=trace, address=address, workers=workers)
    if engine is Engine.VLLM:
        from guard_eval.cli.generation import vllm

        vllm.run(study, dry_run=dry_run, shard=shard, only=only)
    elif engine is Engine.RAY:
        from guard_eval.cli.generation import ray

        ray.run(study, dry_run=dry_run, shard=shard, only=only, address=address, workers=workers)
    else:
        _run_here(study, dry_run=dry_run, shard=shard, only=only, trace=trace)


def _refuse(engine: Engine, *, trace: bool, address: str | None, workers: int | None) -> None:
    """Refuse what an engine cannot be told, before anything is read."""
    from guard_eval.errors import StudyError

    if trace and engine is not Engine.LOCAL:
        raise StudyError(f"--trace is for --engine local, not {engine}; leave one of them out")
    for name, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine is not Engine.RAY:
            raise StudyError(f"{name} {value} is for --engine ray, not {engine}; leave it out")


def _run_here(study: Study, *, dry_run: bool, shard: Shard, only: Sequence[str], trace: bool) -> None:
    from guard_eval.cli.generation import local
    from guard_eval.cli.generation.work import chosen, forecast, made_with, work_of
    from guard_eval.texts.prompts import read_prompts
    from guard_eval.texts.shards import reserve

    prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
    strategies = chosen(study, only)
    made_by = made_with(study, strategies)
    work = partial(work_of, study, strategies, prompts, shard)
    if dry_run:
        forecast(study, work(made_by))
        return
    with reserve(study.continuations, shard):
        found = work(made_by)
        if any(one.missing for one in found):
            local.make(study, found, shard, trace=trace, expected=made_by, work_again=work)
        elif trace:
            say("--trace: nothing is made, so nothing is traced; a trace comes with a text's making")
