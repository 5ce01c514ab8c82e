"""`guard-eval generate --engine local`: one process, one model, batch by batch into a JSONL file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from guard_eval.cli.console import console, say
from guard_eval.cli.generation.work import Work, chosen, forecast, made_with, work_of, write_texts
from guard_eval.engines.amateur import load_amateur
from guard_eval.engines.loading import LoadedModel, load
from guard_eval.engines.local.batching import BatchSizes
from guard_eval.engines.local.generation import generate, warm_up
from guard_eval.records import Continuation
from guard_eval.strategies import parse
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
        with console().status("loading the model"):
            loaded = _load(study)
            amateur = _load_amateur(study, loaded, work)
            warm_up(loaded)
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
            amateur = amateur or _load_amateur(study, loaded, work)
        sizes = _batch_sizes(study, loaded)
        write_texts(study, work, shard, partial(_batches, study, loaded, amateur, sizes, shard, trace=trace))
        if trace:
            _say_traces(study, work, shard)


def _batches(
    study: Study,
    loaded: LoadedModel,
    amateur: LoadedModel | None,
    sizes: BatchSizes,
    shard: Shard,
    work: Work,
    *,
    trace: bool,
) -> Iterator[list[Continuation]]:
    settings = study.settings
    traces = trace_file(study.continuations, work.strategy, shard)
    return generate(
        loaded,
        work.missing,
        parse(work.strategy),
        seed=settings.seed,
        max_new_tokens=settings.generation.max_new_tokens,
        max_prompt_tokens=settings.generation.max_prompt_tokens,
        batch_size=sizes,
        amateur=amateur,
        chat=settings.generation.chat,
        compiled=settings.generation.compile,
        on_trace=partial(append_traces, traces) if trace else None,
    )


def _load(study: Study) -> LoadedModel:
    model = study.settings.model
    return load(
        study.locate_model(model.name),
        name=model.name,
        revision=model.revision,
        dtype=model.dtype,
        device=model.device,
        device_map=model.device_map,
    )


def _load_amateur(study: Study, loaded: LoadedModel, work: Sequence[Work]) -> LoadedModel | None:
    settings = study.settings
    name = next((found for one in work if one.missing and (found := settings.amateur_of(one.strategy))), None)
    if name is None:
        return None
    return load_amateur(
        loaded,
        study.locate_model(name),
        name=name,
        revision=settings.model.amateur_revision,
        dtype=settings.model.dtype,
        device=settings.model.device,
    )


def _batch_sizes(study: Study, loaded: LoadedModel) -> BatchSizes:
    generation = study.settings.generation
    if generation.batch_size != "auto":
        return BatchSizes.capped(generation.batch_size)
    copies = max(int(getattr(parse(name), "beams", 1)) for name in generation.strategies)
    tokens = generation.max_prompt_tokens + generation.max_new_tokens
    return BatchSizes.auto(loaded.model, tokens=tokens, copies=copies)


def _say_traces(study: Study, work: Sequence[Work], shard: Shard) -> None:
    made = [one.strategy for one in work if one.missing]
    paths = {strategy: trace_file(study.continuations, strategy, shard) for strategy in made}
    found = {strategy: path for strategy, path in paths.items() if path.exists()}
    for strategy, path in found.items():
        say(f"trace of {strategy}: {path}")
    if not found:
        say("--trace: only guard adapts to what can be traced, and it made nothing in this run")
