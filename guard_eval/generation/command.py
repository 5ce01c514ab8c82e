"""The command `generate`: continuations of a study's prompts by each of its systems, by any engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from itertools import product
from operator import or_
from pkgutil import resolve_name
from statistics import fmean
from typing import Literal

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.generation.plan import FinishedBatch, Generated, GenerationPlan, Problems
from guard_eval.generation.served import ServedPlan, request_texts
from guard_eval.generation.strategies import Greedy, own, parse, signature
from guard_eval.servers.server import parse_send_key
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.continuations import append_continuations, append_traces
from guard_eval.texts.current import Known, model_revision
from guard_eval.texts.shards import Shard, reserve
from guard_eval.texts.systems.served_files import TEXTS
from guard_eval.texts.tuning import TUNE, plan_texts, split_prompts

EngineName = Literal["local", "ray", "vllm"]
_OPENERS: dict[EngineName, str] = {
    "local": "guard_eval.generation.engines.local:open_local",
    "ray": "guard_eval.generation.engines.ray:open_ray",
    "vllm": "guard_eval.generation.engines.vllm.generation:open_vllm",
}
"""The engines. Each needs libraries of its own, which take seconds to load."""


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
    local = [system for system in systems if system.source == "strategy"]
    served = [system for system in systems if system.source == "server"]
    folder = study.continuations if local else study.folder / TEXTS
    results = [Generated(lines=tuple(_describe_tuning(study)))]
    problems: Problems = {}
    with nullcontext() if dry_run else reserve(folder, part):
        for plan in _plan_models(study, local, part, engine=engine, workers=workers, trace=trace):
            own.check_loaded(plan.missing)
            results.append(_forecast(plan) if dry_run else _write(plan, engine, problems))
        if served and not shard:
            allowed = parse_send_key(send_key)
            plans = [
                ServedPlan.of(study, system, prompts)
                for names, prompts in plan_texts(study)
                for system in served
                if system.name in names
            ]
            if dry_run:
                results += [plan.forecast() for plan in plans]
            else:
                results += request_texts(plans, problems, budget=budget, send_key=allowed)
    if served and shard:
        unasked = ", ".join(system.name for system in served)
        line = f"{unasked}: not requested with --shard, which divides the work of local models"
        results.append(Generated(lines=(line,)))
    if problems:
        raise StudyError(_describe_problems(problems, results))
    return _join(study, results, trace=trace, dry_run=dry_run)


def _choose_systems(study: Study, only: Sequence[str]) -> list[System]:
    """Return the systems whose texts are generated, or those of them in `only`, in the study's order."""
    named = {name: each for name, each in study.settings.systems.items() if each.source != "file"}
    if not named:
        raise StudyError(f"all systems of {study.folder} have their texts in files, so none are generated")
    asked = [setting for name in only for setting in study.settings.grids.get(name, [name])]
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


def _describe_tuning(study: Study) -> Iterator[str]:
    """Yield how many settings are written on how many prompts, until one of each strategy is chosen."""
    grids = study.settings.grids
    if grids and study.current_choice is None:
        choosing, compared = split_prompts(study)
        tried = f"{sum(map(len, grids.values()))} settings of {', '.join(grids)}"
        yield f"{len(choosing)} prompts choose among {tried}; what they choose writes to {len(compared)} more"


def _plan_models(
    study: Study,
    systems: Sequence[System],
    shard: Shard,
    *,
    engine: EngineName,
    workers: int | None,
    trace: bool,
) -> Iterator[GenerationPlan]:
    """Yield what each local model has to write for these systems."""
    for part, (names, prompts) in product(study.by_model(), plan_texts(study)):
        model = part.settings.model
        planned = {
            str(each.strategy): each.name
            for each in systems
            if each.name in names and study.settings.model_of(each) == model
        }
        if planned:
            yield GenerationPlan(
                study=part,
                systems=planned,
                prompts=[prompt for prompt in prompts if shard.holds(prompt.id)],
                shard=shard,
                known=_expect_model(part),
                engine="vllm" if engine == "vllm" else None,
                workers=workers,
                trace=trace,
            )


def _expect_model(study: Study) -> Known:
    """Return `revision` and `dtype` that the study's model will have, as far as they are known."""
    model = study.settings.model
    revision = model_revision(study)
    if revision is None:
        return {"revision": None, "dtype": None}
    from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

    files = ModelFiles.open(study.locate_model(model.name), revision)
    return {"revision": revision, "dtype": files.expected_dtype(model.dtype, model.one_device)}


