"""The command `generate`: continuations of a study's prompts by each of its strategies, by any engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from guard_eval import progress
from guard_eval.engines.loading import ModelFiles, find_device
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt, Trace
from guard_eval.results import Result
from guard_eval.strategies import parse, signature
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_continuations, append_traces
from guard_eval.texts.current import find_texts, missing_texts, other_runs
from guard_eval.texts.model_files import known_revision
from guard_eval.texts.model_hub import HubModels, find_models
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard, reserve

Engine = Literal["local", "ray", "vllm"]
Known = Mapping[str, str | None]
"""`revision`, `dtype` and `amateur_revision` of the models; None where they are not known."""
Batches = Callable[[str, Sequence[tuple[Prompt, int]]], Iterable[list[Continuation]]]
"""Writes a strategy's texts of prompts and runs."""


@dataclass(frozen=True, kw_only=True)
class Generated(Result):
    """How many continuations of each strategy exist, and how many were written now.

    Attributes:
        existing: Texts that exist now, by strategy; of a shard, its own.
        written: Texts that this run wrote, by strategy.
        missing: Texts that are still missing.
    """

    existing: Mapping[str, int]
    written: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0


def generate(
    study: Study,
    /,
    *,
    strategy: Sequence[str] = (),
    shard: str | None = None,
    engine: Engine = "local",
    workers: int | None = None,
    trace: bool = False,
    dry_run: bool = False,
) -> Generated:
    """Write continuations with every strategy.

    Each batch is on disk before the next begins, and existing texts are not written again: stop it at any
    moment and run it again. A prompt keeps its last max_prompt_tokens tokens.

    Args:
        study: The study's folder.
        strategy: Only this strategy of the study; may be given several times.
        shard: Only the I-th of N parts of the prompts, as I/N: run each on a GPU or machine of its own.
        engine: local: this process. ray: workers of the Ray cluster at RAY_ADDRESS, or of one started here.
            vllm: vLLM.
        workers: Models at work at once with Ray; by default one for each GPU, or each CPU.
        trace: Also write what strategies adapted at every token, such as GUARD's k_t and α_t.
        dry_run: Say what would be written, how much of it and how long it takes, and stop.

    Raises:
        StudyError: Options contradict each other, a model cannot be loaded or cannot run a strategy, or texts
            could not be written. Texts that were written stay.
    """
    if trace and engine != "local":
        raise StudyError(f"--trace is for --engine local, not {engine}; leave one of them out")
    if workers is not None and (engine != "ray" or workers < 1):
        raise StudyError(f"--workers {workers} is for --engine ray, and at least 1; leave it out")
    part = Shard.parse(shard) if shard else Shard()
    options = [
        *(text for name in strategy for text in ("--strategy", name)),
        *(("--shard", shard) if shard else ()),
        *(("--engine", engine) if engine != "local" else ()),
        *(("--workers", str(workers)) if workers else ()),
        *(("--trace",) if trace else ()),
    ]
    with nullcontext() if dry_run else reserve(study.continuations, part):
        work = Work(study, part, _chosen(study, strategy), engine)
        work.check_engine()
        if dry_run:
            lines, warnings = work.forecast()
            following = (study.command("generate", *options),)
            return work.result(lines=(*work.lines(), *lines), warnings=warnings, next=following)
        written = _write(work, workers, trace=trace) if work.total else {}
    untraced = ("--trace: no text was written, so nothing is traced",) if trace and not written else ()
    return work.result(
        written=written,
        lines=(*work.lines(written), *untraced, f"continuations: {study.continuations}/"),
        next=(study.command("measure"), study.command("pair")),
    )


def _write(work: Work, workers: int | None, *, trace: bool) -> dict[str, int]:
    """Write what is missing, and return how many texts of each strategy that was."""
    with _open(work, workers, trace=trace) as batches:
        written = dict.fromkeys(work.missing, 0)
        for name, texts in list(work.missing.items()):
            tokens, began = 0, time.monotonic()
            with progress.task(name, total=len(texts), unit="texts") as advance:
                for batch in batches(name, texts) if texts else ():
                    append_continuations(work.study.continuations, batch, work.shard)
                    written[name] += len(batch)
                    tokens += sum(text.new_tokens for text in batch)
                    rate = tokens / max(time.monotonic() - began, 1e-9)
                    advance(len(batch), note=f"{rate:,.0f} tokens/s")
    return {name: count for name, count in written.items() if count}


