"""Texts grouped by dataset and strategy, and the outcome of a metric for such a group.

A group's prompts stand in an order that no file decides. An outcome has the metric's value and each prompt's
part of the sums that it is a function of.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval.errors import StudyError
from guard_eval.estimate import Floats, Statistic, join_notes
from guard_eval.metrics.cache import ScoreCache, ScoringInput, compute_once
from guard_eval.metrics.models import ScoringModel, ScoringModels
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.generations import HUMAN, Generation


@dataclass(frozen=True)
class Group:
    """One strategy's texts on one dataset.

    Attributes:
        dataset: The dataset.
        strategy: The strategy, or `HUMAN`.
        texts: Its generations, sorted by prompt id and run.
        prompts: The sorted ids of all prompts of the dataset, whichever strategy continued them.
    """

    dataset: str
    strategy: str
    texts: tuple[Generation, ...]
    prompts: tuple[str, ...]

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Return the place of each text's prompt among `prompts`, `[texts]`."""
        position = {prompt: index for index, prompt in enumerate(self.prompts)}
        return np.array([position[text.prompt_id] for text in self.texts], dtype=np.int64)

    @cached_property
    def runs(self) -> list[list[int]]:
        """Return the places of the texts of each run, in which a prompt has one text."""
        runs: dict[int, list[int]] = {}
        for index, text in enumerate(self.texts):
            runs.setdefault(text.run, []).append(index)
        return [runs[run] for run in sorted(runs)]

    @cached_property
    def counts(self) -> Counter[str]:
        """Return how many texts have which flaw."""
        flaws = Counter(sorted(flaw for text in self.texts for flaw in text.flaws))
        flaws["empty"] += sum(not text.text.strip() for text in self.texts)
        flaws["prompt not continued"] += len(self.prompts) - len(np.unique(self.places))
        return flaws

    def sum_by_prompt(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Return rows, one for each text, summed by prompt, of several runs their mean: `[prompts, m]`."""
        values = np.asarray(rows, dtype=np.float64)
        sums, runs = np.zeros((2, len(self.prompts), values.shape[1]))
        np.add.at(sums, self.places, values)
        for run in self.runs:
            runs[np.unique(self.places[run])] += 1
        return np.asarray(sums / np.maximum(runs, 1))


def group_texts(generations: Iterable[Generation]) -> list[Group]:
    """Return the groups of generations, datasets in alphabetical order, strategies as they come.

    Raises:
        StudyError: If there are no texts, or if a strategy has the name that stands for people.
    """
    texts: dict[tuple[str, str], list[Generation]] = {}
    prompts: dict[str, set[str]] = {}
    for generation in generations:
        texts.setdefault((generation.dataset, generation.strategy), []).append(generation)
        prompts.setdefault(generation.dataset, set()).add(generation.prompt_id)
    if not texts:
        raise StudyError("there are no texts to measure")
    strategies = list(dict.fromkeys(strategy for _, strategy in texts))
    if HUMAN in strategies:
        raise StudyError(f"a strategy is named {HUMAN!r}, which stands for the references; rename it")
    groups = []
    for dataset, strategy in sorted(texts, key=lambda key: (key[0], strategies.index(key[1]))):
        ordered = sorted(texts[dataset, strategy], key=lambda text: (text.prompt_id, text.run))
        groups.append(Group(dataset, strategy, tuple(ordered), tuple(sorted(prompts[dataset]))))
    return groups


def human_groups(groups: Sequence[Group]) -> list[Group]:
    """Return the references of each dataset as if people were one more strategy.

    Where strategies bring different references of a prompt, the first strategy's is taken, and it is flagged.
    """
    humans = []
    for dataset, prompts in {group.dataset: group.prompts for group in groups}.items():
        texts: dict[str, list[Generation]] = {}
        for group in groups:
            for text in group.texts:
                if group.dataset == dataset and text.reference is not None:
                    texts.setdefault(text.prompt_id, []).append(text)
        if texts:
            references = tuple(_reference_of(texts[prompt]) for prompt in sorted(texts))
            humans.append(Group(dataset, HUMAN, references, prompts))
    return humans


def _reference_of(texts: Sequence[Generation]) -> Generation:
    """Return the reference of the texts of a prompt as a text that people wrote."""
    first = texts[0].reference or ""
    differs = any(text.reference != first for text in texts)
    flaws = ("reference differs between strategies",) if differs else ()
    return replace(texts[0], strategy=HUMAN, text=first, run=1, flaws=flaws)


def ratio(sums: Floats) -> Floats:
    """Return the first sum divided by the second one, `[..., 2]` → `[...]`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], np.nan)


