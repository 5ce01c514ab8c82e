"""What `guard-eval measure` does: find the texts, measure them, show and write what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from analysis.results.metrics import Resampling, scores_and_differences
from guard_eval.cli.console import count_of, say, say_warnings
from guard_eval.cli.console import progress as progress_bars
from guard_eval.cli.measuring.output import show, write
from guard_eval.errors import StudyError
from guard_eval.metrics import measure as metrics
from guard_eval.metrics.cache import Models, Progress, ScoreCache
from guard_eval.metrics.scores import Results
from guard_eval.study.folder import Study, locate_model
from guard_eval.study.problems import explain, problems_of, read_toml
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.continuations import trace_files
from guard_eval.texts.current import current_runs
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.generations import Generation, generation_of
from guard_eval.texts.model_hub import find_models
from guard_eval.texts.prompts import read_prompts

_NEEDS = {"coherence": "coherence_model", "perplexity": "coherence_model", "mauve": "mauve_model"}
_NEEDS |= {"bertscore": "bertscore_model"}
_WITH_REFERENCES = {"mauve", "bertscore"}
"""What compares texts with references, and reads none without."""


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """How to measure, over and above the settings.

    Attributes:
        settings: In place of those of the table [metrics], by key.
        device: Where scoring models run.
        dtype: Their arithmetic.
        engine: Where models read: this process, or workers of Ray.
        address: Of a Ray cluster that is running; one is started here if None.
        workers: How many of them; all there is room for if None.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    dtype: str | None = None
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = None


@dataclass(frozen=True)
class ScoringModels:
    """Scoring models as the user names them, loaded when needed.

    Attributes:
        locate: What to load for a name.
        device: Where they run.
        dtype: Their arithmetic, or `auto`.
        revisions: What is wanted of the Hub, by name; `main` of others.
        lazy: The class of what is returned, `LazyModel` if None.
    """

    locate: Callable[[str], str]
    device: str
    dtype: str
    revisions: Mapping[str, str] = field(default_factory=dict)
    lazy: Callable[..., Any] | None = None

    def causal(self, name: str) -> Any:  # noqa: ANN401 (LazyModel: torch is not imported to say so)
        """Return a language model."""
        return self._made("load", name)

    def encoder(self, name: str) -> Any:  # noqa: ANN401
        """Return an encoder."""
        return self._made("load_encoder", name)

    def _made(self, load: Literal["load", "load_encoder"], name: str) -> Any:  # noqa: ANN401
        # Metrics of texts alone need no model library.
        from guard_eval.engines import lazy, loading  # noqa: PLC0415

        dtype = self.dtype
        if dtype == "auto":
            import torch  # noqa: PLC0415

            on_cpu = self.device == "cpu" or (self.device == "auto" and not torch.cuda.is_available())
            dtype = "float32" if on_cpu else "bfloat16"
        return (self.lazy or lazy.LazyModel)(
            load=getattr(loading, load),
            location=self.locate(name),
            name=name,
            dtype=dtype,
            device=self.device,
            wanted=self.revisions.get(name, "main"),
        )


def measure(study: Study, options: MeasureOptions | None = None, *, dry_run: bool = False) -> Results | None:
    """Measure the continuations of a study as far as they are made, and write every table and figure.

    Args:
        study: The study.
        options: In place of the study's settings.
        dry_run: Only say what would be measured.

    Returns:
        The scores with their intervals, and differences from the baseline; None after a dry run.

    Raises:
        StudyError: There are none, or a metric could not be measured; the others are written all the same.
    """
    options, settings = options or MeasureOptions(), study.settings
    prompts = {one.id: one for one in read_prompts(study.prompts_path, limit=settings.prompts.limit)}
    found = [
        generation_of(continuation, prompts[continuation.prompt_id])
        for runs in current_runs(study, settings.generation.strategies, [*prompts.values()]).values()
        for texts in runs.values()
        for continuation in texts.values()
    ]
    if not found:
        raise StudyError(f"{study.folder} has no continuations yet; run: guard-eval generate {study.folder}")
    wanted = _merged(settings.metrics, options.settings)
    traces = (trace_files(study.continuations, strategy) for strategy in settings.generation.strategies)
    return _run(
        found,
        wanted,
        options,
        seed=settings.seed,
        models=study_models(study, options),
        output=study.metrics,
        traces=[path for files in traces for path in files],
        remarks=_own_scorer(study, wanted),
        dry_run=dry_run,
    )


def study_models(study: Study, options: MeasureOptions | None = None) -> ScoringModels:
    """Return where a study's scoring models come from."""
    options, model = options or MeasureOptions(), study.settings.model
    return ScoringModels(
        locate=study.locate_model,
        device=options.device or model.device,
        dtype=options.dtype or "auto",
        revisions={model.name: model.revision},
    )


