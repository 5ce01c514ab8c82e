"""The command `generate`: write a continuation of each prompt of a study with each of its systems."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from itertools import product
from operator import or_
from pkgutil import resolve_name
from statistics import fmean
from typing import Any, Literal

from guard_eval import progress
from guard_eval.errors import StudyError, format_count
from guard_eval.generation.plan import GenerationPlan, GenerationResult, Problems
from guard_eval.generation.served import ServedPlan, request_texts
from guard_eval.generation.strategies import Greedy, own, parse, signature
from guard_eval.servers.price import check_budget
from guard_eval.servers.server import parse_send_key_option
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import System
from guard_eval.texts.continuations import WHOLE, Shard, append_continuations, append_traces, reserve_shard
from guard_eval.texts.current import Known, find_model_revision
from guard_eval.texts.systems.served_files import TEXTS
from guard_eval.texts.tuning import TUNE, group_systems_by_prompts, split_prompts_for_tuning

EngineName = Literal["local", "vllm"]
_OPENERS: dict[EngineName, str] = {
    "local": "guard_eval.generation.engines.local:open_local_engine",
    "vllm": "guard_eval.generation.engines.vllm.generation:open_vllm_engine",
}
"""The function that opens each engine. An engine is imported late, because libraries take seconds to load."""


def generate_texts(
    study: Study,
    /,
    *,
    strategy: Sequence[str] = (),
    shard: str | None = None,
    engine: EngineName = "local",
    trace: bool = False,
    budget: float | None = None,
    send_key: Sequence[str] = (),
    dry_run: bool = False,
) -> GenerationResult:
    """Write continuations with every strategy.

    Each batch is on disk before the next begins, and existing texts are not written again: you can stop the
    command at any moment and run it again. A prompt keeps its last max_prompt_tokens tokens. If a strategy
    cannot write its texts, the other strategies still write theirs. Texts of models behind servers are
    requested and paid for.

    Args:
        study: The study's folder.
        strategy: Write texts only with this strategy or system of the study. The option may be repeated.
        shard: Write the texts of only one part of the prompts: I/N is part I of N. Run each part on another
            GPU or machine.
        engine: local: with transformers. vllm: with vLLM.
        trace: Also write the values that strategies adapt at every token, such as GUARD's k_t and α_t.
        budget: The highest cost of all requests to servers, over all runs, in US dollars. Default: the
            command asks.
        send_key: Allow a key to be sent to a server that study.toml names, as VARIABLE=https://host.
        dry_run: Show the number of missing texts, the time and the cost; write nothing.

    Raises:
        StudyError: Options contradict each other, a model cannot be loaded or cannot run a strategy, or texts
            could not be written. Written texts stay.
    """
    _check_options(trace=trace, engine=engine, budget=budget)
    systems = _select_systems(study, strategy)
    prompt_shard = Shard.parse(shard) if shard else Shard()
    local = [system for system in systems if system.source == "strategy"]
    served = [system for system in systems if system.source == "server"]
    results = [GenerationResult(lines=tuple(_describe_pending_tuning(study)))]
    problems: Problems = {}
    if served and shard:
        names = ", ".join(system.name for system in served)
        line = f"{names}: not requested with --shard, which divides the work of local models"
        if not local:
            raise StudyError(f"{line}; leave --shard out")
        results.append(GenerationResult(lines=(line,)))
        served = []
    with ExitStack() as locks:
        if local and not dry_run:
            locks.enter_context(reserve_shard(study.continuations_folder, prompt_shard))
        if served and not dry_run:
            locks.enter_context(reserve_shard(study.folder / TEXTS, WHOLE, remedy="wait for it, or stop it"))
        recorded = "vllm" if engine == "vllm" else None
        for plan in _plan_local_texts(study, local, shard=prompt_shard, engine=recorded, trace=trace):
            own.refuse_unloaded_strategies(plan.missing_texts)
            refused = plan.refused_strategies
            if refused and not (dry_run and plan.missing_texts):
                problems[plan.describe_refused_strategies()] = [plan.systems[name] for name in refused]
            results.append(
                _describe_dry_run(plan) if dry_run else _generate_missing_texts(plan, engine, problems)
            )
        plans = [
            ServedPlan(study=study, system=system, prompts=prompts)
            for names, prompts in (group_systems_by_prompts(study) if served else ())
            for system in served
            if system.name in names
        ]
        if dry_run:
            results += [plan.describe_dry_run() for plan in plans]
        elif plans:
            allowed = parse_send_key_option(send_key)
            results += request_texts(plans, problems, budget=budget, send_key=allowed)
    if problems:
        raise StudyError(_describe_problems(problems, results))
    return _combine_system_results(study, results, trace=trace, dry_run=dry_run)


def _check_options(*, trace: bool, engine: EngineName, budget: float | None) -> None:
    """Raise a `StudyError` if an option has a bad value or contradicts another option."""
    if trace and engine != "local":
        raise StudyError(f"--trace works only with --engine local, not with {engine}; leave one of them out")
    check_budget(budget)


def _select_systems(study: Study, names: Sequence[str]) -> list[System]:
    """Return the systems with these names, or all systems without names, in the study's order.

    Systems whose texts are in files are left out.
    """
    named = {name: system for name, system in study.settings.systems.items() if system.source != "file"}
    if not named:
        raise StudyError(
            f"no texts to generate: the texts of all systems of {study.folder} are in files; "
            "run the command pair"
        )
    requested = [setting for name in names for setting in study.settings.grids.get(name, [name])]
    picked = [name if name in named else _normalise_strategy_name(name, study) for name in requested]
    if unknown := [name for name in picked if name not in named]:
        raise StudyError(
            f"--strategy {unknown[0]} is not a strategy or system of {study.folder / 'study.toml'}; add it "
            f"there, or choose from: {', '.join(named)}"
        )
    return [system for name, system in named.items() if name in picked or not picked]


def _normalise_strategy_name(name: str, study: Study) -> str:
    """Return the full signature of a strategy, such as `top_k(k=50)`. A system's own name stays unchanged."""
    try:
        return signature(parse(name))
    except StudyError:
        if not study.settings.system:
            raise
        return name


