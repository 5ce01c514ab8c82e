"""`guard-eval generate --engine local`: one process, one model, batch by batch into a JSONL file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from guard_eval.cli.console import console, progress, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from guard_eval.cli.generation.work import Work
    from guard_eval.engines.loading import LoadedModel
    from guard_eval.engines.local.batching import BatchSizes
    from guard_eval.records import Continuation
    from guard_eval.study.folder import Study
    from guard_eval.texts.shards import Shard

_WIDEST = 28
"""Characters of a strategy's name for which 80 columns have room beside its progress."""


def make(
    study: Study,
    work: Sequence[Work],
    shard: Shard,
    *,
    trace: bool,
    expected: Mapping[str, str | None],
    work_again: Callable[[Mapping[str, str | None]], Sequence[Work]],
) -> None:
    """Make what is missing, batch by batch; every batch is on disk before the next begins.

    Args:
        study: The study.
        work: What there is to do, if the models are what is `expected`.
        shard: Whose file it goes into.
        trace: Write traces as well.
        expected: `generate_work.made_with`.
        work_again: What there is to do with models that turn out to be others.
    """
    from guard_eval.engines.local.generation import warm_up

    with console().status("loading the model"):
        loaded = _load(study)
        amateur = _load_amateur(study, loaded, work)
        warm_up(loaded)
    say(f"{loaded.name} ({loaded.revision}), {loaded.dtype} on {loaded.device}")
    if amateur is not None:
        say(f"amateur: {amateur.name} ({amateur.revision}), {amateur.dtype} on {amateur.device}")
    is_here: dict[str, str | None] = {"revision": loaded.revision, "dtype": loaded.dtype}
    is_here["amateur_revision"] = amateur.revision if amateur else expected["amateur_revision"]
    if is_here != dict(expected):
        work = work_again(is_here)
        amateur = amateur or _load_amateur(study, loaded, work)
    sizes = _batch_sizes(study, loaded)
    total = sum(len(one.missing) for one in work)
    # Batches may take minutes each; the time left is told from all of them, not from the last half minute.
    with progress("", window=86400) as bar:
        whole = bar.add_task("all", total=total, note="")
        for one in work:
            if one.missing:
                _make_one(study, one, _Tools(loaded, amateur, sizes, shard, trace), Bars(bar, whole, one))
    say(f"continuations: {study.continuations}{Path('/')}")
    if trace:
        _say_traces(study, work, shard)


@dataclass(frozen=True)
class _Tools:
    loaded: LoadedModel
    amateur: LoadedModel | None
    sizes: BatchSizes
    shard: Shard
    trace: bool


class Bars:
    """A strategy's progress, and with it that of all: texts, tokens per second, time left."""

    def __init__(self, bar: Progress, whole: TaskID, work: Work) -> None:
        self._bar, self._whole = bar, whole
        name = work.strategy if len(work.strategy) <= _WIDEST else f"{work.strategy[: _WIDEST - 1]}…"
        self._task = bar.add_task(name, total=len(work.missing), note="")
        self._tokens = 0
        self._began = time.monotonic()

    def advance(self, batch: Sequence[Continuation]) -> None:
        """Count a batch."""
        self._tokens += sum(c.new_tokens for c in batch)
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        self._bar.update(self._task, advance=len(batch), note=f"{rate:,.0f} tokens/s")
        self._bar.update(self._whole, advance=len(batch))


def _make_one(study: Study, work: Work, tools: _Tools, bars: Bars) -> None:
    from guard_eval.texts.continuations import append_continuations, continuation_file

    path = continuation_file(study.continuations, work.strategy, tools.shard)
    for batch in _batches(study, work, tools):
        append_continuations(path, batch)
        bars.advance(batch)


def _batches(study: Study, work: Work, tools: _Tools) -> Iterator[list[Continuation]]:
    from guard_eval.engines.local.generation import generate
    from guard_eval.strategies import parse
    from guard_eval.texts.continuations import append_traces, trace_file

    settings = study.settings
    traces = trace_file(study.continuations, work.strategy, tools.shard)
    return generate(
        tools.loaded,
        work.missing,
        parse(work.strategy),
        seed=settings.seed,
        max_new_tokens=settings.generation.max_new_tokens,
        max_prompt_tokens=settings.generation.max_prompt_tokens,
        batch_size=tools.sizes,
        amateur=tools.amateur,
        chat=settings.generation.chat,
        compiled=settings.generation.compile,
        on_trace=(lambda batch: append_traces(traces, batch)) if tools.trace else None,
    )


def _load(study: Study) -> LoadedModel:
    from guard_eval.engines.loading import load

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
    from guard_eval.engines.amateur import load_amateur

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
    from guard_eval.engines.local.batching import BatchSizes
    from guard_eval.strategies import parse

    generation = study.settings.generation
    if generation.batch_size != "auto":
        return BatchSizes.capped(generation.batch_size)
    copies = max(int(getattr(parse(name), "beams", 1)) for name in generation.strategies)
    tokens = generation.max_prompt_tokens + generation.max_new_tokens
    return BatchSizes.auto(loaded.model, tokens=tokens, copies=copies)


def _say_traces(study: Study, work: Sequence[Work], shard: Shard) -> None:
    from guard_eval.texts.continuations import trace_file

    made = [one for one in work if one.missing]
    paths = {one.strategy: trace_file(study.continuations, one.strategy, shard) for one in made}
    for strategy, path in paths.items():
        if path.exists():
            say(f"trace of {strategy}: {path}")
    if not any(path.exists() for path in paths.values()):
        say("--trace: only guard adapts to what can be traced, and it made nothing in this run")
