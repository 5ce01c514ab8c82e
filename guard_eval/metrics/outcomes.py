"""The outcome of a metric: its value for a strategy's texts, and what each prompt contributes to it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from guard_eval.estimate import Floats, Statistic, join_notes
from guard_eval.metrics.groups import Group


def ratio(sums: Floats) -> Floats:
    """Return the first sum divided by the second one, `[..., 2]` → `[...]`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], np.nan)


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A metric of one group of texts.

    Attributes:
        metric: One of `scores.METRICS`.
        value: The value; None where it is undefined, and `note` says why.
        n: How many texts have a value.
        counts: How many texts were left out, cut or repaired, by reason.
        note: What a reader must know.
        signature: The definition with its settings.
        parts: Each prompt's part of the sums, `[prompts, m]`, zeros where it has no text; None if there is no
            interval.
        function: The metric as a function of the sums, `[..., m]` → `[...]`, NaN where it is undefined.
        noise: The variance of the value from other sources than the prompts, such as the seed of k-means.
        run_values: The values of single runs, where a prompt has several texts.
    """

    metric: str
    value: float | None
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""
    parts: Floats | None = None
    function: Statistic = ratio
    noise: float = 0.0
    run_values: tuple[float | None, ...] = ()


def outcome_of_sums(
    metric: str,
    group: Group,
    rows: Sequence[Sequence[float]] | Floats,
    function: Statistic = ratio,
    *,
    n: int,
    signature: str,
    counts: Mapping[str, int] | None = None,
    note: str = "",
    value: float | None = None,
) -> Outcome:
    """Return the outcome of a function of sums over a group's texts.

    Args:
        metric: The metric's name.
        group: The texts.
        rows: Each text's part of the sums, `[texts, m]`.
        function: The metric as a function of the sums.
        n: How many texts have a value.
        signature: The definition with its settings.
        counts: Texts left out or cut for this metric, by reason; those of the group are added.
        note: What a reader must know.
        value: The value as it is published, where that is rounded.
    """
    parts = group.sum_by_prompt(rows)
    whole = float(function(parts.sum(axis=0)))
    undefined = np.isnan(whole)
    return Outcome(
        metric=metric,
        value=None if undefined else whole if value is None else value,
        n=0 if undefined else n,
        counts=group.counts | nonzero(counts or {}),
        note=note or ("no text has what the metric needs" if undefined else ""),
        signature=signature,
        parts=None if undefined else parts,
        function=function,
    )


def mean_outcome(
    metric: str,
    group: Group,
    values: Sequence[float | None],
    *,
    signature: str,
    counts: Mapping[str, int] | None = None,
    note: str = "",
) -> Outcome:
    """Return the mean of the values of a group's texts, `[texts]`; None is no value."""
    rows = [(0.0, 0.0) if value is None else (value, 1.0) for value in values]
    n = sum(value is not None for value in values)
    return outcome_of_sums(metric, group, rows, n=n, signature=signature, counts=counts, note=note)


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not 0."""
    return {name: count for name, count in counts.items() if count}


def join_runs(groups: Sequence[Group], outcomes: Sequence[Outcome]) -> Outcome:
    """Return one outcome for the runs of a strategy on a dataset, where a prompt has several texts.

    In sums a prompt has the mean of its texts. What depends on the number of texts (distinct-n, self-BLEU,
    MAUVE) is the mean over runs, so that it can be compared with a strategy of one text per prompt. Several
    texts of one prompt are one piece of evidence.
    """
    defined = [(group, run) for group, run in zip(groups, outcomes, strict=True) if run.value is not None]
    if len(outcomes) == 1 or not defined:
        return outcomes[0]
    runs = [run for _, run in defined]
    counts: Counter[str] = Counter()
    for run in outcomes:
        counts.update(run.counts)
    whole = replace(
        runs[0],
        value=statistics.fmean(run.value for run in runs if run.value is not None),
        n=sum(run.n for run in outcomes),
        counts=dict(counts),
        noise=statistics.fmean(run.noise for run in runs),
        run_values=tuple(run.value for run in outcomes),
        signature=" / ".join(dict.fromkeys(run.signature for run in runs)),
    )
    several = f"mean of {len(runs)} runs"
    known = [run.parts for run in runs if run.parts is not None]
    if len(known) < len(runs):
        return replace(whole, note=join_notes(several, whole.note), parts=None)
    texts = sum(np.bincount(group.places, minlength=len(group.prompts)) for group, _ in defined)
    parts = sum(known) / np.maximum(texts, 1)[:, None]
    if whole.noise:
        seeds = f"standard deviation over seeds of a run's k-means {whole.noise**0.5:.2f}"
        return replace(whole, note=join_notes(several, seeds), parts=parts)
    return replace(whole, value=float(whole.function(parts.sum(axis=0))), parts=parts)
