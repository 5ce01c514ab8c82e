"""The command `generate`: continuations of a study's prompts by each of its strategies, by any engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from pkgutil import resolve_name
from statistics import fmean
from typing import Literal

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation.plan import Engine, FinishedBatch, GenerationPlan
from guard_eval.generation.served import (
    ServedPlan,
    ServedRun,
    confirm_requests,
    find_equal_systems,
    open_budget,
)
from guard_eval.generation.strategies import own, parse, signature
from guard_eval.records import Prompt
from guard_eval.reporting.words import and_list
from guard_eval.results import Result
from guard_eval.servers.server import parse_send_key
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.continuations import append_continuations, append_traces
from guard_eval.texts.current import Known, model_revision
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.served_files import TEXTS
from guard_eval.texts.shards import Shard, reserve
from guard_eval.texts.systems import find_texts
from guard_eval.texts.tuning import TUNE, split_prompts, wanted_prompts

EngineName = Literal["local", "ray", "vllm"]
_OPENERS: dict[EngineName, str] = {
    "local": "guard_eval.generation.engines.local:open_local",
    "ray": "guard_eval.generation.engines.ray:open_ray",
    "vllm": "guard_eval.generation.engines.vllm.generation:open_vllm",
}
"""The engines. Each needs libraries of its own, which take seconds to load."""
Problems = dict[str, list[str]]
"""The strategies that could not write all of their texts, by the reason."""


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
    budget: float | None = None,
    send_key: Sequence[str] = (),
    dry_run: bool = False,
) -> Generated:
    """Write continuations with every strategy.

    Each batch is on disk before the next begins, and existing texts are not written again: stop it at any
    moment and run it again. A prompt keeps its last max_prompt_tokens tokens. A strategy that cannot write
    its texts does not keep the others from theirs. Texts of models behind servers are requested and paid for.

    Args:
        study: The study's folder.
        strategy: Only this strategy or system of the study; may be given several times.
        shard: Only the I-th of N parts of the prompts, as I/N: run each on a GPU or machine of its own.
        engine: local: this process. ray: workers of the Ray cluster at RAY_ADDRESS, or of one started here.
            vllm: vLLM.
        workers: Models at work at once with Ray; by default one for each GPU, or each CPU.
        trace: Also write what strategies adapted at every token, such as GUARD's k_t and α_t.
        budget: What requests to servers may cost together over all runs, in US dollars. Without it you are
            asked.
        send_key: Let a key go to a server that study.toml names: VARIABLE=https://host.
        dry_run: Say what would be written, how much of it, how long it takes and what it costs, and stop.

    Raises:
        StudyError: Options contradict each other, a model cannot be loaded or cannot run a strategy, or texts
            could not be written. Texts that were written stay.
    """
    if trace and engine != "local":
        raise StudyError(f"--trace is for --engine local, not {engine}; leave one of them out")
    if workers is not None and (engine != "ray" or workers < 1):
        raise StudyError(f"--workers {workers} is for --engine ray, and at least 1; leave it out")
    if budget is not None and not 0 < budget < float("inf"):
        raise StudyError(f"--budget {budget:g} must be an amount above 0, in US dollars, such as --budget 20")
    systems = _choose_systems(study, strategy)
    part = Shard.parse(shard) if shard else Shard()
    prompts = read_prompts(study.prompts_path, limit=study.settings.prompts.limit)
    wanted = wanted_prompts(study, prompts)
    local = [system for system in systems if system.source == "strategy"]
    served = [system for system in systems if system.source == "server"]
    folder = study.continuations if local else study.folder / TEXTS
    results = [_describe_tuning(study, prompts)]
    problems: Problems = {}
    with nullcontext() if dry_run else reserve(folder, part):
        plans = _plan_models(study, local, wanted, part, engine=engine, workers=workers, trace=trace)
        for plan in plans:
            result = _generate(plan, engine, problems, dry_run=dry_run)
            results.append(_name_systems(study, local, plan, result))
        if served and not shard:
            allowed = parse_send_key(send_key)
            results.append(_request(study, served, wanted, budget=budget, allowed=allowed, dry_run=dry_run))
    if served and shard:
        names = ", ".join(system.name for system in served)
        line = f"{names}: not requested with --shard, which divides the work of local models"
        results.append(Generated(existing={}, lines=(line,)))
    if problems:
        raise StudyError(_describe_problems(problems, results))
    return _join(study, results, trace=trace, dry_run=dry_run)


def _choose_systems(study: Study, only: Sequence[str]) -> list[System]:
    """Return the systems whose texts are generated, or those of them in `only`, in the study's order."""
    named = {name: each for name, each in study.settings.systems.items() if each.source != "file"}
    if not named:
        raise StudyError(f"all systems of {study.folder} have their texts in files, so none are generated")
    grids = study.settings.grids
    asked = [setting for name in only for setting in grids.get(name, [name])]
    picked = [name if name in named else _spell(name, study) for name in asked]
    if unknown := [name for name in picked if name not in named]:
        table = "[[system]] or generation.strategies" if study.settings.system else "generation.strategies"
        raise StudyError(
            f"--strategy {unknown[0]} is not in {table} of {study.folder / 'study.toml'}; add it there, or "
            f"choose from: {', '.join(named)}"
        )
    return [system for name, system in named.items() if name in picked or not picked]


