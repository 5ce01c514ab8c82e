"""The command `generate`: continuations of a study's prompts by each of its strategies, by any engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pkgutil import resolve_name
from statistics import fmean
from typing import Literal

from guard_eval import progress
from guard_eval.errors import PromptsError, StudyError
from guard_eval.generation.engines.loading import ModelFiles
from guard_eval.generation.strategies import own, parse, signature
from guard_eval.records import Continuation, Prompt
from guard_eval.results import Result
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_continuations
from guard_eval.texts.current import find_generated, model_revision, other_runs
from guard_eval.texts.models import HubModels, find_models
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard, reserve

Engine = Literal["local", "ray", "vllm"]
Batches = Callable[[str, Sequence[tuple[Prompt, int]]], Iterable[list[Continuation]]]
"""Writes a strategy's texts of prompts and runs."""
_OPENERS: dict[Engine, str] = {
    "local": "guard_eval.generation.engines.local:open_local",
    "ray": "guard_eval.generation.engines.ray:open_ray",
    "vllm": "guard_eval.generation.engines.vllm.generation:open_vllm",
}
"""The engines. Each needs libraries of its own, which take seconds to load."""


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
    with nullcontext() if dry_run else reserve(study.continuations, part):
        work = Work(study, part, _choose_strategies(study, strategy), engine, workers, trace)
        if dry_run:
            return work.result([*work.forecast(), "run the command without --dry-run to write them"])
        if work.total:
            _write(work)
    lines = [f"continuations: {study.continuations}/"]
    if trace and not work.written:
        lines.insert(0, "--trace: no text was written, so nothing is traced")
    return work.result(lines, next=(study.command("measure"), study.command("pair")))


def _write(work: Work) -> None:
    """Write what is missing, each batch before the next one begins.

    Raises:
        PromptsError: In the end: some prompts of some strategies could not be continued.
    """
    problems: list[str] = []
    open_engine: Callable[[Work], AbstractContextManager[Batches]] = resolve_name(_OPENERS[work.engine])
    with open_engine(work) as batches:
        for name, texts in [(name, texts) for name, texts in work.missing.items() if texts]:
            try:
                with progress.task(name, total=len(texts), unit="texts") as advance:
                    for batch in batches(name, texts):
                        append_continuations(work.study.continuations, batch, work.shard)
                        work.written[name] += len(batch)
                        advance(len(batch))
            except PromptsError as error:
                problems.append(str(error))
    if problems:
        raise PromptsError(f"{'; '.join(dict.fromkeys(problems))}; what was written is kept")


def _choose_strategies(study: Study, only: Sequence[str]) -> list[str]:
    """Return the study's strategies, or those of them in `only`, in the study's order."""
    named = study.settings.generation.strategies
    picked = [signature(parse(name)) for name in only]
    if unknown := [name for name in picked if name not in named]:
        raise StudyError(
            f"--strategy {unknown[0]} is not in generation.strategies of {study.folder / 'study.toml'}; "
            f"add it there, or choose from: {', '.join(named)}"
        )
    return [name for name in named if name in picked] if picked else named


