"""All metrics of a set of texts: outcomes, intervals, differences, and the settings that made them.

What a model is needed for is imported when it is asked for: who measures texts alone needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from guard_eval.errors import StudyError
from guard_eval.generations import Generation
from guard_eval.metrics.cache import ScoreCache
from guard_eval.metrics.compared import differences
from guard_eval.metrics.groups import Group, group, human
from guard_eval.metrics.models import Found, Models, Progress
from guard_eval.metrics.outcomes import Bare, Outcome, Spread
from guard_eval.metrics.resampled import Resampling, scores
from guard_eval.metrics.scores import METRICS, Results
from guard_eval.metrics.text_outcomes import made_on, text_outcomes
from guard_eval.settings import Metrics

ENOUGH_FOR_MAUVE = 1000
"""Texts below which MAUVE is warned of: its authors advise a few thousand."""

_AGAINST_PEOPLE = {"mauve", "bertscore"}
_PACKAGES = (
    "guard-eval",
    "torch",
    "transformers",
    "numpy",
    "scipy",
    "faiss-cpu",
    "scikit-learn",
    "bert-score",
)


@dataclass(frozen=True)
class Measured:
    """What was found, and what could not be measured: messages that say why and what to do."""

    results: Results
    failures: tuple[str, ...]


def measure(
    generations: Iterable[Generation],
    settings: Metrics,
    *,
    seed: int,
    models: Models,
    cache: ScoreCache,
    baseline: str | None = None,
    remarks: Sequence[str] = (),
    progress: Progress = lambda _stage, _done, _total: None,
) -> Measured:
    """Return every metric that `settings` ask for, of each strategy on each dataset, and of the references.

    A metric whose model or package is not to be had is left out and named in `failures`; the others are
    measured all the same.

    Args:
        generations: The texts.
        settings: Which metrics, with what.
        seed: Of everything random.
        models: Where models come from; asked only for metrics that need one.
        cache: What models said before.
        baseline: The strategy that others are compared with.
        remarks: What the caller knows of the texts that a reader must know, in sentences.
        progress: Told how far it is.

    Raises:
        StudyError: There are no texts, or none by the baseline.
    """
    groups = group(generations)
    people = human(groups)
    if baseline is not None and all(one.strategy != baseline for one in groups):
        known = ", ".join(dict.fromkeys(one.strategy for one in groups))
        raise StudyError(f"the baseline {baseline!r} wrote none of the texts; choose from: {known}")
    resampling = Resampling.of(
        groups,
        seed=seed,
        replicates=settings.replicates,
        permutations=settings.permutations if baseline else 1,
        level=settings.level,
    )
    found: Found = {}
    for one in (*groups, *people):
        found[one.dataset, one.strategy] = text_outcomes(one, settings)
        progress("texts", 1, len(groups) + len(people))
    tools = (settings, models, cache, progress)

    def coherence() -> Found:
        from guard_eval.metrics.coherence_outcomes import coherence_outcomes  # noqa: PLC0415

        return coherence_outcomes([*groups, *people], *tools)

    def mauve() -> Found:
        from guard_eval.metrics.mauve_outcomes import mauve_outcomes  # noqa: PLC0415

        return mauve_outcomes(groups, *tools, weights=resampling.weights)

    def bertscore() -> Found:
        from guard_eval.metrics.bertscore_outcomes import bertscore_outcomes  # noqa: PLC0415

        return bertscore_outcomes(groups, *tools)

    jobs = (({"coherence", "perplexity"}, coherence), ({"mauve"}, mauve), ({"bertscore"}, bertscore))
    failures = [
        failure for names, job in jobs if (failure := _add(found, people, settings.compute, names, job))
    ]
    outcomes = _in_order(found, groups, people)
    warnings = [*remarks, *_warnings(groups, people), *_mauve_warnings(outcomes)]
    if not people and (blind := [name for name in settings.compute if name in _AGAINST_PEOPLE]):
        warnings.append(
            f"{' and '.join(blind)}: not measured, as no text has a reference to be compared with"
        )
    return Measured(
        results=Results(
            scores=tuple(scores(outcomes, resampling)),
            differences=tuple(differences(outcomes, groups, baseline, resampling)) if baseline else (),
            settings=_settings(settings, seed, baseline),
            speed={(one.dataset, one.strategy): where for one in groups if (where := made_on(one))},
            warnings=tuple(warnings),
        ),
        failures=tuple(failures),
    )


def _add(
    found: Found,
    people: Sequence[Group],
    compute: Sequence[str],
    names: set[str],
    job: Callable[[], Found],
) -> str:
    """Add the outcomes of metrics that a model takes to `found`; return what went wrong, or nothing."""
    wanted = [name for name in compute if name in names]
    against_people = names <= _AGAINST_PEOPLE
    if not wanted or (against_people and not people):
        return ""
    try:
        made = job()
    except StudyError as error:
        return f"{' and '.join(wanted)} could not be measured: {error}"
    for place, outcomes in made.items():
        found[place] = found[place] + outcomes
    if against_people:
        for one in people:
            found[one.dataset, one.strategy] = [*found[one.dataset, one.strategy], _own(one, wanted[0])]
    return ""


def _own(people: Group, metric: str) -> Outcome:
    """Return the references' score where they are what texts are compared with."""
    signature = f"{metric}|the references themselves"
    return Bare(metric=metric, value=100.0, n=len(people.texts), note="by definition", signature=signature)


