"""The outcome of a metric: its value for a strategy's texts, and how it is resampled over prompts."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from guard_eval.estimate import Floats, Statistic
from guard_eval.metrics.groups import Group


@dataclass(frozen=True, eq=False)
class Sums:
    """A metric that is a function of sums over prompts, as most are. Calling it resamples the metric.

    Attributes:
        parts: Each prompt's part of the sums, `[prompts, m]`; zeros where it has no text.
        function: Sums `[..., m]` → metric `[...]`, NaN where it is undefined.
    """

    parts: Floats
    function: Statistic

    def __call__(self, weights: Floats) -> Floats:
        """Return the metric in each replicate, `[R]`, of the prompts' weights `[R, prompts]`."""
        return self.function(weights @ self.parts)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A metric of one group of texts.

    Attributes:
        metric: One of `scores.METRICS`.
        value: The value; None where it is undefined, and `note` says why.
        n: How many texts it was taken of.
        counts: How many texts were left out, cut or repaired, by reason.
        note: What a reader must know.
        signature: The definition with its settings.
        resample: Weights of the dataset's prompts `[R, prompts]` → the value in each replicate `[R]`; None if
            there is no interval.
        noise: The variance of the value from other sources than the prompts, such as the seed of k-means.
        run_values: The values of single runs, where a prompt has several texts.
    """

    metric: str
    value: float | None
    n: int
    counts: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    signature: str = ""
    resample: Callable[[Floats], Floats] | None = field(default=None, compare=False)
    noise: float = 0.0
    run_values: tuple[float | None, ...] = ()

    @property
    def sums(self) -> Sums | None:
        """The sums that the metric is a function of, if it is one."""
        return self.resample if isinstance(self.resample, Sums) else None


def outcome_of_sums(
    metric: str,
    parts: Floats,
    function: Statistic,
    *,
    n: int,
    counts: Mapping[str, int],
    signature: str,
    note: str = "",
    value: float | None = None,
) -> Outcome:
    """Return the outcome of a function of sums over prompts; `value` is its published rounding."""
    whole = float(function(parts.sum(axis=0)))
    undefined = np.isnan(whole)
    return Outcome(
        metric=metric,
        value=None if undefined else whole if value is None else value,
        n=0 if undefined else n,
        counts=counts,
        note=note or ("no text has what the metric needs" if undefined else ""),
        signature=signature,
        resample=None if undefined else Sums(parts, function),
    )


def ratio(sums: Floats) -> Floats:
    """Return the first sum divided by the second one, `[..., 2]` → `[...]`."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(sums[..., 1] > 0, sums[..., 0] / sums[..., 1], np.nan)


def mean_outcome(
    metric: str, group: Group, values: Sequence[float | None], *, signature: str, **other: object
) -> Outcome:
    """Return the mean of the values of a group's texts, `[texts]`; None has no value."""
    parts = group.sum_by_prompt([(0.0, 0.0) if value is None else (value, 1.0) for value in values])
    n = sum(value is not None for value in values)
    counts = {**group.counts, **other.pop("counts", {})}  # type: ignore[dict-item]
    note = str(other.pop("note", ""))
    return outcome_of_sums(metric, parts, ratio, n=n, counts=counts, signature=signature, note=note)


def join_runs(groups: Sequence[Group], outcomes: Sequence[Outcome]) -> Outcome:
    """Return one outcome for the runs of a strategy on a dataset, where a prompt has several texts.

    The value is the mean over runs, so that what depends on the number of texts (distinct-n, self-BLEU,
    MAUVE) can be compared with a strategy of one text a prompt. In sums a prompt has the mean of its texts.
    Prompts are resampled with all their runs: several texts of one prompt are one piece of evidence.
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
    sums = [run.sums for run in runs if run.sums is not None]
    if len(sums) == len(runs):
        texts = sum(np.bincount(group.places, minlength=len(group.prompts)) for group, _ in defined)
        parts = sum(run.parts for run in sums) / np.maximum(texts, 1)[:, None]
        joined = Sums(parts, sums[0].function)
        return replace(whole, resample=joined, value=float(joined.function(parts.sum(axis=0))))
    several = f"mean of {len(runs)} runs"
    note = f"{several}; {whole.note}" if whole.note and not whole.noise else several
    if whole.noise:
        note += f"; standard deviation over seeds of a run's k-means {whole.noise**0.5:.2f}"
    resamples = [run.resample for run in runs if run.resample is not None]
    if len(resamples) < len(runs):
        return replace(whole, note=note, resample=None)

    def resample(weights: Floats) -> Floats:
        return np.asarray(np.mean([one_run(weights) for one_run in resamples], axis=0))

    return replace(whole, note=note, resample=resample)
