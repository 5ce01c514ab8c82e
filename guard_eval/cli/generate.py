"""`guard-eval generate`: continuations by every strategy of the study."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import StudyFolder, console, progress, say, say_next

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from guard_eval.engines.batching import BatchSizes
    from guard_eval.engines.loading import LoadedModel
    from guard_eval.records import Continuation, Prompt
    from guard_eval.shards import Shard
    from guard_eval.study import Study


_WIDEST = 28
"""Characters of a strategy's name for which 80 columns have room beside its progress."""


@dataclass(frozen=True)
class _Work:
    """What one strategy has to do, and what it has done: those of this shard, and all that are there."""

    strategy: str
    missing: list[Prompt]
    asked: int
    there: list[Continuation]

    @property
    def seconds_per_text(self) -> float | None:
        """Return how long a text took so far; None where there is none."""
        return sum(c.seconds for c in self.there) / len(self.there) if self.there else None


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
) -> None:
    """Write continuations with every strategy.

    Every batch is on disk before the next begins; what is there already is not made again. Stop it at any
    moment and run it again. A prompt keeps its last max_prompt_tokens tokens, a beginning-of-text token in
    front included; a chat model's template comes on top. With batch_size = "auto" batches grow as long as
    memory holds them, and shrink when it runs out.
    """
    from guard_eval.shards import Shard
    from guard_eval.study import Study

    run(
        Study.open(folder),
        dry_run=dry_run,
        shard=Shard.parse(shard) if shard else Shard(),
        only=strategy or (),
        trace=trace,
    )
    if dry_run:
        say_next(f"guard-eval generate {folder}")
    else:
        say_next(f"guard-eval measure {folder}", f"guard-eval pair {folder}")


def run(
    study: Study,
    *,
    dry_run: bool = False,
    shard: Shard | None = None,
    only: Sequence[str] = (),
    trace: bool = False,
) -> None:
    """Make what is missing, batch by batch; every batch is on disk before the next begins."""
    from guard_eval.corpora import read_prompts
    from guard_eval.shards import Shard, reserve

    shard = shard or Shard()
    prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
    strategies = _chosen(study, only)
    if dry_run:
        _forecast(study, _work(study, strategies, prompts, shard))
        return
    with reserve(study.continuations, shard):
        work = _work(study, strategies, prompts, shard)
        if any(one.missing for one in work):
            _make(study, work, shard, trace=trace)
        elif trace:
            say("--trace: nothing is made, so nothing is traced; a trace comes with a text's making")


def _chosen(study: Study, only: Sequence[str]) -> list[str]:
    from guard_eval.errors import StudyError
    from guard_eval.strategies import parse, signature

    named = study.settings.generation.strategies
    wanted = [signature(parse(name)) for name in only]
    for name in wanted:
        if name not in named:
            raise StudyError(
                f"--strategy {name} is not in generation.strategies of {study.folder / 'study.toml'}; "
                f"add it there, or choose from: {', '.join(named)}"
            )
    return [name for name in named if name in wanted] if wanted else named


def _work(study: Study, strategies: Sequence[str], prompts: Sequence[Prompt], shard: Shard) -> list[_Work]:
    from guard_eval.continuations import current_continuations

    mine = [prompt for prompt in prompts if shard.holds(prompt.id)]
    part = "" if shard.count == 1 else f" of shard {shard}"
    work = []
    for strategy in strategies:
        there = current_continuations(study.continuations, strategy, prompts, study.settings)
        missing = [prompt for prompt in mine if prompt.id not in there]
        say(f"{strategy}: {len(mine) - len(missing)} of {len(mine)} continuations{part} are there")
        work.append(_Work(strategy, missing, len(mine), list(there.values())))
    return work


