"""Measure texts: those of a study, of files, or what `generate` has just returned."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pydantic import Field, ValidationError

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.export import difference_table, score_notes, score_table, write_results
from guard_eval.metrics.groups import group_texts
from guard_eval.metrics.measurement import AGAINST_REFERENCES, measure_generations, measure_groups
from guard_eval.metrics.models import ScoringModels
from guard_eval.metrics.scores import Difference, Score
from guard_eval.records import Continuation, Prompt, content_id
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import plural
from guard_eval.results import Result
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
    """The settings for texts without a study, changed by `--set`."""

    seed: int = Field(default=1, ge=0)
    all_runs: bool = False
    model: DeviceTable = Field(default_factory=DeviceTable)
    metrics: MetricSettings = Field(default_factory=MetricSettings)


@dataclass(frozen=True, kw_only=True)
class Measured(Result):
    """What a measurement found.

    Attributes:
        scores: By metric, dataset and strategy.
        differences: From the baseline, if there is one.
        settings: All settings by name.
        failures: Metrics that could not be measured: why, and what to do.
    """

    scores: tuple[Score, ...] = ()
    differences: tuple[Difference, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each score: metric, dataset, strategy, value, limits, texts and note."""
        columns = ["metric", "dataset", "strategy", "value", "low", "high", "n", "note"]
        return pd.DataFrame([{name: getattr(score, name) for name in columns} for score in self.scores])

    def summary(self, metrics: Sequence[str]) -> Table:
        """Return the metrics of all datasets together, as a table."""
        last = self.scores[-1].dataset  # the mean over datasets, where there are several
        return score_table(self.scores, datasets=[last], metrics=metrics)

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html())


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
    chosen: dict[str, Any] = {} if baseline is None else {"baseline": baseline}
    if names := [name.strip() for text in metrics for name in text.split(",") if name.strip()]:
        chosen["compute"] = names
    if isinstance(source[0], Study) or (isinstance(source[0], Path) and _is_study(source)):
        for_files = {"--prompts": prompts, "--column": column, "--output": output}
        if refused := [name for name, value in for_files.items() if value]:
            raise StudyError(f"{refused[0]} is for files; a study has its own: edit its study.toml")
        study = source[0] if isinstance(source[0], Study) else Study.open(source[0], overrides)
        return _measure_study(study, chosen, dry_run=dry_run)
    files = isinstance(source[0], str | Path)
    if not files:
        chosen.setdefault("compute", list(WITHOUT_MODELS))
    settings = _file_settings(overrides, chosen)
    known = {prompt.id: prompt for prompt in read_prompts(prompts)} if prompts else None
    generations: list[Generation] = []
    for each in source:
        if isinstance(each, str | Path):
            runs = settings.all_runs
            generations += read_generations(Path(each), prompts=known, columns=column, all_runs=runs)
        else:
            generations += _texts_of(each)
    models = ScoringModels(device=settings.model.device)
    job = _Job(generations, settings.metrics, settings.seed, models, output)
    measured = job.preview() if dry_run else job.run()
    if measured.failures and not files:
        raise StudyError("\n".join(measured.failures))
    return measured


def _is_study(source: Sequence[Any]) -> bool:
    """Return whether one folder is named, or nothing that could be a file; folders among files are wrong."""
    folders = [path for path in source if Path(path).is_dir()]
    if folders and len(source) > 1:
        raise StudyError(f"{folders[0]} is a folder; name one study, or files alone")
    missing = len(source) == 1 and not (Path(source[0]).suffix or Path(source[0]).exists())
    return bool(folders) or missing


def _file_settings(overrides: Sequence[str], chosen: Mapping[str, Any]) -> FileSettings:
    """Return the settings of a measurement of files; there a baseline may have any name."""
    tables = with_overrides({"metrics": {}}, overrides)
    if isinstance(tables["metrics"], dict):
        tables["metrics"] |= {name: value for name, value in chosen.items() if name != "baseline"}
    try:
        settings = FileSettings.model_validate(tables)
    except ValidationError as error:
        raise StudyError(explain(Path("the command line"), problems_of(error, FileSettings))) from error
    baseline = chosen.get("baseline", settings.metrics.baseline)
    return settings.model_copy(update={"metrics": settings.metrics.model_copy(update={"baseline": baseline})})


def _texts_of(texts: Any) -> Iterator[Generation]:  # noqa: ANN401 (what a notebook passes)
    if not hasattr(texts, "with_prompts"):
        raise StudyError(f"measure got a {type(texts).__name__}; give it what generate returned")
    for prompt, continuation in texts.with_prompts():
        yield generation_of(continuation, prompt)