def _open(work: Work, workers: int | None, *, trace: bool) -> AbstractContextManager[Batches]:
    # Each engine's libraries take seconds to load, and need not be installed for another engine.
    if work.engine == "ray":
        from guard_eval.engines.ray import open_ray  # noqa: PLC0415

        return open_ray(work, workers)
    if work.engine == "vllm":
        from guard_eval.engines.vllm.generation import open_vllm  # noqa: PLC0415

        return open_vllm(work)
    return _open_local(work, trace=trace)


@contextmanager
def _open_local(work: Work, *, trace: bool) -> Iterator[Batches]:
    """Load the study's models into this process."""
    from guard_eval.engines.generation import warm_up  # noqa: PLC0415 (transformers takes seconds to load)
    from guard_eval.engines.study_models import StudyModels  # noqa: PLC0415

    names = [name for name, texts in work.missing.items() if texts]
    progress.notice("loading the model")
    with work.find_models().offline():
        models = StudyModels(work.study, names)
        warm_up(models.loaded)
    for model in filter(None, (models.loaded, models.amateur)):
        progress.notice(f"{model.name} ({model.revision}), {model.dtype} on {model.device}")
    work.find(
        {
            "revision": models.loaded.revision,
            "dtype": models.loaded.dtype,
            "amateur_revision": models.amateur.revision if models.amateur else work.known["amateur_revision"],
        }
    )
    models.prepare([name for name, texts in work.missing.items() if texts])

    def batches(name: str, texts: Sequence[tuple[Prompt, int]]) -> Iterator[list[Continuation]]:
        traces: list[Trace] = []
        for batch in models.generate(texts, name, on_trace=traces.extend if trace else None):
            if traces:  # on disk before their texts
                append_traces(work.study.continuations, batch[0].recipe, traces, work.shard)
                traces.clear()
            yield batch

    yield batches


def _chosen(study: Study, only: Sequence[str]) -> list[str]:
    """Return the study's strategies, or those of them in `only`, in the study's order."""
    named = study.settings.generation.strategies
    picked = [signature(parse(name)) for name in only]
    for name in picked:
        if name not in named:
            raise StudyError(
                f"--strategy {name} is not in generation.strategies of {study.folder / 'study.toml'}; "
                f"add it there, or choose from: {', '.join(named)}"
            )
    return [name for name in named if name in picked] if picked else named