def _in_order(
    found: Found, groups: Sequence[Group], people: Sequence[Group]
) -> dict[tuple[str, str, str], Outcome]:
    """Return outcomes by metric, dataset and strategy, in the order of tables."""
    by_metric = {
        (outcome.metric, *place): outcome for place, outcomes in found.items() for outcome in outcomes
    }
    places = [(one.dataset, one.strategy) for one in (*groups, *people)]
    places.sort(key=lambda place: place[0])
    keys = ((metric, *place) for metric in METRICS for place in places)
    return {key: by_metric[key] for key in keys if key in by_metric}


def _settings(settings: Metrics, seed: int, baseline: str | None) -> dict[str, str | int | float | None]:
    said = {key: value for key, value in settings.model_dump(mode="json").items() if key != "baseline"}
    said["compute"] = ", ".join(settings.compute)
    versions = {}
    for package in _PACKAGES:
        try:
            versions[f"version of {package}"] = version(package)
        except PackageNotFoundError:
            continue
    return {**said, "baseline": baseline, "seed": seed, **versions}


def _warnings(groups: Sequence[Group], people: Sequence[Group]) -> Iterable[str]:
    for dataset in dict.fromkeys(one.dataset for one in groups):
        mine = [one for one in groups if one.dataset == dataset]
        numbers = {len(one.texts) for one in mine}
        if len(numbers) > 1:
            yield (
                f"{dataset}: strategies have between {min(numbers)} and {max(numbers)} texts; distinct-n, "
                "self-BLEU and MAUVE depend on their number"
            )
        theirs = [text for one in people if one.dataset == dataset for text in one.texts]
        references, differing = len(theirs), sum(bool(text.flaws) for text in theirs)
        if differing:
            yield (
                f"{dataset}: strategies bring different references of {differing} prompts; the human row has "
                "the first strategy's, MAUVE and BERTScore compare each text with its own"
            )
        if 0 < references < len(mine[0].prompts):
            yield f"{dataset}: {references} of {len(mine[0].prompts)} prompts have a reference"


def _mauve_warnings(outcomes: Mapping[tuple[str, str, str], Outcome]) -> Iterable[str]:
    """Warn of few texts, and of strategies whose MAUVE was taken with more buckets than another's."""
    for dataset in dict.fromkeys(dataset for _, dataset, _ in outcomes):
        mine = [
            outcome
            for (metric, where, _), outcome in outcomes.items()
            if metric == "mauve" and where == dataset and isinstance(outcome, Spread)
        ]
        numbers = [outcome.n for outcome in mine]
        if mine and min(numbers) < ENOUGH_FOR_MAUVE:
            yield (
                f"{dataset}: MAUVE is of {min(numbers)} to {max(numbers)} texts of full length; below "
                f"{ENOUGH_FOR_MAUVE} it says little"
            )
        if len({outcome.signature for outcome in mine}) > 1:
            yield (
                f"{dataset}: MAUVE was taken with different numbers of buckets, as strategies have different "
                "numbers of texts of full length; to compare them set mauve_buckets to one number"
            )
