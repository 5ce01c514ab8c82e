"""What `guard-eval measure` does: find the texts, measure them, show and write what was found."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from guard_eval.cli.console import progress, say
from guard_eval.cli.measuring.output import show, write
from guard_eval.cli.measuring.results import measure_generations
from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.scores import Results
from guard_eval.study.folder import Study, locate_model
from guard_eval.study.problems import explain, problems_of
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.continuations import current_texts, trace_files
from guard_eval.texts.generation_files import read_generations
from guard_eval.texts.generations import Generation, generation_of
from guard_eval.texts.prompts import read_prompts

_NEEDS = {"coherence": "coherence_model", "perplexity": "coherence_model", "mauve": "mauve_model"}
_NEEDS |= {"bertscore": "bertscore_model"}


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
        import torch  # noqa: PLC0415

        from guard_eval.engines import lazy, loading  # noqa: PLC0415

        dtype = self.dtype
        if dtype == "auto":
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


@dataclass(frozen=True, kw_only=True)
class _Measurement:
    """Texts to measure, and with what.

    Attributes:
        generations: The texts.
        settings: Which metrics, with what.
        seed: Of everything random.
        baseline: What others are compared with.
        models: Where models come from.
        output: Folder of tables, figures and scores already taken; None to print only.
        traces: Files of traces to draw.
        remarks: What a reader must know of the texts.
    """

    generations: Sequence[Generation]
    settings: MetricSettings
    seed: int
    baseline: str | None
    models: ScoringModels
    output: Path | None
    traces: Sequence[Path] = ()
    remarks: Sequence[str] = ()


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
        for texts in current_texts(study, settings.generation.strategies, [*prompts.values()]).values()
        for continuation in texts.values()
    ]
    if not found:
        raise StudyError(f"{study.folder} has no continuations yet; run: guard-eval generate {study.folder}")
    wanted = _merged(settings.metrics, options.settings)
    job = _Measurement(
        generations=found,
        settings=wanted,
        seed=settings.seed,
        baseline=wanted.baseline,
        models=ScoringModels(
            locate=study.locate_model,
            device=options.device or settings.model.device,
            dtype=options.dtype or "auto",
            revisions={settings.model.name: settings.model.revision},
        ),
        output=study.metrics,
        traces=[
            path
            for strategy in settings.generation.strategies
            for path in trace_files(study.continuations, strategy)
        ],
        remarks=_own_scorer(study, wanted),
    )
    return _run(job, options, dry_run=dry_run)


def _own_scorer(study: Study, settings: MetricSettings) -> list[str]:
    """Say so where the model that wrote the texts is the one that scores them."""
    writer, scorer = study.settings.model.name, settings.coherence_model
    asked = {"coherence", "perplexity"} & set(settings.compute)
    if not asked or study.locate_model(writer) != study.locate_model(scorer):
        return []
    own = f"{' and '.join(sorted(asked))}: {scorer} scores what it wrote itself"
    return [f"{own}, so greedy decoding and beam search lead by construction; name another coherence_model"]


def measure_files(
    paths: Sequence[Path],
    options: MeasureOptions | None = None,
    *,
    settings: Path | None = None,
    prompts: Path | None = None,
    output: Path | None = None,
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
        seed: Of everything random.
        dry_run: Only say what would be measured.

    Returns:
        The scores; None after a dry run.

    Raises:
        StudyError: A file cannot be read, or a metric could not be measured; the others are written.
    """
    options = options or MeasureOptions()
    known = {one.id: one for one in read_prompts(prompts)} if prompts else None
    generations = [one for path in paths for one in read_generations(path, prompts=known)]
    asked = dict(options.settings)
    baseline = asked.pop("baseline", None)  # in a file a strategy may have any name
    wanted = _merged(_settings(settings), asked)
    job = _Measurement(
        generations=generations,
        settings=wanted,
        seed=seed,
        baseline=baseline or wanted.baseline,
        models=ScoringModels(
            locate=partial(locate_model, folder=Path()),
            device=options.device or "auto",
            dtype=options.dtype or "auto",
        ),
        output=output,
    )
    return _run(job, options, dry_run=dry_run)


def _settings(path: Path | None) -> MetricSettings:
    if path is None:
        return MetricSettings()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("metrics", {})
        return MetricSettings.model_validate(table)
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(f"{path} is not valid TOML: {error}; fix that line") from error
    except ValidationError as error:
        raise StudyError(explain(path, problems_of(error, MetricSettings))) from error


def _merged(settings: MetricSettings, asked: Mapping[str, Any]) -> MetricSettings:
    try:
        return MetricSettings.model_validate({**settings.model_dump(), **asked})
    except ValidationError as error:
        raise StudyError(explain(Path("the command line"), problems_of(error, MetricSettings))) from error


def _run(job: _Measurement, options: MeasureOptions, *, dry_run: bool) -> Results | None:
    _announce(job)
    if dry_run:
        return None
    with ExitStack() as stack:
        cache = stack.enter_context(closing(ScoreCache(job.output / "scores.sqlite" if job.output else None)))
        models = job.models
        if options.engine == "ray" and any(name in _NEEDS for name in job.settings.compute):
            models = stack.enter_context(_spread(models, options))
        measured = measure_generations(
            job.generations,
            job.settings,
            seed=job.seed,
            models=models,
            cache=cache,
            baseline=job.baseline,
            remarks=job.remarks,
            progress=stack.enter_context(_bars()),
        )
    show(measured.results)
    if job.output:
        write(measured.results, job.output, job.traces)
    if measured.failures:
        raise StudyError("\n".join(measured.failures))
    return measured.results


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


def _announce(job: _Measurement) -> None:
    strategies = dict.fromkeys(one.strategy for one in job.generations)
    datasets = dict.fromkeys(one.dataset for one in job.generations)
    say(f"{len(job.generations)} texts: {len(strategies)} strategies, {len(datasets)} datasets")
    say(f"metrics: {', '.join(job.settings.compute)}")
    models = dict.fromkeys(
        getattr(job.settings, _NEEDS[name]) for name in job.settings.compute if name in _NEEDS
    )
    if models:
        say(f"models that read them: {', '.join(models)}")
    if job.output:
        say(f"results go to {job.output}/; scores already taken are kept in scores.sqlite there")


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each stage, from its first step on."""
    with progress("steps") as bar:
        tasks: dict[str, Any] = {}

        def advance(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, note="")
            bar.advance(tasks[stage], done)

        yield advance