class Work:
    """The texts that a study asks for: those that exist, and those that are missing.

    Attributes:
        study: The study.
        shard: Whose part of the prompts is at work.
        engine: What writes the texts.
        known: What is known of the models.
        missing: By strategy, the prompts and runs whose texts are missing.
    """

    def __init__(self, study: Study, shard: Shard, names: Sequence[str], engine: Engine) -> None:
        """Read the prompts and the existing texts."""
        self.study, self.shard, self.engine, self._names = study, shard, engine, names
        prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
        self._prompts = [prompt for prompt in prompts if shard.holds(prompt.id)]
        model = study.settings.model
        revision = known_revision(study.locate_model(model.name), model.revision)
        amateur = dtype = None
        if revision is not None:
            files = ModelFiles.open(study.locate_model(model.name), revision)
            dtype = files.expected_dtype(model.dtype, model.device)
        if self._amateur is not None:
            amateur = known_revision(study.locate_model(self._amateur), model.amateur_revision)
        self.find({"revision": revision, "dtype": dtype, "amateur_revision": amateur})

    @property
    def _amateur(self) -> str | None:
        return next(filter(None, map(self.study.settings.amateur_of, self._names)), None)

    def find(self, known: Known) -> None:
        """Find out again what is missing, now that more is known of the models."""
        self.known = known
        engine = "vllm" if self.engine == "vllm" else None
        self._existing = find_texts(self.study, self._names, self._prompts, known=known, engine=engine)
        self.missing = {
            name: list(missing_texts(self.study, name, self._prompts, self._existing[name]))
            for name in self._names
        }

    @property
    def total(self) -> int:
        """How many texts are missing."""
        return sum(map(len, self.missing.values()))

    def result(self, *, written: Mapping[str, int] | None = None, **shown: tuple[str, ...]) -> Generated:
        """Return the command's result."""
        written = written or {}
        existing = {name: len(each.texts) + written.get(name, 0) for name, each in self._existing.items()}
        missing = self.total - sum(written.values())
        return Generated(existing=existing, written=written, missing=missing, **shown)  # type: ignore[arg-type]

    def lines(self, written: Mapping[str, int] | None = None) -> list[str]:
        """Return how many texts exist, with those that were `written` now, and which runs do not count."""
        part = "" if self.shard.count == 1 else f" of shard {self.shard}"
        settings, lines = self.study.settings, []
        for name, each in self._existing.items():
            asked = len(self._prompts) * settings.runs_of(name)
            existing = len(each.texts) + (written or {}).get(name, 0)
            lines.append(f"{name}: {existing} of {asked} continuations{part} exist")
            if settings.runs_of(name) < settings.generation.runs:
                lines.append("  one text a prompt: it draws nothing, so another run would write the same")
            if self.known["revision"] is None and each.texts:
                lines.append(f"  not compared with {settings.model.name}, which is not on this machine")
        others = other_runs(self.study, self.known) if self.total else []
        return lines + [f"another run is kept and not used: {other}" for other in others]

    def check_engine(self) -> None:
        """Refuse what the engine cannot do, before anything is loaded."""
        model = self.study.settings.model
        if self.engine == "ray" and model.device_map is not None:
            raise StudyError(
                "--engine ray gives each worker one GPU, and model.device_map spreads a model over several; "
                "use --engine vllm, or --shard i/n with --engine local"
            )
        if self.engine == "vllm":
            from guard_eval.engines.vllm.generation import check_study  # noqa: PLC0415 (torch is heavy)

            check_study(self.study, [name for name, texts in self.missing.items() if texts])

    def find_models(self) -> HubModels:
        """Return which models are on this machine, before one is loaded.

        Raises:
            StudyError: One is missing and cannot be downloaded; all of them are named.
        """
        study, model = self.study, self.study.settings.model
        models = {model.name: (study.locate_model(model.name), model.revision)}
        if self._amateur is not None:
            models[self._amateur] = (study.locate_model(self._amateur), model.amateur_revision)
        matches = find_models(models)
        if problem := matches.problem():
            raise StudyError(problem)
        return matches

    def forecast(self) -> tuple[list[str], tuple[str, ...]]:
        """Return how much there is to do, what would be downloaded and how long it takes; and warnings.

        Raises:
            StudyError: A model is missing or cannot write what is missing.
        """
        generation, model = self.study.settings.generation, self.study.settings.model
        lines = self._check_models() if self.total else []
        texts = f"{self.total} continuation{'' if self.total == 1 else 's'}"
        limit = self.total * generation.max_new_tokens
        lines.append(f"would make {texts} of at most {limit:,} tokens with {model.name}")
        if not self.total:
            return lines, ()
        known = {name: list(each.texts.values()) for name, each in self._existing.items() if each.texts}
        timed = [name for name, texts in self.missing.items() if texts and name in known]
        if timed:
            seconds = sum(
                len(self.missing[name]) * sum(text.seconds for text in known[name]) / len(known[name])
                for name in timed
            )
            devices = ", ".join(sorted({text.device for name in timed for text in known[name]}))
            lines.append(f"estimated time: {_duration(seconds)}, at the speed of existing texts ({devices})")
            if untimed := [name for name, texts in self.missing.items() if texts and name not in known]:
                lines.append(f"not in it, because no text exists yet: {', '.join(untimed)}")
        if self.engine == "local" and model.device_map is None:
            try:
                find_device(model.device)
            except StudyError as error:
                return lines, (str(error),)
        return lines, ()

    def _check_models(self) -> list[str]:
        matches, generation = self.find_models(), self.study.settings.generation
        lines, model = matches.lines(), self.study.settings.model
        location = self.study.locate_model(model.name)
        if self.known["revision"] is None or location in matches.missing:
            return lines
        files = ModelFiles.open(location, self.known["revision"])
        files.check_generation(generation.max_new_tokens)
        room = None if files.context is None else files.context - generation.max_new_tokens
        if room is not None and room < generation.max_prompt_tokens:
            lines.append(
                f"{model.name} holds {files.context} tokens: prompts of more than {room} will be refused; "
                f"set max_prompt_tokens to {room}, or lower max_new_tokens"
            )
        return lines


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