def _describe_pending_tuning(study: Study) -> Iterator[str]:
    """Describe the settings that a tuning still has to choose from. Yield nothing if all are chosen."""
    grids = study.settings.grids
    if grids and study.valid_tuning_choice is None:
        choosing, compared = split_prompts_for_tuning(study)
        tried = f"{sum(map(len, grids.values()))} settings of {', '.join(grids)}"
        yield (
            f"{len(choosing)} prompts are for choosing among {tried}; "
            f"the chosen settings continue {len(compared)} other prompts"
        )


def _plan_local_texts(
    study: Study,
    systems: Sequence[System],
    *,
    shard: Shard,
    **options: Any,  # noqa: ANN401 (fields of `GenerationPlan`)
) -> Iterator[GenerationPlan]:
    """Yield a plan for each local model: the texts that this model has to write for these systems."""
    for model_study, (names, prompts) in product(study.split_by_model(), group_systems_by_prompts(study)):
        model = model_study.settings.model
        planned = {
            str(system.strategy): system.name
            for system in systems
            if system.name in names and study.settings.find_writing_model(system) == model
        }
        if planned:
            yield GenerationPlan(
                study=model_study,
                systems=planned,
                prompts=[prompt for prompt in prompts if shard.contains(prompt.id)],
                shard=shard,
                facts=_find_model_revision_and_dtype(model_study),
                **options,
            )


def _find_model_revision_and_dtype(study: Study) -> Known:
    """Find the revision and number format of the study's model without loading the model.

    A value that is not known yet is None.
    """
    model = study.settings.model
    revision = find_model_revision(study)
    if revision is None:
        return {"revision": None, "dtype": None}
    from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

    files = ModelFiles.open(study.locate_model(model.name), revision)
    return {"revision": revision, "dtype": files.predict_dtype(model.dtype, model.single_device)}