def _measure_study(study: Study, chosen: Mapping[str, Any], *, dry_run: bool) -> Measured:
    """Measure the continuations of a study that exist, and write every table and figure."""
    settings = study.settings
    prompts = {prompt.id: prompt for prompt in read_prompts(study.prompts_path, limit=settings.prompts.limit)}
    runs = find_current(study, settings.generation.strategies, [*prompts.values()])
    generations = [
        generation_of(text, prompts[text.prompt_id]) for run in runs.values() for text in run.texts.values()
    ]
    if not generations:
        raise StudyError(f"{study.folder} has no continuations yet; run: {study.command('generate')}")
    try:
        wanted = MetricSettings.model_validate({**settings.metrics.model_dump(), **chosen})
    except ValidationError as error:
        problems = problems_of(error, MetricSettings)
        raise StudyError(explain(Path("the command line"), problems)) from error
    job = _Job(
        generations,
        wanted,
        settings.seed,
        ScoringModels.of_study(study),
        study.metrics,
        traces=[path for name, run in runs.items() if run.folder for path in trace_files(run.folder, name)],
        warnings=_own_scorer(study, wanted),
    )
    steps = (study.command("pair"), study.command("report"))
    return job.preview() if dry_run else job.run(next_commands=steps)


def _own_scorer(study: Study, settings: MetricSettings) -> list[str]:
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

    def _lines(self) -> list[str]:
        strategies = len({text.strategy for text in self.generations})
        datasets = len({text.dataset for text in self.generations})
        counted = f"{plural(len(self.generations), 'text')}: {strategies} strateg"
        counted += f"{'y' if strategies == 1 else 'ies'}, {plural(datasets, 'dataset')}"
        lines = [counted.replace("\u00a0", " "), f"metrics: {', '.join(self.settings.compute)}"]
        named = (getattr(self.settings, SCORING_MODELS.get(name, ""), None) for name in self.settings.compute)
        names = [name for name in dict.fromkeys(named) if name]
        return [*lines, f"scoring models: {', '.join(names)}"] if names else lines

    def _find_models(self, *, missing_folders: bool) -> HubModels:
        """Look for the models that are needed; without `missing_folders` only for those that may be there."""
        references = any(text.reference for text in self.generations)
        models = {}
        for metric in self.settings.compute:
            if metric in SCORING_MODELS and (references or metric not in AGAINST_REFERENCES):
                name = getattr(self.settings, SCORING_MODELS[metric])
                location = self.models.locate(name)
                if missing_folders or Path(location).is_dir() or not Path(location).is_absolute():
                    models[name] = (location, self.models.revisions.get(name, "main"))
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

    def run(self, *, next_commands: tuple[str, ...] = ()) -> Measured:
        """Measure, and write the results."""
        # Models that cannot be loaded are named at once; what needs none of them is measured.
        hub = self._find_models(missing_folders=False)
        if problem := hub.problem():
            progress.warn(problem)
        path = self.folder / "scores.sqlite" if self.folder else None
        with hub.offline(), closing(ScoreCache(path)) as cache:
            results = measure_generations(
                self.generations,
                self.settings,
                seed=self.seed,
                models=self.models,
                cache=cache,
                warnings=self.warnings,
            )
        undefined = [score for score in results.scores if score.value is None or score.counts]
        lines = [*self._lines(), *score_notes(undefined)]
        lines += dict.fromkeys(difference.note for difference in results.differences if difference.note)
        if self.folder:
            write_results(results, self.folder, traces=self.traces)
            lines.append(f"definitions, intervals and figures: {self.folder / 'metrics.html'}")
        else:
            lines += dict.fromkeys(score.signature for score in results.scores if score.strategy != HUMAN)
        differences = (difference_table(results.differences),) if results.differences else ()
        return Measured(
            scores=results.scores,
            differences=results.differences,
            settings=results.settings,
            failures=results.failures,
            lines=tuple(lines),
            tables=(score_table(results.scores), *differences),
            warnings=(*results.warnings, *results.failures),
            next=next_commands,
            exit_code=2 if results.failures else 0,
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
    models = ScoringModels.of_study(study)
    ranked: dict[str, list[tuple[float, str, int]]] = {}
    with closing(ScoreCache(study.metrics / "scores.sqlite")) as cache:
        for run, texts in runs.items():
            groups = group_texts(generation_of(text, prompts[name]) for name, text in texts.items())
            humans = groups if any(prompt.reference is not None for prompt in prompts.values()) else []
            outcomes, failures = measure_groups(groups, humans, settings, models=models, cache=cache)
            if failures:
                raise StudyError(f"pairs.best_of_runs: {'; '.join(failures)}")
            for group in groups:
                outcome = outcomes[metric, group.dataset, group.strategy]
                values = [math.nan] * len(group.prompts)
                if outcome.parts is not None:
                    values = outcome.function(outcome.parts).tolist()
                for name, value in zip(group.prompts, values, strict=True):
                    defined = -math.inf if math.isnan(value) else value
                    ranked.setdefault(name, []).append((defined, content_id(seed, "run", name, run), run))
    best = {name: max(ranking) for name, ranking in ranked.items()}
    if undefined := sum(value == -math.inf for value, _, _ in best.values()):
        without = f"{plural(undefined, 'prompt')} without a text that has a {metric}"
        progress.notice(f"{without}: the seed chose there")
    return {name: runs[run][name] for name, (_, _, run) in best.items()}
