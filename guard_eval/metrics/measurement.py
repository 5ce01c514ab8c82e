"""All metrics of a set of texts: their values with intervals, differences, and the settings that made them.

What needs a model is imported when it is wanted: metrics of texts alone need no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.groups import Group, group_texts, human_groups
from guard_eval.metrics.inference import Outcomes, scores_and_differences
from guard_eval.metrics.length import generated_on, length_outcomes, speed_outcomes
from guard_eval.metrics.models import ScoringModels
from guard_eval.metrics.ngrams import (
    distinct_outcomes,
    diversity_outcomes,
    repetition_outcomes,
    self_bleu_outcomes,
)
from guard_eval.metrics.outcomes import Outcome, join_runs
from guard_eval.metrics.scores import METRICS, Results
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import Generation

FEW_TEXTS_FOR_MAUVE = 1000
"""With fewer texts there is a warning: MAUVE's authors advise a few thousand."""

AGAINST_REFERENCES = {"mauve", "bertscore"}
TEXT_METRICS = {
    "diversity": diversity_outcomes,
    "repetition": repetition_outcomes,
    "distinct": distinct_outcomes,
    "self_bleu": self_bleu_outcomes,
    "length": length_outcomes,
}
"""Metrics that need no model: functions of a group and the settings."""
MODEL_METRICS = {"coherence": ("coherence", "perplexity"), "mauve": ("mauve",), "bertscore": ("bertscore",)}
"""Metrics that need a model, by module; each has a function `NAME_outcomes`."""
_LIBRARIES = ("guard-eval", "torch", "transformers", "numpy", "scipy", "faiss-cpu", "scikit-learn")


def measure_generations(
    generations: Iterable[Generation],
    settings: MetricSettings,
    *,
    seed: int,
    models: ScoringModels,
    cache: ScoreCache,
    warnings: Sequence[str] = (),
) -> Results:
    """Return every metric of the settings with its interval, and the differences from the baseline.

    A metric whose model or package is not available is left out and named in `failures`; the others are
    measured all the same.

    Args:
        generations: The texts.
        settings: Which metrics, with what.
        seed: The seed of randomly drawn signs in tests of many prompts.
        models: Where models come from; used only for metrics that need one.
        cache: What models computed before.
        warnings: What the caller knows about the texts and a reader must know, in sentences.

    Raises:
        StudyError: If there are no texts, or none by the baseline.
    """
    groups = group_texts(generations)
    strategies = dict.fromkeys(group.strategy for group in groups)
    if settings.baseline is not None and settings.baseline not in strategies:
        raise StudyError(
            f"the baseline {settings.baseline!r} wrote none of the texts; "
            f"choose from: {', '.join(strategies)}"
        )
    humans = human_groups(groups)
    outcomes, failures = measure_groups(groups, humans, settings, models=models, cache=cache)
    scores, differences = scores_and_differences(
        outcomes,
        places={(group.dataset, group.strategy): group.places for group in groups},
        level=settings.level,
        seed=seed,
        baseline=settings.baseline,
    )
    chosen = {**settings.model_dump(mode="json"), "compute": ", ".join(settings.compute)}
    return Results(
        scores=tuple(scores),
        differences=tuple(differences),
        settings={**chosen, "seed": seed, **_versions()},
        speed={(group.dataset, group.strategy): where for group in groups if (where := generated_on(group))},
        warnings=(*warnings, *_warnings(groups, humans, settings), *_mauve_warnings(outcomes)),
        failures=tuple(failures),
    )


def measure_groups(
    groups: Sequence[Group],
    humans: Sequence[Group],
    settings: MetricSettings,
    *,
    models: ScoringModels,
    cache: ScoreCache,
) -> tuple[Outcomes, list[str]]:
    """Return the outcomes by metric, dataset and strategy, in the order of tables, and what failed."""
    runs = [run for group in groups for run in group.by_run()]
    outcomes: dict[tuple[str, str, int], list[Outcome]] = {}
    with progress.task("texts", total=len(runs) + len(humans), unit="groups") as advance:
        for group in (*runs, *humans):
            wanted = [TEXT_METRICS[name] for name in settings.compute if name in TEXT_METRICS]
            outcomes[group.key] = [outcome for of in wanted for outcome in of(group, settings)]
            advance(1)
    for group in groups if "speed" in settings.compute else ():  # runs share their batches
        outcomes[group.by_run()[0].key] += speed_outcomes(group)
    failures = []
    for module, names in MODEL_METRICS.items():
        metrics = [name for name in settings.compute if name in names]
        against = AGAINST_REFERENCES.issuperset(names)
        if not metrics or (against and not humans):
            continue
        try:
            import_module("guard_eval.engines")  # where torch is missing, its error names the extra
            outcomes_of = getattr(import_module(f"guard_eval.metrics.{module}"), f"{module}_outcomes")
            scored = runs if against else [*runs, *humans]
            for key, more in outcomes_of(scored, settings, models, cache).items():
                outcomes[key] += more
        except StudyError as error:
            failures.append(f"{' and '.join(metrics)} could not be measured: {error}")
            continue
        for group in humans if against else ():
            outcomes[group.key].append(_by_definition(group, metrics[0]))
    return _in_order(outcomes, [*runs, *humans]), failures