def _generate_missing_texts(
    plan: GenerationPlan, engine_name: EngineName, problems: Problems
) -> GenerationResult:
    """Write the missing texts of one local model. Each batch is saved before the next batch begins."""
    written: Counter[str] = Counter()
    if not plan.missing_texts:
        return plan.make_result(written)
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(resolve_name(_OPENERS[engine_name])(plan))
        except StudyError as error:
            problems.setdefault(str(error), []).extend(plan.systems[name] for name in plan.missing_texts)
            return plan.make_result(written)
        plan = replace(plan, facts=engine.facts)
        folder = plan.study.continuations_folder
        for name, texts in plan.missing_texts.items():
            system = plan.systems[name]
            try:
                with progress.show_task(system, total=len(texts), unit="texts") as advance:
                    for batch in engine.generate_batches(name, texts):
                        if batch.traces:  # traces are saved before texts, so that each text has its trace
                            append_traces(folder, batch.texts[0].recipe, batch.traces, plan.shard)
                        append_continuations(folder, batch.texts, plan.shard)
                        written[name] += len(batch.texts)
                        advance(len(batch.texts))
            except StudyError as error:
                problems.setdefault(str(error), []).append(system)
    return plan.make_result(written)


def _describe_problems(problems: Problems, results: Sequence[GenerationResult]) -> str:
    """Describe each problem in one sentence. Name the affected systems, unless all systems are affected."""
    names = {name for result in results for name in result.existing}
    reasons = [
        problem if names <= set(refused) else f"{', '.join(refused)}: {problem}"
        for problem, refused in problems.items()
    ]
    if any(result.written for result in results) and not any(result.exit_code for result in results):
        reasons.append("all other texts are written")
    return "; ".join(reasons)


def _describe_dry_run(plan: GenerationPlan) -> GenerationResult:
    """Describe the missing texts, the downloads and the expected time. Write no texts.

    Raises:
        StudyError: A model is missing or cannot write any of the missing texts.
    """
    generation = plan.study.settings.generation
    model = plan.study.settings.model
    if not plan.missing_texts:
        return plan.make_result(Counter(), [f"would make 0 continuations with {model.name}"])
    models = plan.check_models_available()
    location = plan.study.locate_model(model.name)
    lines = [*models.availability_lines, plan.describe_refused_strategies()]
    revision = plan.facts["revision"]
    if revision is not None and location not in models.missing:
        from guard_eval.generation.engines.encoding import encode_prompts_that_fit  # noqa: PLC0415 (needs torch)
        from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

        # Transformers would ask the Hub for files of the tokenizer that do not exist.
        with models.skip_unreachable_hub():
            described = ModelFiles.open(location, revision).load_all_but_weights(model.name)
        recipe = described.make_recipe(Greedy(), generation, plan.study.settings.seed)
        fitting, problem = encode_prompts_that_fit(
            described, [(prompt, 1) for prompt in plan.prompts], recipe
        )
        if problem and not fitting:
            raise StudyError(problem)
        lines.append(problem)
    texts = format_count(plan.missing_count, "continuation")
    limit = plan.missing_count * generation.max_new_tokens
    lines.append(f"would make {texts} of at most {limit:,} tokens with {model.name}")
    if seconds := [text.seconds for texts in plan.existing_texts.values() for text in texts.values()]:
        estimate = timedelta(seconds=round(plan.missing_count * fmean(seconds)))
        lines.append(f"estimated time: {estimate}, from the mean time of the existing texts")
    return plan.make_result(Counter(), [*filter(None, lines)])


def _combine_system_results(
    study: Study, results: Sequence[GenerationResult], *, trace: bool, dry_run: bool
) -> GenerationResult:
    """Combine the results of all systems into one result."""
    following: tuple[str, ...] = (study.format_command("measure"), study.format_command("pair"))
    if study.settings.tuning is not None and study.valid_tuning_choice is None:
        following = (study.format_command(*TUNE),)
    written: Mapping[str, int] = reduce(or_, (result.written for result in results), {})
    missing = sum(result.missing for result in results)
    if missing and not any(written.values()):
        following = (study.format_command("generate"),)
    lines = [line for result in results for line in result.lines]
    if dry_run:
        lines.append("run the command without --dry-run to write them")
    else:
        if trace and not written:
            lines.append("--trace: no text was written, so nothing is traced")
        lines += [f"continuations: {study.continuations_folder}/"] * bool(study.local_models)
    return GenerationResult(
        existing=reduce(or_, (result.existing for result in results), {}),
        written=written,
        missing=missing,
        lines=tuple(lines),
        warnings=tuple(warning for result in results for warning in result.warnings),
        next=() if dry_run else following,
        exit_code=max((result.exit_code for result in results), default=0),
    )
