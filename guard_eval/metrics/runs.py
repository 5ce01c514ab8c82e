"""Several texts a prompt: a metric is taken of each run, and the runs' outcomes are joined to one.

What depends on the number of texts (distinct-n, self-BLEU, MAUVE) is the mean over runs, and so can be
compared with a strategy that has one text a prompt. In sums over prompts a prompt has the mean of its texts.
Prompts are resampled with all their runs: several texts of one prompt are one piece of evidence.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from guard_eval.metrics.distinct import jackknife
from guard_eval.metrics.groups import Group
from guard_eval.metrics.outcomes import Outcome, PointEstimate, Replicates, ResampledSum


def by_run(group: Group) -> list[Group]:
    """Return a group's runs as groups of the same prompts; the group itself if there is one run."""
    numbers = sorted({text.run for text in group.texts})
    if len(numbers) == 1:
        return [group]
    return [
        replace(group, run=number, texts=tuple(text for text in group.texts if text.run == number))
        for number in numbers
    ]


def joined(groups: Sequence[Group], outcomes: Sequence[Outcome], *, level: float) -> Outcome:
    """Return what the runs of one strategy on one dataset come to.

    Args:
        groups: The runs, of the same prompts.
        outcomes: One metric of each.
        level: Of intervals that the metric makes itself.
    """
    defined = [(group, one) for group, one in zip(groups, outcomes, strict=True) if one.value is not None]
    if len(outcomes) == 1 or not defined:
        return outcomes[0]
    found = [one for _, one in defined]
    counts: dict[str, int] = {}
    for name, number in (pair for one in outcomes for pair in one.counts.items()):
        counts[name] = counts.get(name, 0) + number
    values = tuple(one.value for one in outcomes)
    whole = replace(
        found[0],
        value=statistics.fmean(value for value in values if value is not None),
        n=sum(one.n for one in outcomes),
        counts=counts,
        run_values=values,
        signature=joined_signature([one.signature for one in found]),
    )
    if isinstance(whole, ResampledSum):
        parts = [one.parts for one in found if isinstance(one, ResampledSum)]
        texts = sum(np.bincount(group.places, minlength=len(group.prompts)) for group, _ in defined)
        mean = np.sum(parts, axis=0) / np.maximum(texts, 1)[:, None]
        return replace(whole, parts=mean, value=float(whole.function(mean.sum(axis=0))))
    several = f"mean of {len(found)} runs"
    if isinstance(whole, Replicates):
        runs = [one for one in found if isinstance(one, Replicates)]
        noise = statistics.fmean(one.noise for one in runs)
        return replace(
            whole,
            resample=lambda weights: np.mean([one.resample(weights) for one in runs], axis=0),
            noise=noise,
            note=f"{several}; standard deviation over seeds of a run's k-means {noise**0.5:.2f}",
        )
    whole = replace(whole, note=f"{several}; {whole.note}" if whole.note else several)
    without = [one.without for one in found if isinstance(one, PointEstimate) and one.without is not None]
    if not isinstance(whole, PointEstimate) or len(without) < len(found):
        return whole
    return jackknife(whole, np.mean(without, axis=0), level)


def joined_signature(signatures: Sequence[str]) -> str:
    """Return one signature for several: where they differ, every value.

    >>> joined_signature(["mauve|buckets:15|c:5", "mauve|buckets:16|c:5"])
    'mauve|buckets:15, buckets:16|c:5'
    """
    fields = zip_longest(*(signature.split("|") for signature in dict.fromkeys(signatures)), fillvalue="")
    return "|".join(", ".join(dict.fromkeys(values)) for values in fields)
