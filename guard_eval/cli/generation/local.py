"""`guard-eval generate --engine local`: one process, one model, batch by batch into a JSONL file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from guard_eval.cli.console import console, say
from guard_eval.cli.generation.work import Work, chosen, forecast, made_with, work_of, write_texts
from guard_eval.records import Continuation
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_traces, trace_file
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard, reserve


def run(study: Study, *, dry_run: bool, shard: Shard, only: Sequence[str], trace: bool) -> None:
    """Make what is missing with a model in this process."""
    prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
    strategies = chosen(study, only)
    made_by = made_with(study, strategies)
    work_with = partial(work_of, study, strategies, prompts, shard)
    if dry_run:
        forecast(study, work_with(made_by))
        return
    with reserve(study.continuations, shard):
        work = work_with(made_by)
        if not any(one.missing for one in work):
            if trace:
                say("--trace: nothing is made, so nothing is traced; a trace comes with a text's making")
            return
        # Only where a text is missing: transformers' own generation takes seconds to load.
        from guard_eval.engines.local.generation import warm_up  # noqa: PLC0415
        from guard_eval.engines.study_models import StudyModels  # noqa: PLC0415

        with console().status("loading the model"):
            models = StudyModels.load(study, [one.strategy for one in work if one.missing])
            warm_up(models.loaded)
        loaded, amateur = models.loaded, models.amateur
        for name, model in (("", loaded), ("amateur: ", amateur)):
            if model is not None:
                say(f"{name}{model.name} ({model.revision}), {model.dtype} on {model.device}")
        amateur_revision = amateur.revision if amateur else made_by["amateur_revision"]
        is_here = {
            "revision": loaded.revision,
            "dtype": loaded.dtype,
            "amateur_revision": amateur_revision,
        }
        if is_here != made_by:
            work = work_with(is_here)
            models = models.prepared([one.strategy for one in work if one.missing])

        def batches(one: Work) -> Iterator[list[Continuation]]:
            traces = trace_file(study.continuations, one.strategy, shard)
            on_trace = partial(append_traces, traces) if trace else None
            return models.generate(one.missing, one.strategy, on_trace=on_trace)

        write_texts(study, work, shard, batches)
        if trace:
            _say_traces(study, work, shard)


def _say_traces(study: Study, work: Sequence[Work], shard: Shard) -> None:
    made = [one.strategy for one in work if one.missing]
    paths = {strategy: trace_file(study.continuations, strategy, shard) for strategy in made}
    found = {strategy: path for strategy, path in paths.items() if path.exists()}
    for strategy, path in found.items():
        say(f"trace of {strategy}: {path}")
    if not found:
        say("--trace: only guard adapts to what can be traced, and it made nothing in this run")
