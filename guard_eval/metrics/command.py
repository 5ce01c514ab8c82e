"""Measure the texts of a study, of files, or of a result of `generate`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from pydantic import Field

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.metrics.export import (
    collect_score_notes,
    make_all_tables,
    make_terminal_tables,
    write_results,
)
from guard_eval.metrics.inference import Searches
from guard_eval.metrics.measurement import (
    AGAINST_REFERENCES,
    MODULES,
    WITH_MODELS,
    measure_generations,
)
from guard_eval.metrics.scores import MeasurementResult
from guard_eval.metrics.scoring_models import MetricTools, ScoreCache, ScoringModels
from guard_eval.metrics.tuning import choose_settings, list_metrics_of_tuning_rule
from guard_eval.records import HUMAN, Generation, Prompt, make_generation
from guard_eval.reporting.writing import claim_results_folder
from guard_eval.study import Study
from guard_eval.study.criteria_settings import SettingsTable
from guard_eval.study.settings import MetricSettings
from guard_eval.study.system_settings import locate_model
from guard_eval.study.toml import apply_overrides, validate_toml_tables
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.models import HubModels, find_local_and_hub_models
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.systems import explain_missing_texts, find_first_texts_of_systems, find_texts
from guard_eval.texts.systems.cues import describe_unfinished_texts
from guard_eval.texts.tuning import list_compared_systems, read_compared_prompts, split_prompts_for_tuning

if TYPE_CHECKING:
    from guard_eval.generation.library import Texts

    Source: TypeAlias = Path | Study | Texts
else:
    Source = Path  # the command line has only paths

DEFAULT_BASELINE = "greedy"
"""The default baseline of a study, if the study has this strategy."""

MOST_CHARACTERS = 80
"""A note in the terminal names the table rows to which it applies with at most this number of characters."""

WITHOUT_MODELS = (*MODULES["ngrams"], "length")
"""The default metrics for texts that `generate` returned."""


class FileSettings(SettingsTable):
    """The settings to measure texts without a study. The option `--set` changes these settings."""

    metrics: MetricSettings = Field(default_factory=MetricSettings)


def measure(
    *source: Source,
    metrics: Sequence[str] = (),
    baseline: str | None = None,
    prompts: Path | None = None,
    column: Sequence[str] = (),
    output: Path | None = None,
    tune: bool = False,
    dry_run: bool = False,
    overrides: Sequence[str] = (),
) -> MeasurementResult:
    """Score texts with automatic metrics, and say how certain the scores are.

    The scores are diversity, MAUVE, coherence, BERTScore, perplexity, repetition, length and speed, for each
    dataset and strategy and for the human references. The confidence intervals are over prompts. With a
    baseline, there are also differences, tests and Holm's correction. No model reads a text twice: you can
    stop the command at any moment and run it again. If the model of a metric is not available, the metric is
    named at the end (exit code 2), and all others are written.

    Args:
        source: A study's folder, or files of texts (JSONL, JSON, CSV, XLSX, Parquet). A record has the text
            and, if known, prompt, reference, strategy, dataset and id.
        metrics: Measure only these metrics, separated by commas: diversity, mauve, coherence, bertscore,
            perplexity, repetition, distinct, self_bleu, length, speed.
        baseline: Compare every other strategy with this one, prompt by prompt.
        prompts: With files that have no prompts: a file with the prompts and references. They are matched by
            id.
        column: With files: the column that holds the texts. If it is given several times, each column is a
            strategy.
        output: With files: the folder for tables, figures and stored scores. A study has its own folder.
        tune: Choose one setting of each strategy by the rule in [tuning], from the scores on the tuning
            prompts.
        dry_run: Show what would be measured; measure nothing.
        overrides: Settings for this run, each as `table.key=value`.

    Raises:
        StudyError: If there are no texts, if a file or a setting is wrong, or if a metric of texts from
            `generate` could not be measured.
    """
    if not source:
        raise StudyError("nothing to measure was given; name a study's folder or files of texts")
    names = [name.strip() for text in metrics for name in text.split(",") if name.strip()]
    chosen: dict[str, object] = {"compute": names} if names else {}
    files = [Path(path) for path in source if isinstance(path, str | Path)]
    if isinstance(source[0], Study) or _is_study_folder(files):
        if prompts or column or output:
            raise StudyError(
                "--prompts, --column and --output are only for files; for a study, edit study.toml"
            )
        study = source[0] if isinstance(source[0], Study) else Study.open(files[0], overrides)
        if baseline is not None:
            chosen["baseline"] = baseline
        measure_study = _tune_study if tune else _measure_study
        return measure_study(study, chosen, dry_run=dry_run)
    if tune:
        raise StudyError("--tune is only for a study; name its folder")
    if not files:
        chosen.setdefault("compute", list(WITHOUT_MODELS))
    settings = _check_metric_settings(apply_overrides({"metrics": chosen}, overrides))
    prompts_by_id = {prompt.id: prompt for prompt in read_prompts(prompts)} if prompts else None
    measured = _measure_texts(
        _read_all_texts(source, prompts_by_id, column),
        # Files can have any names of strategies, so the baseline is not checked as in a study.
        settings.metrics.model_copy(update={"baseline": baseline or settings.metrics.baseline}),
        ScoringModels(partial(locate_model, folder=Path())),
        folder=output,
        dry_run=dry_run,
    )
    if measured.failures and not files:
        raise StudyError("\n".join(measured.failures))
    return measured


def _is_study_folder(files: Sequence[Path]) -> bool:
    """Return whether the user named a study: one path, which is a folder or could be a missing folder."""
    if len(files) != 1:
        return False
    path = files[0]
    is_missing_folder = not path.suffix and not path.exists()
    return path.is_dir() or is_missing_folder


def _check_metric_settings(tables: Mapping[str, object], systems: Sequence[str] = ()) -> FileSettings:
    return validate_toml_tables(FileSettings, tables, "the command line", context={"systems": list(systems)})


def _read_all_texts(
    sources: Sequence[Source], prompts: Mapping[str, Prompt] | None, columns: Sequence[str]
) -> list[Generation]:
    """Read the texts of all files and results.

    Raises:
        StudyError: Two files have a text by the same system to the same prompt.
    """
    texts = []
    files: dict[tuple[object, ...], Source] = {}
    for source in sources:
        for text in _read_texts(source, prompts, columns):
            prompt = text.prompt_id if text.prompt is None else text.prompt
            other = files.setdefault((text.dataset, text.strategy, text.run, prompt), source)
            if other is not source and isinstance(source, str | Path):
                raise StudyError(
                    f"{other} and {source} both have a text by {text.strategy!r} to the prompt "
                    f"{prompt!r:.60}. If these are two systems, name the system in each record (a key "
                    "'system'), or the one column of the texts (--column NAME). If these are two runs, "
                    "number them under a key 'run'. If these are two prompts, write each 'prompt' beside it"
                )
            texts.append(text)
    return texts


def _read_texts(
    source: Source, prompts: Mapping[str, Prompt] | None, columns: Sequence[str]
) -> Sequence[Generation]:
    """Read the texts of a file, or of a result of `generate`."""
    if isinstance(source, str | Path):
        return read_generations(Path(source), prompts=prompts, columns=columns)
    if isinstance(source, Study) or not hasattr(source, "iterate_with_prompts"):
        raise StudyError(f"measure cannot read a {type(source).__name__}; pass the result of generate")
    return [make_generation(continuation, prompt) for prompt, continuation in source.iterate_with_prompts()]


def _measure_study(study: Study, chosen: Mapping[str, object], *, dry_run: bool) -> MeasurementResult:
    """Measure the existing texts of a study."""
    settings = study.settings
    prompts = read_compared_prompts(study)
    systems: Iterable[str] = list_compared_systems(study)
    searches = {}
    if study.choice is not None and not study.choice.tuning.prompts:
        # These prompts also chose the settings, so the test must account for all settings that were tried.
        systems = settings.systems
        searches = {study.choice.chosen[name]: tried for name, tried in settings.grids.items()}
    by_system = find_texts(study, systems, prompts)
    generations = [text for texts in by_system.values() for text in texts.values()]
    if not generations:
        remedy = explain_missing_texts(study, next(iter(settings.systems)))
        raise StudyError(f"{study.folder} has no {settings.texts} yet; {remedy}")
    declared = settings.metrics.model_dump()
    if declared["baseline"] is None and DEFAULT_BASELINE in settings.systems:
        declared["baseline"] = DEFAULT_BASELINE
    tables = {"metrics": {**declared, **chosen}}
    metric_settings = _check_metric_settings(tables, list(settings.systems)).metrics
    measured = _measure_texts(
        generations,
        metric_settings,
        ScoringModels.from_study(study),
        folder=study.metrics_folder,
        dry_run=dry_run,
        warnings=_warn_about_self_scoring(study, metric_settings),
        question=study.settings.question,
        searches=searches,
    )
    return (
        measured
        if dry_run
        else replace(measured, next=(study.format_command("pair"), study.format_command("status")))
    )


def _tune_study(study: Study, chosen: Mapping[str, object], *, dry_run: bool) -> MeasurementResult:
    """Measure the texts for the tuning prompts, and choose the best setting of each strategy."""
    settings = study.settings
    if chosen:
        raise StudyError("--tune takes the metrics from [tuning]; leave --metrics and --baseline out")
    if settings.tuning is None:
        raise StudyError("study.toml has no table [tuning], which --tune needs; add this table")
    prompts, _ = split_prompts_for_tuning(study)
    texts = find_first_texts_of_systems(study, settings.systems, prompts)
    metrics = {"compute": list_metrics_of_tuning_rule(settings.tuning), "baseline": None}
    metric_settings = settings.metrics.model_copy(update=metrics)
    measured = _measure_texts(
        [text for by_prompt in texts.values() for text in by_prompt.values()],
        metric_settings,
        ScoringModels.from_study(study),
        folder=study.metrics_folder,
        write=False,
        dry_run=dry_run,
        warnings=_warn_about_self_scoring(study, metric_settings),
    )
    if measured.failures:
        raise StudyError("\n".join(measured.failures))
    return measured if dry_run else choose_settings(study, measured, texts, prompts)


def _warn_about_self_scoring(study: Study, settings: MetricSettings) -> list[str]:
    """Return a warning if the model that wrote the texts also scores them."""
    writers = [study.locate_model(model.name) for model in study.local_models]
    scorer = settings.coherence_model
    scored = sorted({"coherence", "perplexity"} & set(settings.compute))
    if not scored or study.locate_model(scorer) not in writers:
        return []
    warning = f"{' and '.join(scored)}: {scorer} scores its own texts"
    remedy = "name another coherence_model"
    return [f"{warning}, which favours greedy decoding and beam search; {remedy}"]


def _measure_texts(
    generations: Sequence[Generation],
    settings: MetricSettings,
    models: ScoringModels,
    *,
    folder: Path | None,
    write: bool = True,
    dry_run: bool,
    warnings: Sequence[str] = (),
    question: str = "",
    searches: Searches = MappingProxyType({}),
) -> MeasurementResult:
    """Measure texts. If a folder is given, save the results and the cache of scores in this folder.

    If `write` is false, only the cache is saved.
    """
    strategies = {text.strategy for text in generations}
    datasets = {text.dataset for text in generations}
    line = f"texts: {len(generations)}, strategies: {len(strategies)}, datasets: {len(datasets)}"
    hub = _find_scoring_models(generations, settings, models, dry_run=dry_run)
    problem = hub.problem
    if dry_run:
        return MeasurementResult(
            lines=(line, f"metrics: {', '.join(settings.compute)}", *hub.availability_lines),
            warnings=(problem,) if problem else (),
            exit_code=2 if problem else 0,
        )
    if problem:  # metrics without these models are still measured
        progress.warn(problem)
    if folder:
        claim_results_folder(folder, ["scores.sqlite"])
    with hub.skip_unreachable_hub(), closing(ScoreCache(folder and folder / "scores.sqlite")) as cache:
        tools = MetricTools(settings=settings, models=models, cache=cache)
        measured = measure_generations(generations, tools, warnings=warnings, searches=searches)
        measured = replace(measured, question=question)
    by_system: dict[str, list[str]] = {}
    for text in generations:
        by_system.setdefault(text.strategy, []).append(text.text)
    noted = [score for score in measured.scores if score.value is None or score.counts]
    notes = collect_score_notes([*noted, *(row for row in measured.differences if row.note)])
    lines = [line, *filter(None, [describe_unfinished_texts(by_system)])]
    lines += [f"{metrics} ({shorten(where, MOST_CHARACTERS)}): {note}" for metrics, where, note in notes]
    if folder and write:
        write_results(measured, folder)
        lines.append(f"definitions, intervals and figures: {folder / 'metrics.html'}")
    else:
        lines += dict.fromkeys(score.signature for score in measured.scores if score.strategy != HUMAN)
    return replace(
        measured,
        lines=tuple(lines),
        tables=tuple(make_terminal_tables(measured) if folder else make_all_tables(measured)),
        warnings=(*measured.warnings, *measured.failures),
        exit_code=2 if measured.failures else 0,
    )


def _find_scoring_models(
    generations: Sequence[Generation], settings: MetricSettings, models: ScoringModels, *, dry_run: bool
) -> HubModels:
    """Find the models that the chosen metrics need, on this machine or on the Hugging Face Hub.

    A dry run reports a missing model folder as a problem. In a real run, only the metrics that need this
    model fail.
    """
    have_references = any(text.reference for text in generations)
    needed_models: dict[str, tuple[str, str]] = {}
    for module in WITH_MODELS:
        model = models.open(getattr(settings, f"{module}_model"))
        path = Path(model.location)
        computed = set(MODULES[module]) & set(settings.compute)
        is_needed = computed and (have_references or module not in AGAINST_REFERENCES)
        is_missing_folder = path.is_absolute() and not path.is_dir()
        if is_needed and (dry_run or not is_missing_folder):
            needed_models[model.name] = (model.location, model.branch)
    return find_local_and_hub_models(needed_models)
