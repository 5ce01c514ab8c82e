"""`guard-eval generate`: continuations by every strategy of the study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import StudyFolder, console, progress, say, say_next

if TYPE_CHECKING:
    from guard_eval.records import Prompt
    from guard_eval.study import Study


def command(
    folder: StudyFolder,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be made, and stop.")] = False,
) -> None:
    """Write continuations with every strategy.

    Every batch is on disk before the next begins; what is there already is not made again.
    """
    from guard_eval.study import Study

    run(Study.open(folder), dry_run=dry_run)
    if dry_run:
        say_next(f"guard-eval generate {folder}")
    else:
        say_next(f"guard-eval measure {folder}", f"guard-eval pair {folder}")


def run(study: Study, *, dry_run: bool = False) -> None:
    """Make what is missing, batch by batch; every batch is on disk before the next begins."""
    from guard_eval.continuations import current_continuations
    from guard_eval.corpora import read_prompts

    settings = study.settings
    prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
    missing = {}
    for strategy in settings.generation.strategies:
        made = current_continuations(study.continuations, strategy, prompts, settings)
        missing[strategy] = [prompt for prompt in prompts if prompt.id not in made]
        say(f"{strategy}: {len(made)} of {len(prompts)} continuations are there")
    total = sum(map(len, missing.values()))
    if dry_run:
        most = total * settings.generation.max_new_tokens
        say(f"would make {total} continuations of at most {most:,} tokens with {settings.model.name}")
    elif total:
        _make(study, missing)


def _make(study: Study, missing: dict[str, list[Prompt]]) -> None:
    from guard_eval.continuations import append_continuations, continuation_file
    from guard_eval.engines.loading import load
    from guard_eval.engines.local import generate, warm_up
    from guard_eval.strategies import parse

    settings = study.settings
    with console().status("loading the model"):
        loaded = load(
            study.locate_model(settings.model.name),
            name=settings.model.name,
            revision=settings.model.revision,
            dtype=settings.model.dtype,
            device=settings.model.device,
        )
        warm_up(loaded)
    say(f"{loaded.name} ({loaded.revision}), {loaded.dtype} on {loaded.device}")
    with progress("texts") as bar:
        for strategy, prompts in missing.items():
            if not prompts:
                continue
            task = bar.add_task(strategy, total=len(prompts), note="")
            tokens = seconds = 0.0
            for batch in generate(
                loaded,
                prompts,
                parse(strategy),
                seed=settings.seed,
                max_new_tokens=settings.generation.max_new_tokens,
                max_prompt_tokens=settings.generation.max_prompt_tokens,
                batch_size=settings.generation.batch_size,
            ):
                append_continuations(continuation_file(study.continuations, strategy), batch)
                tokens += sum(c.new_tokens for c in batch)
                seconds += sum(c.seconds for c in batch)
                bar.update(
                    task, advance=len(batch), note=f"{tokens / seconds:,.0f} tokens/s" if seconds else ""
                )
    say(f"continuations: {study.continuations}{Path('/')}")
