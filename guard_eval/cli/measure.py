"""`guard-eval measure`: automatic metrics of a study's continuations, or of any file of generations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from guard_eval.cli import commands
from guard_eval.cli.console import is_study, say_next
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study

Engine = Literal["local", "ray"]
"""Where models read."""


def command(
    targets: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY|FILE...",
            help="A study's folder, or files of generations: JSONL, JSON, CSV, XLSX, Parquet. "
            "A record has the text and, where known, prompt, reference, strategy, dataset, id.",
        ),
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Only these, with commas: diversity, mauve, coherence, bertscore, perplexity, repetition, "
            "distinct, self_bleu, length, speed."
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Compare every other strategy with this one, prompt by prompt.")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="For files: a TOML file with a table [metrics], as in study.toml."),
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="For files without prompts: where they and the references are, by id.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="For files: the key or column of the texts; given several times, each is a strategy.",
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="For files: of a prompt's texts the N-th; default: the first."),
    ] = None,
    all_runs: Annotated[
        bool, typer.Option("--all-runs", help="For files: all texts of a prompt; a study's all count.")
    ] = False,
    coherence_model: Annotated[str | None, typer.Option(help="Whose log-likelihoods coherence is.")] = None,
    mauve_model: Annotated[str | None, typer.Option(help="Whose hidden states MAUVE compares.")] = None,
    bertscore_model: Annotated[str | None, typer.Option(help="The encoder of BERTScore.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of the scoring models; default: float32 on a CPU, bfloat16 on a GPU.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="For files: a folder for tables, figures and scores already taken. A study has its own; "
            "without one, a file's metrics are only printed."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For files: of everything random.")] = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="local: this process. ray: workers, on this machine or on a cluster, read the texts for "
            "coherence, perplexity, MAUVE and BERTScore; the same numbers."
        ),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT|auto",
            help="For --engine ray: a Ray cluster that is running; without it one is started here.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="For --engine ray: models at work at once.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, and stop.")] = False,
) -> None:
    """Score continuations, and say how sure the scores are.

    Diversity, MAUVE, coherence, BERTScore, perplexity, repetition, length and speed, per dataset and
    strategy, with the human reference and intervals over prompts. With a baseline also differences, tests
    and Holm's correction. No model reads a text twice: stop it at any moment and run it again. A
    metric whose model is not available is named in the end (exit code 2); all others are written.

    A file of published texts: guard-eval measure texts.jsonl --metrics diversity
    """
    for name, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine != "ray":
            raise StudyError(f"{name} {value} is for --engine ray, not {engine}; leave it out")
    if run is not None and all_runs:
        raise StudyError(f"--run {run} and --all-runs contradict each other; leave one of them out")
    in_place = {
        "compute": metrics and [name.strip() for name in metrics.split(",") if name.strip()],
        "coherence_model": coherence_model,
        "mauve_model": mauve_model,
        "bertscore_model": bertscore_model,
        "baseline": baseline,
    }
    options = commands.MeasureOptions(
        settings={key: value for key, value in in_place.items() if value},
        device=device,
        dtype=dtype,
        engine=engine,
        address=address,
        workers=workers,
    )
    if is_study(targets):
        for_files: dict[str, object] = {
            "settings": settings,
            "prompts": prompts,
            "output": output,
            "seed": seed,
        }
        for_files |= {"column": column, "run": run, "all-runs": all_runs or None}
        if given := [name for name, value in for_files.items() if value is not None]:
            raise StudyError(f"--{given[0]} is for files; a study has its own: edit its study.toml")
        commands.measure(Study.open(targets[0]), options, dry_run=dry_run)
        if not dry_run:
            say_next(f"guard-eval pair {targets[0]}", f"guard-eval report {targets[0]}")
        return
    commands.measure_files(
        targets,
        options,
        settings=settings,
        prompts=prompts,
        output=output,
        columns=column or (),
        run=run,
        all_runs=all_runs,
        seed=1 if seed is None else seed,
        dry_run=dry_run,
    )