def _write(plan: GenerationPlan, engine_name: EngineName, problems: Problems) -> Generated:
    """Write the texts of one local model that are missing, each batch before the next one begins."""
    written: Counter[str] = Counter()
    if plan.refused:
        problems[plan.refusal] = [plan.systems[name] for name in plan.refused]
    if plan.missing.keys() <= set(plan.refused):
        return plan.result(written)
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(resolve_name(_OPENERS[engine_name])(plan))
        except StudyError as error:
            problems.setdefault(str(error), []).extend(plan.systems[name] for name in plan.missing)
            return plan.result(written)
        plan = replace(plan, known=engine.known)
        folder = plan.study.continuations
        for name, texts in plan.missing.items():
            if name in plan.refused:
                continue
            system = plan.systems[name]
            with progress.task(system, total=len(texts), unit="texts") as advance:
                for batch in _until_refused(system, engine.write(name, texts), problems):
                    if batch.traces:  # before their texts, so that no text lacks its trace
                        append_traces(folder, batch.texts[0].recipe, batch.traces, plan.shard)
                    append_continuations(folder, batch.texts, plan.shard)
                    written[name] += len(batch.texts)
                    advance(len(batch.texts))
    return plan.result(written)


def _until_refused(
    system: str, batches: Iterator[FinishedBatch], problems: Problems
) -> Iterator[FinishedBatch]:
    """Yield a system's batches. If the engine refuses the rest, note its reason."""
    try:
        yield from batches
    except StudyError as error:
        problems.setdefault(str(error), []).append(system)


def _describe_problems(problems: Problems, results: Sequence[Generated]) -> str:
    """Return one sentence for each problem, with its systems if others are not affected."""
    names = {name for result in results for name in result.existing}
    reasons = [
        problem if names <= set(refused) else f"{', '.join(refused)}: {problem}"
        for problem, refused in problems.items()
    ]
    if any(result.written for result in results) and not any(result.exit_code for result in results):
        reasons.append("all other texts are written")
    return "; ".join(reasons)


def _forecast(plan: GenerationPlan) -> Generated:
    """Say how much there is to do, what would be downloaded and how long it takes.

    Raises:
        StudyError: A model is missing or cannot write what is missing.
    """
    generation = plan.study.settings.generation
    model = plan.study.settings.model
    if not plan.missing:
        return plan.result(Counter(), [f"would make 0 continuations with {model.name}"])
    if plan.missing.keys() <= set(plan.refused):
        raise StudyError(plan.refusal)
    models = plan.find_models()
    location = plan.study.locate_model(model.name)
    lines = [*models.lines, plan.refusal]
    revision = plan.known["revision"]
    if revision is not None and location not in models.missing:
        from guard_eval.generation.engines.encoding import encode_texts  # noqa: PLC0415 (needs torch)
        from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

        with models.offline():  # of a tokenizer, transformers asks for more files than there are
            described = ModelFiles.open(location, revision).describe(model.name)
        recipe = described.recipe(Greedy(), generation, plan.study.settings.seed)
        fitting, problem = encode_texts(described, [(prompt, 1) for prompt in plan.prompts], recipe)
        if problem and not fitting:
            raise StudyError(problem)
        lines.append(problem)
    texts = f"{plan.total} continuation{'' if plan.total == 1 else 's'}"
    limit = plan.total * generation.max_new_tokens
    lines.append(f"would make {texts} of at most {limit:,} tokens with {model.name}")
    if seconds := [text.seconds for texts in plan.existing.values() for text in texts.values()]:
        estimate = timedelta(seconds=round(plan.total * fmean(seconds)))
        lines.append(f"estimated time: {estimate}, at the mean speed of the existing texts")
    return plan.result(Counter(), [*filter(None, lines)])


def _join(study: Study, results: Sequence[Generated], *, trace: bool, dry_run: bool) -> Generated:
    """Return what was done for all systems as one result."""
    following: tuple[str, ...] = (study.command("measure"), study.command("pair"))
    if study.settings.tuning is not None and study.current_choice is None:
        following = (study.command(*TUNE),)
    written: Mapping[str, int] = reduce(or_, (each.written for each in results), {})
    lines = [line for each in results for line in each.lines]
    if dry_run:
        lines.append("run the command without --dry-run to write them")
    else:
        if trace and not written:
            lines.append("--trace: no text was written, so nothing is traced")
        lines += [f"continuations: {study.continuations}/"] * bool(study.by_model())
    return Generated(
        existing=reduce(or_, (each.existing for each in results), {}),
        written=written,
        missing=sum(each.missing for each in results),
        lines=tuple(lines),
        warnings=tuple(warning for each in results for warning in each.warnings),
        next=() if dry_run else following,
        exit_code=max((each.exit_code for each in results), default=0),
    )
