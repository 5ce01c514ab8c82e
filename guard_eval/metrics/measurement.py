"""Measure all metrics of a set of texts: values with intervals, differences, and the settings.

The module of a metric that uses a model is imported only for this metric, so other metrics do not need torch.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from types import MappingProxyType

from guard_eval.errors import StudyError
from guard_eval.metrics.inference import Outcomes, Searches, estimate_differences, estimate_scores
from guard_eval.metrics.outcomes import (
    Group,
    Outcome,
    group_texts,
    make_outcome_from_run_values,
    make_reference_groups,
)
from guard_eval.metrics.scores import METRICS, MeasurementResult
from guard_eval.metrics.scoring_models import MetricTools
from guard_eval.records import HUMAN, Generation

FEW_TEXTS_FOR_MAUVE = 1000
"""The smallest number of texts without a warning. MAUVE's authors advise a few thousand texts."""
MODULES = {
    "ngrams": ("diversity", "repetition", "distinct", "self_bleu"),
    "length": ("length", "speed"),
    "coherence": ("coherence", "perplexity"),
    "mauve": ("mauve",),
    "bertscore": ("bertscore",),
}
"""The metrics that each module's function `yield_outcomes` computes, by module."""
WITH_MODELS = ("coherence", "mauve", "bertscore")
"""Modules that use a model. A setting such as `coherence_model` names the model."""
AGAINST_REFERENCES = {"mauve", "bertscore"}
"""Modules that compare texts with references."""
_LIBRARIES = ("guard-eval", "torch", "transformers", "numpy", "scipy", "faiss-cpu", "scikit-learn")


def measure_generations(
    generations: Iterable[Generation],
    tools: MetricTools,
    *,
    warnings: Sequence[str] = (),
    searches: Searches = MappingProxyType({}),
) -> MeasurementResult:
    """Measure all metrics of the settings, with intervals and differences from the baseline.

    If a metric's model or package is not available, `failures` names the metric, and other metrics are still
    measured.

    Args:
        generations: The texts.
        tools: The settings, the models and their stored values.
        warnings: Sentences about the texts that the reader of the results must know.
        searches: For each setting that was chosen on these prompts, all settings that were tried. Only the
            chosen setting has scores.

    Raises:
        StudyError: There are no texts, or no texts of the baseline.
    """
    settings = tools.settings
    groups = group_texts(generations)
    strategies = dict.fromkeys(group.strategy for group in groups)
    if settings.baseline is not None and settings.baseline not in strategies:
        raise StudyError(
            f"the baseline {settings.baseline!r} has no texts; choose one of: {', '.join(strategies)}"
        )
    humans = make_reference_groups(groups)
    outcomes, failures = measure_groups(groups, humans, tools)
    unchosen = set(chain(*searches.values())) - searches.keys()
    chosen = {key: outcome for key, outcome in outcomes.items() if key[2] not in unchosen}
    measured = MeasurementResult(
        scores=estimate_scores(chosen, level=settings.level),
        outcomes=outcomes,
        settings=settings.model_dump(mode="json")
        | {"compute": ", ".join(settings.compute)}
        | _read_package_versions(),
        warnings=(
            *warnings,
            *_warn_about_unequal_texts(groups, humans, settings.compute),
            *_warn_about_unreliable_mauve(outcomes),
        ),
        failures=tuple(failures),
    )
    if settings.baseline is None:
        return measured
    differences = estimate_differences(outcomes, settings.baseline, level=settings.level, searches=searches)
    return replace(measured, differences=differences)


def measure_groups(
    groups: Sequence[Group], humans: Sequence[Group], tools: MetricTools
) -> tuple[Outcomes, list[str]]:
    """Return the outcomes by metric, dataset and strategy, in the order of the tables, and the failures."""
    outcomes: dict[tuple[str, str, str], Outcome] = {}
    failures = []
    for module, names in MODULES.items():
        metrics = [name for name in tools.settings.compute if name in names]
        against = module in AGAINST_REFERENCES
        if not metrics or (against and not humans):
            continue
        try:
            if module in WITH_MODELS:
                # If torch is missing, this import raises an error that names the extra.
                import_module("guard_eval.generation.engines")
            yield_outcomes = import_module(f"guard_eval.metrics.scorers.{module}").yield_outcomes
            results = list(yield_outcomes(groups if against else [*groups, *humans], metrics, tools))
        except StudyError as error:
            failures.append(f"{' and '.join(metrics)} could not be measured: {error}")
            continue
        results += [_score_references(group, module) for group in humans if against]
        outcomes |= {(outcome.metric, outcome.dataset, outcome.strategy): outcome for outcome in results}
    ordered = sorted([*groups, *humans], key=lambda group: group.dataset)
    keys = [(metric, group.dataset, group.strategy) for metric in METRICS for group in ordered]
    return {key: outcomes[key] for key in keys if key in outcomes}, failures


def _score_references(humans: Group, metric: str) -> Outcome:
    """Return 100 %, the references' own score for a metric that compares texts with references."""
    signature = f"{metric}|the references themselves"
    n = len(humans.texts)
    return make_outcome_from_run_values(
        metric, humans, [100.0], n=n, note="by definition", signature=signature
    )


def _read_package_versions() -> dict[str, str]:
    """Return the versions of installed packages that can change the scores."""
    versions = {}
    for package in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[f"version of {package}"] = version(package)
    return versions


def _warn_about_unequal_texts(
    groups: Sequence[Group], humans: Sequence[Group], metrics: Sequence[str]
) -> Iterator[str]:
    """Yield warnings of unequal numbers of texts, and of missing or different references."""
    for dataset in dict.fromkeys(group.dataset for group in groups):
        sizes = {len(run) for group in groups if group.dataset == dataset for run in group.run_indices}
        if len(sizes) > 1:
            yield (
                f"{dataset}: strategies have {min(sizes)} to {max(sizes)} texts. distinct-n, self-BLEU and "
                "MAUVE depend on this number, so compare equal numbers"
            )
    for human in humans:
        if differing := sum(bool(text.flaws) for text in human.texts):
            yield (
                f"{human.dataset}: strategies have different references for {differing} prompts. The row "
                f"{HUMAN} uses the first strategy's references"
            )
        if len(human.texts) < len(human.prompts):
            yield f"{human.dataset}: {len(human.texts)} of {len(human.prompts)} prompts have a reference"
    unmeasured = [name for name in metrics if name in AGAINST_REFERENCES]
    if unmeasured and not humans:
        names = " and ".join(unmeasured)
        yield f"{names}: not measured, because no text has a reference"


def _warn_about_unreliable_mauve(outcomes: Outcomes) -> Iterator[str]:
    """Yield warnings if MAUVE has few texts, or different numbers of buckets for different strategies."""
    by_dataset: dict[str, list[Outcome]] = {}
    for outcome in outcomes.values():
        if outcome.metric == "mauve" and outcome.parts is not None:
            by_dataset.setdefault(outcome.dataset, []).append(outcome)
    for dataset, mauves in by_dataset.items():
        sizes = sorted(outcome.n // outcome.runs for outcome in mauves)
        if sizes[0] < FEW_TEXTS_FOR_MAUVE:
            few = f"with fewer than {FEW_TEXTS_FOR_MAUVE} texts, MAUVE is unreliable"
            yield f"{dataset}: only {sizes[0]} texts have full length; {few}"
        if len({outcome.signature for outcome in mauves}) > 1:
            yield (
                f"{dataset}: MAUVE has different numbers of buckets, because strategies have different "
                "numbers of texts of full length; set mauve_buckets to a number"
            )
