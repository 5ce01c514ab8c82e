"""The outcome of a metric: its value for a strategy's texts, and what each prompt contributes to it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from guard_eval.estimate import Floats, Statistic, join_notes
from guard_eval.metrics.cache import ScoreCache, Texts, compute_once
from guard_eval.metrics.groups import Group, nonzero
from guard_eval.metrics.models import ScoringModel, ScoringModels
from guard_eval.study.settings import MetricSettings


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
        items: Iterable[Texts],
        compute: Callable[[Any, Any, Sequence[Texts]], Iterable[Any]],
    ) -> dict[Texts, Any]:
        """Return what `compute` makes of the model, its tokenizer and each item; see `compute_once`."""

        def compute_batch(batch: Sequence[Texts]) -> Iterable[Any]:
            return compute(model.loaded.model, model.loaded.tokenizer, batch)

        name, *settings = definition
        return compute_once((name, 2, model.identity, *settings), items, compute_batch, self.cache)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A metric of one group of texts.

    Attributes:
        metric: One of `scores.METRICS`.
        dataset: The group's dataset.
        strategy: Its strategy.
        places: Which of the dataset's prompts it continued.
        value: The value; None where it is undefined, and `note` says why.
        n: How many texts have a value.
        counts: How many texts were left out, cut or repaired, by reason.
        note: What a reader must know.
        signature: The definition with its settings.
        parts: Each prompt's part of the sums, `[prompts, m]`, zeros where it has no text; None if there is no
            interval.
        function: The metric as a function of the sums, `[..., m]` → `[...]`, NaN where it is undefined.
        noise: The variance of the value from other sources than the prompts, such as the seed of k-means.
        run_values: The values of single runs, NaN where undefined; empty unless a prompt has several texts.
    """

    metric: str
    dataset: str
    strategy: str
    places: NDArray[np.int64]
    value: float | None
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""
    parts: Floats | None = None
    function: Statistic = ratio
    noise: float = 0.0
    run_values: tuple[float, ...] = ()


def outcome_of_runs(
    metric: str,
    group: Group,
    values: Sequence[float],
    *,
    counts: Mapping[str, int] = MappingProxyType({}),
    **facts: Any,  # noqa: ANN401
) -> Outcome:
    """Return the outcome of a metric whose value for several runs is the mean of theirs.

    Args:
        metric: The metric's name.
        group: The texts.
        values: The value of each run; NaN where it is undefined.
        counts: Texts left out or cut for this metric, by reason; those of the group are added.
        **facts: Other fields of the outcome.
    """
    defined = [value for value in values if not math.isnan(value)]
    several = f"mean of {len(defined)} runs" if len(values) > 1 else ""
    facts = {"value": statistics.fmean(defined) if defined else None} | facts
    if facts["value"] is None:
        facts |= {"n": 0, "parts": None, "note": facts.get("note") or "no text has what the metric needs"}
    facts["note"] = join_notes(several, facts.get("note", ""))
    return Outcome(
        metric=metric,
        dataset=group.dataset,
        strategy=group.strategy,
        places=np.unique(group.places),
        counts=group.counts | nonzero(counts),
        run_values=tuple(values) if several else (),
        **facts,
    )


def outcome_of_sums(
    metric: str,
    group: Group,
    rows: ArrayLike,
    function: Statistic = ratio,
    *,
    published: Callable[[Floats], float | None] | None = None,
    **facts: Any,  # noqa: ANN401
) -> Outcome:
    """Return the outcome of a function of sums over texts. A prompt of several runs has their mean.

    Args:
        metric: The metric's name.
        group: The texts.
        rows: Each text's part of the sums, `[texts, m]`.
        function: The metric as a function of the sums.
        published: The same as it is published, where that is rounded; None where it is undefined.
        **facts: See `outcome_of_runs`.
    """
    each, parts = np.asarray(rows, dtype=np.float64), group.sum_by_prompt(rows)
    value = float(function(parts.sum(axis=0)))
    if published is not None:
        facts["value"] = published(parts.sum(axis=0))
    facts = {"value": None if math.isnan(value) else value, "parts": parts, "function": function} | facts
    values = [float(function(each[run].sum(axis=0))) for run in group.runs]
    return outcome_of_runs(metric, group, values, **facts)


def mean_outcome(metric: str, group: Group, values: ArrayLike, **facts: Any) -> Outcome:  # noqa: ANN401
    """Return the mean of the values of a group's texts, `[texts]`; what is no finite number is no value."""
    defined = np.isfinite(each := np.asarray(values, dtype=np.float64))
    rows = np.stack([np.where(defined, each, 0.0), defined], axis=1)
    return outcome_of_sums(metric, group, rows, n=int(defined.sum()), **facts)
