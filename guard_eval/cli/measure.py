"""`guard-eval measure`: automatic metrics of the study's continuations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import StudyFolder, console, progress, say, say_next, say_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from guard_eval.metrics.table import MetricsRow
    from guard_eval.records import Continuation, Prompt
    from guard_eval.study import Study


def command(
    folder: StudyFolder,
    batch_size: Annotated[int, typer.Option(min=1, help="Texts per forward pass of the scoring model.")] = 16,
) -> None:
    """Score the continuations.

    Diversity, repetition, coherence, length and speed, per dataset and strategy; writes metrics.csv.
    """
    from guard_eval.study import Study

    run(Study.open(folder), batch_size=batch_size)
    say_next(f"guard-eval pair {folder}", f"guard-eval report {folder}")


def run(study: Study, *, batch_size: int = 16) -> None:
    """Write the study's metrics.csv and print it."""
    from guard_eval.continuations import current_continuations
    from guard_eval.corpora import read_prompts
    from guard_eval.errors import StudyError
    from guard_eval.metrics.table import metrics_row, write_metrics

    settings = study.settings
    prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
    groups: dict[tuple[str, str], list[Continuation]] = {}
    for strategy in settings.generation.strategies:
        for c in current_continuations(study.continuations, strategy, prompts, settings).values():
            groups.setdefault((c.dataset, strategy), []).append(c)
    if not groups:
        raise StudyError(f"{study.folder} has no continuations yet; run: guard-eval generate {study.folder}")
    everything = [c for group in groups.values() for c in group]
    scorer = settings.metrics.coherence_model or settings.model.name
    scores = _coherence(study, scorer, prompts, everything, batch_size)
    rows = [metrics_row(group, scores, coherence_model=scorer) for _, group in sorted(groups.items())]
    write_metrics(rows, study.metrics_path)
    _show(rows)
    say(f"coh.: coherence, mean log-likelihood per token under {scorer}")
    say(f"div.: diversity, {rows[0].diversity_signature}")
    say(f"metrics: {study.metrics_path}")


def _coherence(
    study: Study,
    scorer: str,
    prompts: Sequence[Prompt],
    continuations: Sequence[Continuation],
    batch_size: int,
) -> dict[str, float | None]:
    from guard_eval.engines.loading import load
    from guard_eval.metrics.coherence import coherence

    settings = study.settings
    texts = {prompt.id: prompt.text for prompt in prompts}
    with console().status("loading the scoring model"):
        own = scorer == settings.model.name
        spread = settings.model.device_map
        loaded = load(
            study.locate_model(scorer),
            name=scorer,
            revision=settings.model.revision if own else "main",
            dtype=settings.model.dtype,
            device=settings.model.device,
            device_map=spread if own or isinstance(spread, str) else None,  # a table names a model's modules
        )
    with progress("texts") as bar:
        task = bar.add_task("coherence", total=len(continuations), note="")
        result = coherence(
            loaded.model,
            loaded.tokenizer,
            [texts[c.prompt_id] for c in continuations],
            [c.text for c in continuations],
            batch_size=batch_size,
            on_progress=lambda done: bar.advance(task, done),
        )
    if result.empty:
        say(f"coherence: {result.empty} empty continuations have none and are left out")
    if result.truncated:
        say(f"coherence: {result.truncated} prompts lost their beginning to fit the scoring model's context")
    return {c.id: value for c, value in zip(continuations, result.values, strict=True)}


def _show(rows: Sequence[MetricsRow]) -> None:
    for dataset in sorted({row.dataset for row in rows}):
        mine = [row for row in rows if row.dataset == dataset]
        say(f"\n{dataset}, {max(row.texts for row in mine)} texts each")
        say_table(
            ["strategy", "div. %", "rep-4 %", "coh.", "tokens", "tok/s"],
            [
                [
                    row.strategy,
                    _cell(row.diversity),
                    _cell(row.rep_4),
                    _cell(row.coherence),
                    _cell(row.tokens, 1),
                    _cell(row.tokens_per_second, 0),
                ]
                for row in mine
            ],
        )


def _cell(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"