def _spell(name: str, study: Study) -> str:
    """Return a strategy's signature; in a study with `[[system]]`, another name as it is."""
    try:
        return signature(parse(name))
    except StudyError:
        if not study.settings.system:
            raise
        return name


def _plan_models(
    study: Study,
    systems: Sequence[System],
    prompts: Mapping[str, Sequence[Prompt]],
    shard: Shard,
    *,
    engine: EngineName,
    workers: int | None,
    trace: bool,
) -> Iterator[GenerationPlan]:
    """Yield a plan for each local model that writes texts of these systems."""
    for part in study.by_model():
        model = part.settings.model
        wanted = {
            str(each.strategy): [prompt for prompt in prompts[each.name] if shard.holds(prompt.id)]
            for each in systems
            if study.settings.model_of(each) == model
        }
        if wanted:
            yield GenerationPlan(
                study=part,
                prompts=wanted,
                shard=shard,
                known=_expect_model(part),
                engine="vllm" if engine == "vllm" else None,
                workers=workers,
                trace=trace,
            )


def _generate(plan: GenerationPlan, engine: EngineName, problems: Problems, *, dry_run: bool) -> Generated:
    """Write the texts of one local model that are missing, or say what would be written."""
    own.check_loaded(plan.missing)
    written: Counter[str] = Counter()
    if dry_run:
        return _result(plan, written, _forecast(plan))
    if plan.missing:
        plan = _write(plan, resolve_name(_OPENERS[engine]), written, problems)
    return _result(plan, written)


def _request(
    study: Study,
    systems: Sequence[System],
    prompts: Mapping[str, Sequence[Prompt]],
    *,
    budget: float | None,
    allowed: set[tuple[str, str]],
    dry_run: bool,
) -> Generated:
    """Request the texts of models behind servers that are missing, or say what would be requested.

    Raises:
        StudyError: In the end: a server could not be asked. The others were asked all the same.
    """
    plans = [ServedPlan.of(study, system, prompts[system.name]) for system in systems]
    lines: list[str] = []
    if dry_run:
        lines += [line for plan in plans for line in (plan.count(0), *plan.forecast())]
        existing = {plan.system.name: len(plan.existing) for plan in plans}
        return Generated(
            existing=existing, missing=sum(len(plan.missing) for plan in plans), lines=tuple(lines)
        )
    waiting = [plan for plan in plans if plan.missing]
    servers = confirm_requests(waiting, budget_usd=budget, send_key=allowed) if waiting else {}
    if servers is None:
        return Generated(existing={}, lines=("nothing was sent",))
    account = open_budget(study, budget)
    problems = []
    written: dict[str, int] = {}
    failed = 0
    warnings: list[str] = []
    for plan in waiting:
        name = plan.system.name
        with progress.task(name, total=len(plan.missing), unit="texts") as advance:
            run = ServedRun(plan, servers[name], account, advance)
            try:
                run.write()
            except StudyError as error:
                problems.append(str(error))
        written[name] = run.counts.written
        failed += run.counts.failures.total()
        lines += run.counts.lines(plan)
        warnings += run.counts.warnings(plan)
    lines += [plan.count(written.get(plan.system.name, 0)) for plan in plans]
    if problems:
        raise StudyError("\n  ".join([*problems, *lines]))
    warnings += find_equal_systems(
        find_texts(study, study.settings.systems, _all_prompts(prompts)),
        [plan.system.name for plan in waiting],
    )
    return Generated(
        existing={plan.system.name: len(plan.existing) + written.get(plan.system.name, 0) for plan in plans},
        written=written,
        missing=sum(len(plan.missing) for plan in waiting) - sum(written.values()),
        lines=tuple(lines),
        warnings=tuple(warnings),
        exit_code=3 if failed else 0,
    )


def _join(study: Study, results: Sequence[Generated], *, trace: bool, dry_run: bool) -> Generated:
    """Return what was done for all systems as one result."""
    written = {name: count for each in results for name, count in each.written.items()}
    lines = [line for each in results for line in each.lines]
    if dry_run:
        lines.append("run the command without --dry-run to write them")
    else:
        if trace and not written:
            lines.append("--trace: no text was written, so nothing is traced")
        lines += [f"continuations: {study.continuations}/"] * bool(study.by_model())
    return Generated(
        existing={name: count for each in results for name, count in each.existing.items()},
        written=written,
        missing=sum(each.missing for each in results),
        lines=tuple(lines),
        warnings=tuple(warning for each in results for warning in each.warnings),
        next=() if dry_run else _follow(study),
        exit_code=max((each.exit_code for each in results), default=0),
    )


