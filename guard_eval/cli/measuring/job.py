"""What `guard-eval measure` does: find the texts, measure them, show and write what was found."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from guard_eval.cli.console import progress, say
from guard_eval.cli.measuring.output import show, write
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study, locate_model
from guard_eval.study.settings import MetricSettings, explain
from guard_eval.texts.generations import Generation, generation_of

_NEEDS = {"coherence": "coherence_model", "perplexity": "coherence_model", "mauve": "mauve_model"}
_NEEDS |= {"bertscore": "bertscore_model"}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What the command line says over and above the settings.

    Attributes:
        settings: Of the table [metrics], by key.
        device: Where scoring models run.
        dtype: Their arithmetic.
        spread: Let workers of Ray read the texts.
        address: Of a Ray cluster that is running; one is started here if None.
        workers: How many of them; all there is room for if None.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    dtype: str | None = None
    spread: bool = False
    address: str | None = None
    workers: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Job:
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
    revisions: Mapping[str, str]
    lazy: Callable[..., Any] | None = None

    def causal(self, name: str) -> Any:  # noqa: ANN401 (LazyModel: torch is not imported to say so)
        """Return a language model."""
        from guard_eval.engines.loading import load

        return self._made(load, name)

    def encoder(self, name: str) -> Any:  # noqa: ANN401
        """Return an encoder."""
        from guard_eval.engines.loading import load_encoder

        return self._made(load_encoder, name)

    def _made(self, load: Callable[..., Any], name: str) -> Any:  # noqa: ANN401
        from guard_eval.engines.lazy import LazyModel

        return (self.lazy or LazyModel)(load=load, **self._options(name))

    def _options(self, name: str) -> dict[str, Any]:
        return {
            "location": self.locate(name),
            "name": name,
            "dtype": self._arithmetic(),
            "device": self.device,
            "wanted": self.revisions.get(name, "main"),
        }

    def _arithmetic(self) -> str:
        """Return float32 on a CPU and bfloat16 on a GPU, unless something else is asked for."""
        if self.dtype != "auto":
            return self.dtype
        import torch

        on_cpu = self.device == "cpu" or (self.device == "auto" and not torch.cuda.is_available())
        return "float32" if on_cpu else "bfloat16"


def refuse_options_of_files(options: Mapping[str, object]) -> None:
    """Refuse what study.toml says for a study."""
    for name, value in options.items():
        if value is not None:
            raise StudyError(f"--{name} is for files; a study has its own: edit its study.toml")


def measure_study(study: Study, chosen: Chosen, *, dry_run: bool = False) -> None:
    """Measure the continuations of a study as far as they are made.

    Raises:
        StudyError: There are none, or a metric could not be measured; the others are written all the same.
    """
    from guard_eval.texts.continuations import continuation_files, current_texts
    from guard_eval.texts.prompts import read_prompts

    settings = study.settings
    prompts = {one.id: one for one in read_prompts(study.prompts_path, limit=settings.prompts.limit)}
    found = [
        generation_of(continuation, prompts[continuation.prompt_id])
        for texts in current_texts(study, settings.generation.strategies, [*prompts.values()]).values()
        for continuation in texts.values()
    ]
    if not found:
        raise StudyError(f"{study.folder} has no continuations yet; run: guard-eval generate {study.folder}")
    wanted = _merged(settings.metrics, chosen.settings)
    models = ScoringModels(
        locate=study.locate_model,
        device=chosen.device or settings.model.device,
        dtype=chosen.dtype or "auto",
        revisions={settings.model.name: settings.model.revision},
    )
    traces = [
        path.with_suffix(".trace.jsonl")
        for strategy in settings.generation.strategies
        for path in continuation_files(study.continuations, strategy)
    ]
    _run(
        _Job(
            generations=found,
            settings=wanted,
            seed=settings.seed,
            baseline=wanted.baseline,
            models=models,
            output=study.metrics,
            traces=[path for path in traces if path.exists()],
            remarks=_own_scorer(study, wanted),
        ),
        chosen,
        dry_run=dry_run,
    )


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
    chosen: Chosen,
    *,
    settings_file: Path | None,
    prompts_file: Path | None,
    output: Path | None,
    seed: int,
    dry_run: bool = False,
) -> None:
    """Measure files of generations.

    Raises:
        StudyError: A file cannot be read, or a metric could not be measured; the others are written.
    """
    from guard_eval.texts.generation_files import read_generations
    from guard_eval.texts.prompts import read_prompts

    prompts = {one.id: one for one in read_prompts(prompts_file)} if prompts_file else None
    generations = [one for path in paths for one in read_generations(path, prompts=prompts)]
    asked = dict(chosen.settings)
    baseline = asked.pop("baseline", None)  # in a file a strategy may have any name
    wanted = _merged(_settings(settings_file), asked)
    _run(
        _Job(
            generations=generations,
            settings=wanted,
            seed=seed,
            baseline=baseline or wanted.baseline,
            models=ScoringModels(
                locate=lambda name: locate_model(name, Path()),
                device=chosen.device or "auto",
                dtype=chosen.dtype or "auto",
                revisions={},
            ),
            output=output,
        ),
        chosen,
        dry_run=dry_run,
    )


def _settings(path: Path | None) -> MetricSettings:
    if path is None:
        return MetricSettings()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("metrics", {})
        return MetricSettings.model_validate(table)
    except OSError as error:
        raise StudyError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StudyError(f"{path} is not valid TOML: {error}; mend that line") from error
    except ValidationError as error:
        raise StudyError(explain(path, error)) from error


def _merged(settings: MetricSettings, asked: Mapping[str, Any]) -> MetricSettings:
    try:
        return MetricSettings.model_validate({**settings.model_dump(), **asked})
    except ValidationError as error:
        raise StudyError(explain(Path("the command line"), error)) from error


def _run(job: _Job, chosen: Chosen, *, dry_run: bool) -> None:
    _announce(job)
    if dry_run:
        return
    from guard_eval.cli.measuring.results import measure
    from guard_eval.metrics.cache import ScoreCache

    with ExitStack() as stack:
        cache = stack.enter_context(closing(ScoreCache(job.output / "scores.sqlite" if job.output else None)))
        models = job.models
        if chosen.spread and any(name in _NEEDS for name in job.settings.compute):
            from guard_eval.cli.measuring.ray import spread

            models = stack.enter_context(spread(models, address=chosen.address, workers=chosen.workers))
        measured = measure(
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


def _announce(job: _Job) -> None:
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

        def told(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total, note="")
            bar.advance(tasks[stage], done)

        yield told
