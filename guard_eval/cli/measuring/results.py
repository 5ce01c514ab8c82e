"""Metrics with their intervals and tests: what `metrics` measures, and what `analysis` makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.results.metrics import Resampling, scores_and_differences
from guard_eval.errors import StudyError
from guard_eval.metrics import measure as metrics
from guard_eval.metrics.cache import Models, Progress, ScoreCache
from guard_eval.metrics.scores import Results
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import Generation


@dataclass(frozen=True)
class Measured:
    """What was found, and what could not be measured: messages that say why and what to do."""

    results: Results
    failures: tuple[str, ...]


def measure_generations(
    generations: Iterable[Generation],
    settings: MetricSettings,
    *,
    seed: int,
    models: Models,
    cache: ScoreCache,
    baseline: str | None = None,
    remarks: Sequence[str] = (),
    progress: Progress = lambda _stage, _done, _total: None,
) -> Measured:
    """Return every metric of `settings` with its interval, and the differences from a baseline.

    Args:
        generations: The texts.
        settings: Which metrics, with what.
        seed: Of everything random.
        models: Where models come from; used only for metrics that need one.
        cache: What models computed before.
        baseline: The strategy that others are compared with.
        remarks: What the caller knows of the texts that a reader must know, in sentences.
        progress: Called as texts are measured.

    Raises:
        StudyError: There are no texts, or none by the baseline.
    """
    generations = list(generations)
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
    results = Results(
        scores=tuple(scores),
        differences=tuple(differences),
        settings={**found.settings, "baseline": baseline, "seed": seed, **metrics.versions()},
        speed=found.speed,
        warnings=found.warnings,
    )
    return Measured(results=results, failures=found.failures)
