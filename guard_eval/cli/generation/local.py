"""`guard-eval generate --engine local`: one process, one model, batch by batch into a JSONL file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from guard_eval.cli.console import console, progress, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from guard_eval.cli.generation.work import Work
    from guard_eval.engines.study_models import StudyModels
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
    from guard_eval.engines.study_models import StudyModels

    with console().status("loading the model"):
        models = StudyModels.load(study, [one.strategy for one in work if one.missing])
        warm_up(models.loaded)
    loaded, amateur = models.loaded, models.amateur
    say(f"{loaded.name} ({loaded.revision}), {loaded.dtype} on {loaded.device}")
    if amateur is not None:
        say(f"amateur: {amateur.name} ({amateur.revision}), {amateur.dtype} on {amateur.device}")
    is_here: dict[str, str | None] = {"revision": loaded.revision, "dtype": loaded.dtype}
    is_here["amateur_revision"] = amateur.revision if amateur else expected["amateur_revision"]
    if is_here != dict(expected):
        work = work_again(is_here)
        models = models.prepared([one.strategy for one in work if one.missing])
    total = sum(len(one.missing) for one in work)
    # Batches may take minutes each; the time left is told from all of them, not from the last half minute.
    with progress("", window=86400) as bar:
        whole = bar.add_task("all", total=total, note="")
        for one in work:
            if one.missing:
                _make_one(models, one, shard, Bars(bar, whole, one), trace=trace)
    say(f"continuations: {study.continuations}{Path('/')}")
    if trace:
        _say_traces(study, work, shard)


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


def _make_one(models: StudyModels, work: Work, shard: Shard, bars: Bars, *, trace: bool) -> None:
    from guard_eval.texts.continuations import (
        append_continuations,
        append_traces,
        continuation_file,
        trace_file,
    )

    folder = models.study.continuations
    path, traces = (of(folder, work.strategy, shard) for of in (continuation_file, trace_file))
    on_trace = (lambda batch: append_traces(traces, batch)) if trace else None
    for batch in models.generate(work.missing, work.strategy, on_trace=on_trace):
        append_continuations(path, batch)
        bars.advance(batch)


def _say_traces(study: Study, work: Sequence[Work], shard: Shard) -> None:
    from guard_eval.texts.continuations import trace_file

    made = [one for one in work if one.missing]
    paths = {one.strategy: trace_file(study.continuations, one.strategy, shard) for one in made}
    for strategy, path in paths.items():
        if path.exists():
            say(f"trace of {strategy}: {path}")
    if not any(path.exists() for path in paths.values()):
        say("--trace: only guard adapts to what can be traced, and it made nothing in this run")