@dataclass(frozen=True, kw_only=True)
class MetricTools:
    """What metrics need beside the texts.

    Attributes:
        settings: How to measure.
        models: Where models come from; used only by metrics that need one.
        cache: What models computed before.
    """

    settings: MetricSettings
    models: ScoringModels
    cache: ScoreCache

    def read(
        self,
        definition: Sequence[object],
        model: ScoringModel,
        items: Iterable[ScoringInput],
        compute: Callable[[Any, Any, Sequence[ScoringInput]], Iterable[Any]],
    ) -> dict[ScoringInput, Any]:
        """Return what `compute` makes of the model, its tokenizer and each item; see `compute_once`."""
        name, *settings = definition
        return compute_once(
            (name, 2, model.identity, *settings),
            items,
            lambda batch: compute(model.loaded.model, model.loaded.tokenizer, batch),
            self.cache,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A metric of one group of texts.

    Attributes:
        metric: One of `scores.METRICS`.
        dataset: The group's dataset.
        strategy: Its strategy.
        places: Which of the dataset's prompts it continued.
        runs: How many texts a prompt has.
        value: The value; None where it is undefined, and `note` says why.
        n: How many texts have a value.
        counts: How many texts were left out, cut or repaired, by reason.
        note: What a reader must know.
        signature: The definition with its settings.
        parts: Each prompt's part of the sums, `[prompts, m]`, zeros where it has no text; None if there is no
            interval.
        function: The metric as a function of the sums, `[..., m]` → `[...]`, NaN where it is undefined.
        noise: The variance of the value from other sources than the prompts, such as the seed of k-means.
    """

    metric: str
    dataset: str
    strategy: str
    places: NDArray[np.int64]
    runs: int
    value: float | None
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""
    parts: Floats | None = None
    function: Statistic = ratio
    noise: float = 0.0


def outcome_of_runs(
    metric: str,
    group: Group,
    values: Sequence[float],
    *,
    counts: Mapping[str, int] = MappingProxyType({}),
    note: str = "",
    reason: str = "no text has what the metric needs",
    **facts: Any,  # noqa: ANN401
) -> Outcome:
    """Return the outcome of a metric that is the mean of its values for several runs.

    Args:
        metric: The metric's name.
        group: The texts.
        values: The value of each run, or of all; no finite number where it is undefined.
        counts: Texts left out or cut for this metric, by reason; those of the group are added.
        note: What a reader must know.
        reason: Why there is no value; the note where there is none.
        **facts: Other fields of the outcome.
    """
    defined = [value for value in values if math.isfinite(value)]
    if not defined:
        facts |= {"n": 0, "parts": None}
        note = reason
    elif len(values) > 1:
        note = join_notes(f"mean of {len(defined)} runs", note)
    return Outcome(
        metric=metric,
        dataset=group.dataset,
        strategy=group.strategy,
        places=np.unique(group.places),
        runs=len(group.runs),
        value=statistics.mean(defined) if defined else None,
        counts=dict(group.counts + Counter(counts)),
        note=note,
        **facts,
    )


def outcome_of_sums(
    metric: str,
    group: Group,
    rows: ArrayLike,
    function: Statistic = ratio,
    **facts: Any,  # noqa: ANN401
) -> Outcome:
    """Return the outcome of a function of sums over texts. A prompt of several runs has their mean.

    Args:
        metric: The metric's name.
        group: The texts.
        rows: Each text's part of the sums, `[texts, m]`.
        function: The metric as a function of the sums.
        **facts: See `outcome_of_runs`.
    """
    parts = group.sum_by_prompt(rows)
    values = [float(function(parts.sum(axis=0)))] * len(group.runs)
    return outcome_of_runs(metric, group, values, parts=parts, function=function, **facts)


def mean_outcome(metric: str, group: Group, values: ArrayLike, **facts: Any) -> Outcome:  # noqa: ANN401
    """Return the mean of the values of a group's texts, `[texts]`; what is no finite number is no value."""
    defined = np.isfinite(each := np.asarray(values, dtype=np.float64))
    rows = np.stack([np.where(defined, each, 0.0), defined], axis=1)
    return outcome_of_sums(metric, group, rows, n=int(defined.sum()), **facts)