def _describe_tuning(study: Study, prompts: Sequence[Prompt]) -> Generated:
    """Say which prompts are written to, if settings are to be chosen."""
    choosing, _ = split_prompts(study, prompts)
    if not choosing:
        return Generated(existing={})
    grids = study.settings.grids
    count = sum(map(len, grids.values()))
    line = f"{len(choosing)} prompts choose among {count} settings of {and_list([*grids])}"
    what = f"then the chosen ones write to all {len(prompts)}"
    if study.current_choice is not None:
        what = f"chosen: {', '.join(study.current_choice.chosen.values())}"
    return Generated(existing={}, lines=(f"{line}; {what}",))


def _follow(study: Study) -> tuple[str, ...]:
    """Return the commands that could follow."""
    if study.settings.tuning is not None and study.current_choice is None:
        return (study.command(*TUNE),)
    return study.command("measure"), study.command("pair")


def _expect_model(study: Study) -> Known:
    """Return `revision` and `dtype` that the study's model will have, as far as they are known."""
    model = study.settings.model
    revision = model_revision(study)
    if revision is None:
        return {"revision": None, "dtype": None}
    from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

    files = ModelFiles.open(study.locate_model(model.name), revision)
    return {"revision": revision, "dtype": files.expected_dtype(model.dtype, model.one_device)}


def _write(
    plan: GenerationPlan,
    open_engine: Callable[[GenerationPlan], AbstractContextManager[Engine]],
    written: Counter[str],
    problems: Problems,
) -> GenerationPlan:
    """Write what is missing, each batch before the next one begins; return the plan for the loaded model."""
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(open_engine(plan))
        except StudyError as error:
            problems.setdefault(str(error), []).extend(plan.missing)
            return plan
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
    return plan


def _describe_problems(problems: Problems, results: Sequence[Generated]) -> str:
    """Return one sentence for each problem, with its strategies if others are not affected."""
    names = {name for result in results for name in result.existing}
    reasons = [
        problem if names <= set(refused) else f"{', '.join(refused)}: {problem}"
        for problem, refused in problems.items()
    ]
    if any(result.written for result in results):
        reasons.append("all other texts are written")
    return "; ".join(reasons)


def _until_refused(
    name: str, batches: Iterator[FinishedBatch], problems: Problems
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
    generation = plan.study.settings.generation
    model = plan.study.settings.model
    if not plan.missing:
        return [f"would make 0 continuations with {model.name}"]
    models = plan.find_models()
    location = plan.study.locate_model(model.name)
    lines = models.lines
    if plan.engine == "vllm":
        check_strategies = resolve_name("guard_eval.generation.engines.vllm.generation:check_strategies")
        lines += filter(None, [check_strategies(plan.study, list(plan.missing))])
    revision = plan.known["revision"]
    if revision is not None and location not in models.missing:
        from guard_eval.generation.engines.encoding import encode, split_by_length  # noqa: PLC0415 (torch)
        from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

        with models.offline():  # of a tokenizer, transformers asks for more files than there are
            described = ModelFiles.open(location, revision).describe(model.name)
        rows = encode(
            described,
            _all_prompts(plan.prompts),
            generation.max_prompt_tokens,
            chat=generation.chat,
            chat_template=generation.template_settings,
        )
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


def _result(plan: GenerationPlan, written: Mapping[str, int], lines: Sequence[str] = ()) -> Generated:
    return Generated(
        existing={name: len(texts) + written.get(name, 0) for name, texts in plan.existing.items()},
        written=dict(written),
        missing=plan.total - sum(written.values()),
        lines=(*plan.describe(written), *lines),
    )


def _all_prompts(prompts: Mapping[str, Sequence[Prompt]]) -> list[Prompt]:
    """Return the prompts of all systems, each once."""
    return list({prompt.id: prompt for prompt in chain(*prompts.values())}.values())


def _name_systems(
    study: Study, systems: Sequence[System], plan: GenerationPlan, result: Generated
) -> Generated:
    """Return what a model wrote by the names of the study's systems, and with the model's name if needed."""
    model = plan.study.settings.model
    names = {str(each.strategy): each.name for each in systems if study.settings.model_of(each) == model}
    heading = [f"{model.name}:"] if len(study.by_model()) > 1 else []
    return replace(
        result,
        existing={names[name]: count for name, count in result.existing.items()},
        written={names[name]: count for name, count in result.written.items()},
        lines=(*heading, *result.lines),
    )
