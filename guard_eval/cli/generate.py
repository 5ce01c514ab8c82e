"""`guard-eval generate`: continuations by every strategy of the study."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import ValidationError

from guard_eval.cli.console import StudyFolder, say, say_next
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study, seen_from
from guard_eval.study.problems import explain, problems_of
from guard_eval.study.settings import Settings
from guard_eval.texts.shards import Shard

Engine = Literal["local", "ray", "vllm"]
"""Where texts are made."""


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
            "q), or another strategy's state, to continuations/NAME.trace.jsonl.",
        ),
    ] = False,
    engine: Annotated[
        Engine,
        typer.Option(
            help="local: this process. ray: workers on this machine or on a cluster, the same texts, in "
            "Parquet. vllm: vLLM, for the strategies that it can do."
        ),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|auto",
            help="For --engine ray: a Ray cluster that is running; without it one is started here and "
            "stopped in the end.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A Hugging Face id, folder or 'bundled', in place of study.toml's. It is part of each "
            "text's id: measure and pair use these texts once study.toml names it, too."
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="auto, cpu, cuda or cuda:1, in place of study.toml's; the arithmetic (dtype) that it brings "
            "along is part of the id, the device is not."
        ),
    ] = None,
    batch_size: Annotated[
        str | None,
        typer.Option(metavar="N|auto", help="In place of study.toml's; no part of the id."),
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

    Every batch is on disk before the next begins; existing texts are not made again. Stop it at any
    moment and run it again. A prompt keeps its last max_prompt_tokens tokens, a beginning-of-text token in
    front included; a chat model's template comes on top. With batch_size = "auto" batches grow as long as
    memory holds them, and shrink when it runs out.
    """
    if model is not None:
        model = seen_from(folder, model)
    generate(
        Study.open(folder),
        model=model,
        device=device,
        batch_size=int(batch_size) if batch_size and batch_size.isdecimal() else batch_size,
        strategies=strategy or (),
        shard=Shard.parse(shard) if shard else None,
        trace=trace,
        engine=engine,
        address=address,
        workers=workers,
        dry_run=dry_run,
    )
    if dry_run:
        options = {
            "--engine": None if engine == "local" else engine,
            "--address": address,
            "--workers": workers,
            "--model": model and shlex.quote(model),
            "--device": device,
            "--batch-size": batch_size,
        }
        given = "".join(f" {name} {value}" for name, value in options.items() if value is not None)
        say_next(f"guard-eval generate {folder}{given}")
    else:
        say_next(f"guard-eval measure {folder}", f"guard-eval pair {folder}")


def generate(
    study: Study,
    *,
    strategies: Sequence[str] = (),
    shard: Shard | None = None,
    trace: bool = False,
    engine: Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    model: str | None = None,
    device: str | None = None,
    batch_size: int | str | None = None,
    dry_run: bool = False,
) -> None:
    """Make the continuations that are missing; every batch is on disk before the next begins.

    `guard_eval.texts.current.current_texts` reads them.

    Args:
        study: The study.
        strategies: Only these of the study's; all if empty.
        shard: Only this part of the prompts.
        trace: Also write what GUARD adapted at every token.
        engine: Where they are made: this process, workers of Ray, or vLLM.
        address: Of a Ray cluster that is running; one is started here if None.
        workers: Of Ray, how many.
        model: In place of the settings'; it is part of the texts' ids, so that `measure` and `pair` use them
            once the settings name it, too.
        device: In place of the settings'.
        batch_size: In place of the settings'; a number, or `auto`.
        dry_run: Only say what would be made.

    Raises:
        StudyError: What is asked for does not go together, or cannot be made; what is made stays.
    """
    shard = shard or Shard()
    study = _with(study, model=model, device=device, batch_size=batch_size)
    if trace and engine != "local":
        raise StudyError(f"--trace is for --engine local, not {engine}; leave one of them out")
    for name, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine != "ray":
            raise StudyError(f"{name} {value} is for --engine ray, not {engine}; leave it out")
    # Each engine's libraries take seconds to load, and need not be installed for another engine.
    if engine == "vllm":
        from guard_eval.cli.generation import vllm  # noqa: PLC0415

        vllm.run(study, dry_run=dry_run, shard=shard, only=strategies)
    elif engine == "ray":
        from guard_eval.cli.generation import ray  # noqa: PLC0415

        ray.run(study, dry_run=dry_run, shard=shard, only=strategies, address=address, workers=workers)
    else:
        from guard_eval.cli.generation import local  # noqa: PLC0415

        local.run(study, dry_run=dry_run, shard=shard, only=strategies, trace=trace)


def _with(study: Study, *, model: str | None, device: str | None, batch_size: int | str | None) -> Study:
    """Return the study with other settings; of another model the newest revision is meant.

    Raises:
        StudyError: One of them cannot be.
    """
    settings = study.settings
    for_model = {key: value for key, value in (("name", model), ("device", device)) if value is not None}
    for_texts = {} if batch_size is None else {"batch_size": batch_size}
    if not for_model and not for_texts:
        return study
    if model not in {None, settings.model.name}:
        for_model["revision"] = "main"
        say(f"--model {model}: measure and pair use these texts once study.toml names it ([model], name)")
    try:
        return replace(
            study,
            settings=settings.model_copy(
                update={
                    "model": type(settings.model).model_validate(
                        {**settings.model.model_dump(), **for_model}
                    ),
                    "generation": type(settings.generation).model_validate(
                        {**settings.generation.model_dump(), **for_texts}
                    ),
                }
            ),
        )
    except ValidationError as error:
        raise StudyError(explain(Path("the command line"), problems_of(error, Settings))) from error
