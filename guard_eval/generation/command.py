"""The command `generate`: continuations of a study's prompts by each of its strategies, by any engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pkgutil import resolve_name
from statistics import fmean
from typing import Literal

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation.engines.encoding import encode, split_by_length
from guard_eval.generation.engines.loading import ModelFiles
from guard_eval.generation.plan import Engine, FinishedBatch, GenerationPlan
from guard_eval.generation.strategies import own, parse, signature
from guard_eval.results import Result
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import append_continuations, append_traces
from guard_eval.texts.current import Known, model_revision
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.shards import Shard, reserve

EngineName = Literal["local", "ray", "vllm"]
_OPENERS: dict[EngineName, str] = {
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


def generate_texts(
    study: Study,
    /,
    *,
    strategy: Sequence[str] = (),
    shard: str | None = None,
    engine: EngineName = "local",
    workers: int | None = None,
    trace: bool = False,
    dry_run: bool = False,
) -> Generated:
    """Write continuations with every strategy.

    Each batch is on disk before the next begins, and existing texts are not written again: stop it at any
    moment and run it again. A prompt keeps its last max_prompt_tokens tokens. A strategy that cannot write
    its texts does not keep the others from theirs.

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
        prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
        plan = GenerationPlan(
            study=study,
            strategies=_choose_strategies(study, strategy),
            prompts=[prompt for prompt in prompts if part.holds(prompt.id)],
            shard=part,
            known=_expect_model(study),
            engine="vllm" if engine == "vllm" else None,
            workers=workers,
            trace=trace,
        )
        own.check_loaded(plan.missing)
        written: Counter[str] = Counter()
        if dry_run:
            lines = [*_forecast(plan), "run the command without --dry-run to write them"]
            return _result(plan, written, lines)
        if plan.missing:
            plan = _write(plan, resolve_name(_OPENERS[engine]), written)
    lines = [f"continuations: {study.continuations}/"]
    if trace and not written:
        lines.insert(0, "--trace: no text was written, so nothing is traced")
    return _result(plan, written, lines, next=(study.command("measure"), study.command("pair")))


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


def _expect_model(study: Study) -> Known:
    """Return `revision` and `dtype` that the study's model will have, as far as they are known."""
    model, revision = study.settings.model, model_revision(study)
    if revision is None:
        return {"revision": None, "dtype": None}
    files = ModelFiles.open(study.locate_model(model.name), revision)
    return {"revision": revision, "dtype": files.expected_dtype(model.dtype, model.device)}


def _write(
    plan: GenerationPlan,
    open_engine: Callable[[GenerationPlan], AbstractContextManager[Engine]],
    written: Counter[str],
) -> GenerationPlan:
    """Write what is missing, each batch before the next one begins, and return the plan for the loaded model.

    Raises:
        StudyError: In the end: some strategies could not write all of their texts.
    """
    problems: dict[str, list[str]] = {}
    with open_engine(plan) as engine:
        plan = replace(plan, known=engine.known)
        for name, texts in plan.missing.items():
            batches = _until_refused(name, engine.write(name, texts), problems)
            with progress.task(name, total=len(texts), unit="texts") as advance:
                for batch in batches:
                    if batch.traces:  # before their texts, so that no text lacks its trace
                        recipe = batch.texts[0].recipe
                        append_traces(plan.study.continuations, recipe, batch.traces, plan.shard)
                    append_continuations(plan.study.continuations, batch.texts, plan.shard)
                    written[name] += len(batch.texts)
                    advance(len(batch.texts))
    if problems:
        reasons = [f"{', '.join(names)}: {problem}" for problem, names in problems.items()]
        raise StudyError(f"{'; '.join(reasons)}; all other texts are written")
    return plan


def _until_refused(
    name: str, batches: Iterator[FinishedBatch], problems: dict[str, list[str]]
) -> Iterator[FinishedBatch]:
    """Yield a strategy's batches. If the engine refuses the rest, note its reason."""
    try:
        yield from batches
    except StudyError as error:
        problems.setdefault(str(error), []).append(name)


def _forecast(plan: GenerationPlan) -> list[str]:
    """Return how much there is to do, what would be downloaded and how long it takes.

    Raises:
        StudyError: A model is missing or cannot write what is missing.
    """
    generation, model = plan.study.settings.generation, plan.study.settings.model
    if not plan.missing:
        return [f"would make 0 continuations with {model.name}"]
    models, location = plan.find_models(), plan.study.locate_model(model.name)
    lines = models.lines
    if plan.engine == "vllm":
        check_strategies = resolve_name("guard_eval.generation.engines.vllm.generation:check_strategies")
        lines += filter(None, [check_strategies(plan.study, list(plan.missing))])
    revision = plan.known["revision"]
    if revision is not None and location not in models.missing:
        with models.offline():  # of a tokenizer, transformers asks for more files than there are
            described = ModelFiles.open(location, revision).describe(model.name)
        rows = encode(described, plan.prompts, generation.max_prompt_tokens, chat=generation.chat)
        fitting, problem = split_by_length(described, rows, generation.max_new_tokens)
        if problem and not fitting:
            raise StudyError(problem)
        lines += [problem] if problem else []
    texts = f"{plan.total} continuation{'' if plan.total == 1 else 's'}"
    limit = plan.total * generation.max_new_tokens
    lines.append(f"would make {texts} of at most {limit:,} tokens with {model.name}")
    if seconds := [text.seconds for texts in plan.existing.values() for text in texts.values()]:
        estimate = timedelta(seconds=round(plan.total * fmean(seconds)))
        lines.append(f"estimated time: {estimate}, at the mean speed of the existing texts")
    return lines


def _result(
    plan: GenerationPlan,
    written: Mapping[str, int],
    lines: Sequence[str],
    *,
    next: tuple[str, ...] = (),  # noqa: A002 (a field)
) -> Generated:
    return Generated(
        existing={name: len(texts) + written.get(name, 0) for name, texts in plan.existing.items()},
        written=dict(written),
        missing=plan.total - sum(written.values()),
        lines=(*plan.describe(written), *lines),
        next=next,
    )