def _own_scorer(study: Study, settings: MetricSettings) -> list[str]:
    """Say so where the model that wrote the texts is the one that scores them."""
    writer, scorer = study.settings.model.name, settings.coherence_model
    given = {"coherence", "perplexity"} & set(settings.compute)
    if not given or study.locate_model(writer) != study.locate_model(scorer):
        return []
    own = f"{' and '.join(sorted(given))}: {scorer} scores what it wrote itself"
    return [f"{own}, so greedy decoding and beam search lead by construction; name another coherence_model"]


def measure_files(
    paths: Sequence[Path],
    options: MeasureOptions | None = None,
    *,
    settings: Path | None = None,
    prompts: Path | None = None,
    output: Path | None = None,
    columns: Sequence[str] = (),
    run: int | None = None,
    all_runs: bool = False,
    seed: int = 1,
    dry_run: bool = False,
) -> Results | None:
    """Measure files of generations.

    Args:
        paths: The files.
        options: In place of the settings.
        settings: A TOML file with a table [metrics].
        prompts: For texts without prompts: where they are, by id.
        output: Folder for tables and figures; None to write nothing.
        columns: Keys or columns that hold the texts; of several each is a strategy of its name.
        run: Of several texts of a prompt only this one: 1, 2, …; the first if None.
        all_runs: All texts of a prompt.
        seed: Of everything random.
        dry_run: Only say what would be measured.

    Returns:
        The scores; None after a dry run.

    Raises:
        StudyError: A file cannot be read, or a metric could not be measured; the others are written.
    """
    options = options or MeasureOptions()
    known = {one.id: one for one in read_prompts(prompts)} if prompts else None
    generations, remarks = [], []
    for path in paths:
        texts = read_generations(path, prompts=known, columns=columns, all_runs=all_runs or run is not None)
        if run is not None:
            texts, lacking = _of_run(texts, run, path)
            remarks += lacking
        generations += texts
    given = dict(options.settings)
    baseline = given.pop("baseline", None)  # in a file a strategy may have any name
    wanted = _merged(_settings(settings), given)
    if baseline is not None:
        wanted = wanted.model_copy(update={"baseline": baseline})
    return _run(
        generations,
        wanted,
        options,
        seed=seed,
        models=ScoringModels(
            locate=partial(locate_model, folder=Path()),
            device=options.device or "auto",
            dtype=options.dtype or "auto",
        ),
        output=output,
        remarks=remarks,
        dry_run=dry_run,
    )


def _of_run(texts: Sequence[Generation], run: int, path: Path) -> tuple[list[Generation], list[str]]:
    """Return the texts of one run, and a remark where prompts have none.

    Raises:
        StudyError: No prompt has one.
    """
    found = [one for one in texts if one.run == run]
    if not found:
        most = max(one.run for one in texts)
        raise StudyError(f"--run {run}: no prompt in {path} has so many texts; there are at most {most}")
    places = {(one.dataset, one.strategy, one.prompt_id) for one in texts}
    lacking = len(places) - len({(one.dataset, one.strategy, one.prompt_id) for one in found})
    remark = f"{path.name}: {lacking} of {len(places)} prompts have no text {run}, and are left out"
    return found, [remark] if lacking else []


def _settings(path: Path | None) -> MetricSettings:
    if path is None:
        return MetricSettings()
    try:
        return MetricSettings.model_validate(read_toml(path).get("metrics", {}))
    except ValidationError as error:
        raise StudyError(explain(path, problems_of(error, MetricSettings))) from error


def _merged(settings: MetricSettings, given: Mapping[str, Any]) -> MetricSettings:
    try:
        return MetricSettings.model_validate({**settings.model_dump(), **given})
    except ValidationError as error:
        raise StudyError(explain(Path("the command line"), problems_of(error, MetricSettings))) from error


def _run(
    generations: Sequence[Generation],
    settings: MetricSettings,
    options: MeasureOptions,
    *,
    seed: int,
    models: ScoringModels,
    output: Path | None,
    traces: Sequence[Path] = (),
    remarks: Sequence[str] = (),
    dry_run: bool,
) -> Results | None:
    _announce(generations, settings, output)
    needed = _models_read(generations, settings, models)
    if dry_run:
        found = find_models(needed)
        for line in found.lines():
            say(line)
        if problem := found.problem():
            raise StudyError(problem)
        return None
    with ExitStack() as stack:
        stack.enter_context(_hub_asked(needed))
        cache = stack.enter_context(closing(ScoreCache(output / "scores.sqlite" if output else None)))
        if options.engine == "ray" and any(name in _NEEDS for name in settings.compute):
            models = stack.enter_context(_spread(models, options))
        results = measure_generations(
            generations,
            settings,
            seed=seed,
            models=models,
            cache=cache,
            remarks=remarks,
            progress=stack.enter_context(_bars()),
        )
    show(results)
    if output:
        write(results, output, traces)
    if results.failures:
        raise StudyError("\n".join(results.failures))
    return results


