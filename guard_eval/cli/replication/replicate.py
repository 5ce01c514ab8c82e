"""`guard-eval replicate`: the paper's tables and figures, listed, made again, and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli import commands
from guard_eval.errors import StudyError


def command(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="A short name or a TeX label; --list shows both."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER", help="Where to make it; default: replication/ and its study's name."
        ),
    ] = None,
    list_: Annotated[
        bool,
        typer.Option("--list", help="List every table and figure, what it needs, and whether it runs here."),
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="With --list: as JSON.")] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A Hugging Face id, a folder, or 'bundled', in place of the paper's; may be given several "
            "times for a table of several models."
        ),
    ] = None,
    amateur: Annotated[
        str | None,
        typer.Option(
            help="The smaller model of contrastive decoding, which is left out for a --model without."
        ),
    ] = None,
    prompts: Annotated[
        list[Path] | None,
        typer.Option(
            help="Files of prompts, or of generations with prompt and reference, or a folder of them; may be "
            "given several times. Default: the folder prompts/, if there is one."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many prompts of each dataset.")
    ] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="At most so many tokens a text.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Only these of the table's, with commas; the others need their models.")
    ] = None,
    coherence_model: Annotated[str | None, typer.Option(help="Whose log-likelihoods coherence is.")] = None,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="For tables of people and judges: print them from these verdicts, and run nothing.",
        ),
    ] = None,
    rater_kind: Annotated[
        str | None,
        typer.Option(
            metavar="person|model", help="With --verdicts: who judged, where no column rater_kind says it."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run and what it would take, and stop.")
    ] = False,
) -> None:
    """Make a table or a figure of the paper again, and print it beside the paper's figures.

    Begin with --list. A table's study.toml is written into FOLDER and run through generate, measure and
    pair; stop it at any moment and run it again. What differs from the paper's setting (model, prompts,
    tokens) is stated above the table, because a difference then says nothing of the paper.

    A 7B model on one GPU: guard-eval replicate main --model Qwen/Qwen2.5-7B --prompts PROMPTS/

    Small, on any machine: guard-eval replicate main --model bundled --limit 10 --max-new-tokens 64
    """
    if list_ or table is None:
        if table is not None:
            raise StudyError("--list shows all tables; give either --list or a table's name")
        commands.show_list(as_json=json_)
        return
    study_options = {
        "--model": model,
        "--amateur": amateur,
        "--prompts": prompts,
        "--limit": limit,
        "--max-new-tokens": max_new_tokens,
        "--device": device,
        "--metrics": metrics,
        "--coherence-model": coherence_model,
    }
    if verdicts is not None and (unused := [name for name, value in study_options.items() if value]):
        raise StudyError(f"--verdicts runs nothing, so that {unused[0]} has no effect; leave one of them out")
    if rater_kind is not None and verdicts is None:
        raise StudyError(f"--rater-kind {rater_kind} has no effect without --verdicts FILE.csv; give both")
    if verdicts is not None:
        commands.replicate_verdicts(table, verdicts, None if dry_run else folder, rater_kind=rater_kind)
        return
    options = commands.ReplicationOptions(
        models=tuple(model or ()),
        amateur=amateur,
        prompts=tuple(prompts or ()),
        limit=limit,
        max_new_tokens=max_new_tokens,
        device=device,
        metrics=tuple(name.strip() for name in metrics.split(",") if name.strip()) if metrics else None,
        coherence_model=coherence_model,
    )
    commands.replicate(table, folder, options, dry_run=dry_run)
