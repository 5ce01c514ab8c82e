"""Measure texts: those of a study, of files, or what `generate` has just returned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.export import collect_notes, difference_table, score_table, write_results
from guard_eval.metrics.measurement import AGAINST_REFERENCES, measure_generations, measure_groups
from guard_eval.metrics.models import ScoringModel, ScoringModels
from guard_eval.metrics.outcomes import MetricTools, group_texts
from guard_eval.metrics.scores import Measured, rows_of
from guard_eval.records import Continuation, Prompt, content_id
from guard_eval.reporting.words import plural
from guard_eval.study import Study
from guard_eval.study.criteria_settings import SettingsTable
from guard_eval.study.overrides import with_overrides
from guard_eval.study.problems import explain, problems_of
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.continuations import trace_files
from guard_eval.texts.current import find_current
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.generations import HUMAN, Generation, generation_of
from guard_eval.texts.model_hub import HubModels, find_models
from guard_eval.texts.prompts import read_prompts

if TYPE_CHECKING:
    from guard_eval.engines.library import Texts

    Source = Path | Study | Texts
else:
    Source = Path  # what can be typed on a command line

SCORING_MODELS = {
    "coherence": "coherence_model",
    "perplexity": "coherence_model",
    "mauve": "mauve_model",
    "bertscore": "bertscore_model",
}
"""Metrics that need a model, and the setting that names it."""
WITHOUT_MODELS = ("diversity", "repetition", "distinct", "self_bleu", "length")
"""What is measured of texts from `generate`, unless metrics are named."""


class DeviceTable(SettingsTable):
    """Where scoring models run."""

    device: str = "auto"


class FileSettings(SettingsTable):
    """The settings of a measurement; for texts without a study they are changed by `--set`."""

    seed: int = Field(default=1, ge=0)
    all_runs: bool = False
    model: DeviceTable = Field(default_factory=DeviceTable)
    metrics: MetricSettings = Field(default_factory=MetricSettings)


def measure(
    *source: Source,
    metrics: Sequence[str] = (),
    baseline: str | None = None,
    prompts: Path | None = None,
    column: Sequence[str] = (),
    output: Path | None = None,
    dry_run: bool = False,
    overrides: Sequence[str] = (),
) -> Measured:
    """Score continuations, and say how sure the scores are.

    Diversity, MAUVE, coherence, BERTScore, perplexity, repetition, length and speed, for each dataset and
    strategy, with the human reference and intervals over prompts. With a baseline also differences, tests and
    Holm's correction. No model reads a text twice: stop the command at any moment and run it again. A metric
    whose model is not available is named at the end (exit code 2); all others are written.

    Args:
        source: A study's folder, or files of texts (JSONL, JSON, CSV, XLSX, Parquet, samples of
            lm-evaluation-harness). A record has the text and, where known, prompt, reference, strategy,
            dataset and id.
        metrics: Only these, with commas: diversity, mauve, coherence, bertscore, perplexity, repetition,
            distinct, self_bleu, length, speed.
        baseline: Compare every other strategy with this one, prompt by prompt.
        prompts: For files without prompts: a file with the prompts and references, by id.
        column: For files: the column of the texts. Given several times, each one is a strategy.
        output: For files: a folder for tables, figures and stored scores. A study has its own.
        dry_run: Say what would be measured, and stop.
        overrides: Settings for this run, each `table.key=value`.

    Raises:
        StudyError: If there are no texts, if a file or a setting is wrong, or if a metric of texts from
            `generate` could not be measured.
    """
    if not source:
        raise StudyError("name a study's folder or files of texts")
    names = [name.strip() for text in metrics for name in text.split(",") if name.strip()]
    chosen: dict[str, Any] = {"compute": names} if names else {}
    files = [each for each in source if isinstance(each, str | Path)]
    if isinstance(source[0], Study) or (files and _is_study(files)):
        for_files = {"--prompts": prompts, "--column": column, "--output": output}
        if refused := [name for name, value in for_files.items() if value]:
            raise StudyError(f"{refused[0]} is for files; a study has its own: edit its study.toml")
        study = source[0] if isinstance(source[0], Study) else Study.open(files[0], overrides)
        job = _plan_study(study, chosen if baseline is None else chosen | {"baseline": baseline})
        return job.preview() if dry_run else job.run()
    if not files:
        chosen.setdefault("compute", list(WITHOUT_MODELS))
    tables = with_overrides({"metrics": {}}, overrides)
    if isinstance(tables["metrics"], dict):
        tables["metrics"] |= chosen
    settings = _check_settings(tables)
    known = {prompt.id: prompt for prompt in read_prompts(prompts)} if prompts else None
    options = {"prompts": known, "columns": column, "all_runs": settings.all_runs}
    job = _Job(
        [text for each in source for text in _read_texts(each, options)],
        # A strategy in a file may have any name.
        settings.metrics.model_copy(update={"baseline": baseline or settings.metrics.baseline}),
        settings.seed,
        ScoringModels(device=settings.model.device),
        output,
    )
    measured = job.preview() if dry_run else job.run()
    if measured.failures and not files:
        raise StudyError("\n".join(measured.failures))
    return measured


def _is_study(paths: Sequence[str | Path]) -> bool:
    """Return whether one folder is named, or nothing that could be a file; folders among files are wrong."""
    folders = [path for path in paths if Path(path).is_dir()]
    if folders and len(paths) > 1:
        raise StudyError(f"{folders[0]} is a folder; name one study, or files alone")
    missing = len(paths) == 1 and not (Path(paths[0]).suffix or Path(paths[0]).exists())
    return bool(folders) or missing


def _check_settings(tables: Mapping[str, Any]) -> FileSettings:
    try:
        return FileSettings.model_validate(tables)
    except ValidationError as error:
        problems = problems_of(error, FileSettings, tables)
        raise StudyError(explain(Path("the command line"), problems)) from error


def _read_texts(source: Any, options: Mapping[str, Any]) -> Sequence[Generation]:  # noqa: ANN401
    """Return the texts of a file, or of what a notebook passes."""
    if isinstance(source, str | Path):
        return read_generations(Path(source), **options)
    if not hasattr(source, "with_prompts"):
        raise StudyError(f"measure got a {type(source).__name__}; give it what generate returned")
    return [generation_of(continuation, prompt) for prompt, continuation in source.with_prompts()]


def _plan_study(study: Study, chosen: Mapping[str, Any]) -> _Job:
    """Return what is to be measured of a study: the continuations that exist."""
    settings = study.settings
    prompts = {prompt.id: prompt for prompt in read_prompts(study.prompts_path, limit=settings.prompts.limit)}
    runs = find_current(study, settings.generation.strategies, [*prompts.values()])
    generations = [
        generation_of(text, prompts[text.prompt_id]) for run in runs.values() for text in run.texts.values()
    ]
    if not generations:
        raise StudyError(f"{study.folder} has no continuations yet; run: {study.command('generate')}")
    wanted = _check_settings({"metrics": {**settings.metrics.model_dump(), **chosen}}).metrics
    return _Job(
        generations,
        wanted,
        settings.seed,
        ScoringModels.of_study(study),
        study.metrics,
        traces=[path for name, run in runs.items() if run.folder for path in trace_files(run.folder, name)],
        warnings=_check_scorer(study, wanted),
        next=(study.command("pair"), study.command("report")),
    )


def _check_scorer(study: Study, settings: MetricSettings) -> list[str]:
    """Warn if the model that wrote the texts is the one that scores them."""
    writer, scorer = study.settings.model.name, settings.coherence_model
    scored = sorted({"coherence", "perplexity"} & set(settings.compute))
    if not scored or study.locate_model(writer) != study.locate_model(scorer):
        return []
    warning = f"{' and '.join(scored)}: {scorer} scores what it wrote itself"
    return [
        f"{warning}, so greedy decoding and beam search lead by construction; name another coherence_model"
    ]


@dataclass(frozen=True)
class _Job:
    """Texts to measure, with their settings; `folder` gets tables, figures and stored scores, if any."""

    generations: Sequence[Generation]
    settings: MetricSettings
    seed: int
    models: ScoringModels
    folder: Path | None
    traces: Sequence[Path] = ()
    warnings: Sequence[str] = ()
    next: tuple[str, ...] = ()

    def _lines(self) -> list[str]:
        strategies = {text.strategy for text in self.generations}
        datasets = {text.dataset for text in self.generations}
        models = dict.fromkeys(model.name for model in self._scorers().values())
        lines = [
            f"texts: {len(self.generations)}, strategies: {len(strategies)}, datasets: {len(datasets)}",
            f"metrics: {', '.join(self.settings.compute)}",
        ]
        return [*lines, f"scoring models: {', '.join(models)}"] if models else lines

    def _scorers(self) -> dict[str, ScoringModel]:
        """Return the models of the metrics that need one."""
        names = {metric: SCORING_MODELS.get(metric, "") for metric in self.settings.compute}
        return {
            metric: self.models.open(getattr(self.settings, name)) for metric, name in names.items() if name
        }

    def _find_models(self, *, missing_folders: bool) -> HubModels:
        """Look for the models that are needed; without `missing_folders` only for those that may be there."""
        references = any(text.reference for text in self.generations)
        models = {}
        for metric, model in self._scorers().items():
            path, needed = Path(model.location), references or metric not in AGAINST_REFERENCES
            if needed and (missing_folders or path.is_dir() or not path.is_absolute()):
                models[model.name] = (model.location, model.wanted)
        return find_models(models)

    def preview(self) -> Measured:
        """Return what would be measured, and which models would be downloaded."""
        hub = self._find_models(missing_folders=True)
        problem = hub.problem()
        return Measured(
            lines=(*self._lines(), *hub.lines()),
            settings=self.settings.model_dump(mode="json"),
            warnings=(problem,) if problem else (),
            exit_code=2 if problem else 0,
        )

    def run(self) -> Measured:
        """Measure, and write the results."""
        # Models that cannot be loaded are named at once; what needs none of them is measured.
        hub = self._find_models(missing_folders=False)
        if problem := hub.problem():
            progress.warn(problem)
        path = self.folder / "scores.sqlite" if self.folder else None
        with hub.offline(), closing(ScoreCache(path)) as cache:
            tools = MetricTools(settings=self.settings, models=self.models, cache=cache)
            measured = measure_generations(self.generations, tools, seed=self.seed, warnings=self.warnings)
        scores, differences = rows_of(measured.scores), rows_of(measured.differences)
        undefined = [score for score in scores if score.value is None or score.counts]
        notes = (f"{name} ({where}): {note}" for name, where, note in collect_notes(undefined))
        lines = [*self._lines(), *notes]
        lines += dict.fromkeys(row.note for row in differences if row.note)
        if self.folder:
            write_results(measured, self.folder, traces=self.traces)
            lines.append(f"definitions, intervals and figures: {self.folder / 'metrics.html'}")
        else:
            lines += dict.fromkeys(score.signature for score in scores if score.strategy != HUMAN)
        tables = [score_table(measured.scores)]
        tables += [difference_table(measured.differences)] if differences else []
        return replace(
            measured,
            lines=tuple(lines),
            tables=tuple(tables),
            warnings=(*measured.warnings, *measured.failures),
            next=self.next,
            exit_code=2 if measured.failures else 0,
        )


def best_texts(
    study: Study, metric: str, runs: Mapping[int, Mapping[str, Continuation]], prompts: Mapping[str, Prompt]
) -> dict[str, Continuation]:
    """Return for each prompt the text with the highest value of a metric, of all runs of one strategy.

    A text whose value is undefined (too short for it) loses to any other. Of equal ones a hash of the seed,
    the prompt's id and the run decides.

    Args:
        study: Whose models score, and whose seed decides.
        metric: A metric that each text has a value of.
        runs: The strategy's texts, by run and prompt id.
        prompts: The prompts by id.

    Raises:
        StudyError: If the metric's model is not available, or if the texts have nothing that it needs.
    """
    settings, seed = study.settings.metrics.model_copy(update={"compute": [metric]}), study.settings.seed
    groups = group_texts(
        replace(generation_of(text, prompts[name]), strategy=str(run))
        for run, texts in runs.items()
        for name, text in texts.items()
    )
    humans = groups if any(prompt.reference is not None for prompt in prompts.values()) else []
    with closing(ScoreCache(study.metrics / "scores.sqlite")) as cache:
        tools = MetricTools(settings=settings, models=ScoringModels.of_study(study), cache=cache)
        outcomes, failures = measure_groups(groups, humans, tools)
    if failures:
        raise StudyError(f"pairs.best_of_runs: {'; '.join(failures)}")
    ranked: dict[str, list[tuple[float, str, int]]] = {}
    for group in groups:
        outcome, run = outcomes[metric, group.dataset, group.strategy], int(group.strategy)
        values = [math.nan] * len(group.prompts) if outcome.parts is None else outcome.function(outcome.parts)
        for name, value in zip(group.prompts, values, strict=True):
            defined = -math.inf if math.isnan(value) else float(value)
            ranked.setdefault(name, []).append((defined, content_id(seed, "run", name, run), run))
    best = {name: max(ranking) for name, ranking in ranked.items()}
    if undefined := sum(value == -math.inf for value, _, _ in best.values()):
        without = f"{plural(undefined, 'prompt')} without a text that has a {metric}"
        progress.notice(f"{without}: the seed chose there")
    return {name: runs[run][name] for name, (_, _, run) in best.items()}