def _by_definition(humans: Group, metric: str) -> Outcome:
    """Return the references' score where they are what texts are compared with."""
    signature = f"{metric}|the references themselves"
    n = len(humans.texts)
    return Outcome(metric=metric, value=100.0, n=n, note="by definition", signature=signature)


def _in_order(outcomes: dict[tuple[str, str, int], list[Outcome]], runs: Sequence[Group]) -> Outcomes:
    """Return outcomes by metric, dataset and strategy, runs joined, in the order of tables."""
    ordered = sorted(runs, key=lambda group: group.dataset)
    by_metric: dict[tuple[str, str, str], list[tuple[Group, Outcome]]] = {}
    for group in ordered:
        for outcome in outcomes[group.key]:
            key = (outcome.metric, group.dataset, group.strategy)
            by_metric.setdefault(key, []).append((group, outcome))
    places = dict.fromkeys((group.dataset, group.strategy) for group in ordered)
    keys = ((metric, *index) for metric in METRICS for index in places)
    return {key: join_runs(*zip(*by_metric[key], strict=True)) for key in keys if key in by_metric}


def _versions() -> dict[str, str]:
    """Return the versions of the installed packages that decide the numbers."""
    versions = {}
    for package in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[f"version of {package}"] = version(package)
    return versions


def _warnings(groups: Sequence[Group], humans: Sequence[Group], settings: MetricSettings) -> Iterable[str]:
    people = {group.dataset: group.texts for group in humans}
    for dataset, prompts in {group.dataset: group.prompts for group in groups}.items():
        sizes = {len(run.texts) for group in groups if group.dataset == dataset for run in group.by_run()}
        if len(sizes) > 1:
            yield (
                f"{dataset}: strategies have between {min(sizes)} and {max(sizes)} texts; distinct-n, "
                "self-BLEU and MAUVE depend on their number"
            )
        references = people.get(dataset, ())
        if differing := sum(bool(text.flaws) for text in references):
            yield (
                f"{dataset}: strategies bring different references of {differing} prompts; the human row has "
                "the first strategy's, MAUVE and BERTScore compare each text with its own"
            )
        if 0 < len(references) < len(prompts):
            yield f"{dataset}: {len(references)} of {len(prompts)} prompts have a reference"
    unmeasured = [name for name in settings.compute if name in AGAINST_REFERENCES]
    if unmeasured and not humans:
        names = " and ".join(unmeasured)
        yield f"{names}: not measured, as no text has a reference to be compared with"


def _mauve_warnings(outcomes: Outcomes) -> Iterable[str]:
    """Warn of few texts, and of strategies whose MAUVE was taken with more buckets than another's."""
    for dataset in dict.fromkeys(dataset for _, dataset, _ in outcomes):
        mauves = [
            outcome
            for (metric, where, _), outcome in outcomes.items()
            if metric == "mauve" and where == dataset and outcome.parts is not None
        ]
        sizes = [outcome.n // max(1, len(outcome.run_values)) for outcome in mauves]
        if mauves and min(sizes) < FEW_TEXTS_FOR_MAUVE:
            yield (
                f"{dataset}: MAUVE is of {min(sizes)} to {max(sizes)} texts of full length; below "
                f"{FEW_TEXTS_FOR_MAUVE} it says little"
            )
        if len({outcome.signature for outcome in mauves}) > 1:
            yield (
                f"{dataset}: MAUVE was taken with different numbers of buckets, as strategies have different "
                "numbers of texts of full length; to compare them set mauve_buckets to one number"
            )