def measure_generations(
    generations: Iterable[Generation],
    settings: MetricSettings,
    *,
    seed: int,
    models: Models,
    cache: ScoreCache,
    remarks: Sequence[str] = (),
    progress: Progress = lambda _stage, _done, _total: None,
) -> Results:
    """Return every metric of `settings` with its interval, and the differences from its baseline.

    Args:
        generations: The texts.
        settings: Which metrics, with what.
        seed: Of everything random.
        models: Where models come from; used only for metrics that need one.
        cache: What models computed before.
        remarks: What the caller knows of the texts that a reader must know, in sentences.
        progress: Called as texts are measured.

    Raises:
        StudyError: There are no texts, or none by the baseline.
    """
    generations, baseline = list(generations), settings.baseline
    known = dict.fromkeys(one.strategy for one in generations)
    if generations and baseline is not None and baseline not in known:
        raise StudyError(
            f"the baseline {baseline!r} wrote none of the texts; choose from: {', '.join(known)}"
        )
    found = metrics.measure(
        generations, settings, models=models, cache=cache, remarks=remarks, progress=progress
    )
    resampling = Resampling.of(
        found.prompts,
        seed=seed,
        replicates=settings.replicates,
        permutations=settings.permutations if baseline else 1,
        level=settings.level,
    )
    scores, differences = scores_and_differences(
        found.outcomes, resampling, places=found.places, baseline=baseline
    )
    made = {**found.about.settings, "baseline": baseline, "seed": seed, **metrics.versions()}
    return replace(found.about, scores=tuple(scores), differences=tuple(differences), settings=made)


@contextmanager
def _spread(models: ScoringModels, options: MeasureOptions) -> Iterator[ScoringModels]:
    """Give the same models as every worker of Ray has them, for as long as the cluster is connected.

    Raises:
        StudyError: Ray or the cluster is not there, or has no room.
    """
    from guard_eval.engines.ray.cluster import connected, library, pool_of  # noqa: PLC0415 (an extra)
    from guard_eval.engines.ray.readers import RemoteModel  # noqa: PLC0415

    library()
    address = options.address
    say("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    with connected(address) as ray:
        pool = pool_of(ray, device=models.device, workers=options.workers)
        say(f"read by {pool}; diversity, intervals, MAUVE's clusters and tests are computed here")
        dtype = models.dtype
        if dtype == "auto":  # what this machine has does not matter
            dtype = "bfloat16" if pool.gpu else "float32"
        lazy = partial(RemoteModel, ray=ray, pool=pool)
        yield replace(models, device="cuda" if pool.gpu else "cpu", dtype=dtype, lazy=lazy)


def _announce(generations: Sequence[Generation], settings: MetricSettings, output: Path | None) -> None:
    strategies = dict.fromkeys(one.strategy for one in generations)
    datasets = dict.fromkeys(one.dataset for one in generations)
    count = count_of(len(strategies), "strategy", "strategies")
    say(f"{count_of(len(generations), 'text')}: {count}, {count_of(len(datasets), 'dataset')}")
    say(f"metrics: {', '.join(settings.compute)}")
    models = dict.fromkeys(getattr(settings, _NEEDS[name]) for name in settings.compute if name in _NEEDS)
    if models:
        say(f"models that read them: {', '.join(models)}")
    if output:
        say(f"results go to {output}/; scores already taken are stored in scores.sqlite there")


def _models_read(
    generations: Sequence[Generation], settings: MetricSettings, models: ScoringModels
) -> dict[str, tuple[str, str]]:
    """Return where the models lie that read the texts, and which revision is wanted, by name."""
    references = any(one.reference for one in generations)
    names = (
        getattr(settings, _NEEDS[metric])
        for metric in settings.compute
        if metric in _NEEDS and (references or metric not in _WITH_REFERENCES)
    )
    return {name: (models.locate(name), models.revisions.get(name, "main")) for name in names}


@contextmanager
def _hub_asked(models: Mapping[str, tuple[str, str]]) -> Iterator[None]:
    """Say at once which models cannot be loaded; all that needs none of them is measured."""
    known = {
        name: model
        for name, model in models.items()
        if Path(model[0]).is_dir() or not Path(model[0]).is_absolute()
    }
    found = find_models(known)
    if problem := found.problem():
        say_warnings([problem])
    with found.offline():
        yield


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each stage, from its first step on."""
    with progress_bars("steps") as bar:
        tasks: dict[str, Any] = {}

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, note="")
            bar.advance(tasks[stage], done)

        yield advance