def _forecast(study: Study, work: Sequence[_Work]) -> None:
    """Say how much there is to do, and how long it will take at the speed of what has been done."""
    settings = study.settings
    total = sum(len(one.missing) for one in work)
    most = total * settings.generation.max_new_tokens
    say(f"would make {total} continuations of at most {most:,} tokens with {settings.model.name}")
    known = [one for one in work if one.missing and one.there]
    if not known:
        return
    seconds = sum(len(one.missing) * (one.seconds_per_text or 0) for one in known)
    devices = ", ".join(sorted({c.device for one in known for c in one.there}))
    say(f"estimated time: {_duration(seconds)}, at the speed of what is there ({devices})")
    unknown = [one.strategy for one in work if one.missing and not one.there]
    if unknown:
        say(f"not in it, because nothing of them is there yet: {', '.join(unknown)}")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _make(study: Study, work: Sequence[_Work], shard: Shard, *, trace: bool) -> None:
    from guard_eval.engines.local import warm_up

    with console().status("loading the model"):
        loaded = _load(study)
        amateur = _load_amateur(study, loaded, work)
        warm_up(loaded)
    say(f"{loaded.name} ({loaded.revision}), {loaded.dtype} on {loaded.device}")
    if amateur is not None:
        say(f"amateur: {amateur.name} ({amateur.revision}), {amateur.dtype} on {amateur.device}")
    sizes = _batch_sizes(study, loaded)
    total = sum(len(one.missing) for one in work)
    # Batches may take minutes each; the time left is told from all of them, not from the last half minute.
    with progress("", window=86400) as bar:
        whole = bar.add_task("all", total=total, note="")
        for one in work:
            if one.missing:
                _make_one(study, one, _Tools(loaded, amateur, sizes, shard, trace), _Bars(bar, whole, one))
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


class _Bars:
    """A strategy's progress, and with it that of all: texts, tokens per second, time left."""

    def __init__(self, bar: Progress, whole: TaskID, work: _Work) -> None:
        self._bar, self._whole = bar, whole
        name = work.strategy if len(work.strategy) <= _WIDEST else f"{work.strategy[: _WIDEST - 1]}…"
        self._task = bar.add_task(name, total=len(work.missing), note="")
        self._tokens = 0
        self._began = time.monotonic()

    def advance(self, batch: Sequence[Continuation]) -> None:
        self._tokens += sum(c.new_tokens for c in batch)
        rate = self._tokens / max(time.monotonic() - self._began, 1e-9)
        self._bar.update(self._task, advance=len(batch), note=f"{rate:,.0f} tokens/s")
        self._bar.update(self._whole, advance=len(batch))


def _make_one(study: Study, work: _Work, tools: _Tools, bars: _Bars) -> None:
    from guard_eval.continuations import append_continuations, continuation_file

    path = continuation_file(study.continuations, work.strategy, tools.shard)
    for batch in _batches(study, work, tools):
        append_continuations(path, batch)
        bars.advance(batch)


def _batches(study: Study, work: _Work, tools: _Tools) -> Iterator[list[Continuation]]:
    from guard_eval.continuations import append_traces, trace_file
    from guard_eval.engines.local import generate
    from guard_eval.strategies import parse

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


def _load_amateur(study: Study, loaded: LoadedModel, work: Sequence[_Work]) -> LoadedModel | None:
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
    from guard_eval.engines.batching import BatchSizes
    from guard_eval.strategies import parse

    generation = study.settings.generation
    if generation.batch_size != "auto":
        return BatchSizes.capped(generation.batch_size)
    copies = max(int(getattr(parse(name), "beams", 1)) for name in generation.strategies)
    tokens = generation.max_prompt_tokens + generation.max_new_tokens
    return BatchSizes.auto(loaded.model, tokens=tokens, copies=copies)


def _say_traces(study: Study, work: Sequence[_Work], shard: Shard) -> None:
    from guard_eval.continuations import trace_file

    made = [one for one in work if one.missing]
    paths = {one.strategy: trace_file(study.continuations, one.strategy, shard) for one in made}
    for strategy, path in paths.items():
        if path.exists():
            say(f"trace of {strategy}: {path}")
    if not any(path.exists() for path in paths.values()):
        say("--trace: only guard adapts to what can be traced, and it made nothing in this run")