@dataclass
class Work:
    """The texts that a study asks for: those that exist, those that are missing, and those written now.

    Attributes:
        study: The study.
        shard: Whose part of the prompts is at work.
        names: The strategies.
        engine: What writes the texts.
        workers: How many models are at work at once with Ray, if the user says it.
        trace: Whether what strategies adapt is written, too.
        known: `revision` and `dtype` of the model; None where they are not known.
        missing: By strategy, the prompts and runs whose texts were missing at the start.
        written: How many of them were written, by strategy.
    """

    study: Study
    shard: Shard
    names: Sequence[str]
    engine: Engine
    workers: int | None
    trace: bool

    def __post_init__(self) -> None:
        """Read the prompts and the existing texts."""
        study, model = self.study, self.study.settings.model
        prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
        self._prompts = [prompt for prompt in prompts if self.shard.holds(prompt.id)]
        self.written: Counter[str] = Counter()
        revision, dtype = model_revision(study), None
        if revision is not None:
            files = ModelFiles.open(study.locate_model(model.name), revision)
            dtype = files.expected_dtype(model.dtype, model.device)
        self.find({"revision": revision, "dtype": dtype})
        own.check_loaded(name for name, texts in self.missing.items() if texts)
        if self.engine == "vllm":
            from guard_eval.generation.engines.vllm.generation import check_study  # noqa: PLC0415 (torch is heavy)

            check_study(study, [name for name, texts in self.missing.items() if texts])

    def find(self, known: Mapping[str, str | None]) -> None:
        """Find out again what is missing, now that more is known of the models."""
        self.known = known
        engine = "vllm" if self.engine == "vllm" else None
        self._existing = find_generated(self.study, self.names, self._prompts, known=known, engine=engine)
        runs = {name: range(1, self.study.settings.runs_of(name) + 1) for name in self.names}
        self.missing = {
            name: [(p, run) for p in self._prompts for run in runs[name] if (p.id, run) not in existing]
            for name, existing in self._existing.items()
        }

    @property
    def amateur(self) -> str | None:
        """The second model, if one of the strategies needs it."""
        return next(filter(None, map(self.study.settings.amateur_of, self.names)), None)

    @property
    def total(self) -> int:
        """How many texts were missing."""
        return sum(map(len, self.missing.values()))

    def result(self, lines: Sequence[str], *, next: tuple[str, ...] = ()) -> Generated:  # noqa: A002 (a field)
        """Return the command's result: how many texts exist, which runs do not count, and `lines`."""
        existing = {name: len(each) + self.written[name] for name, each in self._existing.items()}
        part = "" if self.shard.count == 1 else f" of shard {self.shard.number}/{self.shard.count}"
        settings, counts = self.study.settings, []
        for name, count in existing.items():
            asked = len(self._prompts) * settings.runs_of(name)
            counts.append(f"{name}: {count} of {asked} continuations{part} exist")
            if settings.runs_of(name) < settings.generation.runs:
                counts.append("  one text a prompt: it draws nothing, so another run would write the same")
            if self.known["revision"] is None and self._existing[name]:
                counts.append(f"  not compared with {settings.model.name}, which is not on this machine")
        others = other_runs(self.study, self.known) if self.total else []
        counts += [f"another run is kept and not used: {other}" for other in others]
        return Generated(
            existing=existing,
            written=dict(self.written),
            missing=self.total - self.written.total(),
            lines=(*counts, *lines),
            next=next,
        )

    def find_models(self) -> HubModels:
        """Return which models are on this machine, before one is loaded.

        Raises:
            StudyError: One is missing and cannot be downloaded; all of them are named.
        """
        study, model = self.study, self.study.settings.model
        models = {model.name: (study.locate_model(model.name), model.revision)}
        if self.amateur is not None:
            models[self.amateur] = (study.locate_model(self.amateur), model.amateur_revision)
        matches = find_models(models)
        if problem := matches.problem:
            raise StudyError(problem)
        return matches

    def forecast(self) -> list[str]:
        """Return how much there is to do, what would be downloaded and how long it takes.

        Raises:
            StudyError: A model is missing or cannot write what is missing.
        """
        generation, model = self.study.settings.generation, self.study.settings.model
        if not self.total:
            return [f"would make 0 continuations with {model.name}"]
        matches, location = self.find_models(), self.study.locate_model(model.name)
        lines = matches.lines
        if self.known["revision"] is not None and location not in matches.missing:
            from guard_eval.generation.engines.encoding import encode, split_by_length  # noqa: PLC0415

            with matches.offline():  # of a tokenizer, transformers asks for more files than there are
                described = ModelFiles.open(location, self.known["revision"]).describe(model.name)
            rows = encode(described, self._prompts, generation.max_prompt_tokens, chat=generation.chat)
            fitting, problem = split_by_length(described, rows, generation.max_new_tokens)
            if problem and not fitting:
                raise StudyError(problem)
            lines += [problem] if problem else []
        texts = f"{self.total} continuation{'' if self.total == 1 else 's'}"
        limit = self.total * generation.max_new_tokens
        lines.append(f"would make {texts} of at most {limit:,} tokens with {model.name}")
        if seconds := [text.seconds for each in self._existing.values() for text in each.values()]:
            estimate = timedelta(seconds=round(self.total * fmean(seconds)))
            lines.append(f"estimated time: {estimate}, at the mean speed of the existing texts")
        return lines
