"""Correction of a family's sign-flip tests by flips that all criteria of a unit share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.correction import Corrected
from analysis.stats.max_t import max_t
from analysis.verdicts.scores import unit_sums


def flip_correction(
    items: Sequence[pd.DataFrame],
    comparisons: Sequence[tuple[str, str]],
    *,
    alone: Sequence[float | None],
    seed: int = 0,
) -> Corrected:
    """Return the step-down max-T adjustment (`stats.max_t`) of the sign-flip tests of some results.

    Results of one comparison share their units' flips: a prompt's, or a pair's where prompts are not known.
    A unit that was not judged on a criterion says nothing of that criterion.

    Args:
        items: `item_scores` of each result.
        comparisons: The two methods of each result.
        alone: Each result's uncorrected p-value; `None` where there is no test.
        seed: Of the drawn sign patterns.
    """
    of: dict[tuple[str, str], list[int]] = {}
    for place, comparison in enumerate(comparisons):
        of.setdefault(comparison, []).append(place)
    order = [place for places in of.values() for place in places]
    found = max_t(
        [unit_scores([items[place] for place in places]) for places in of.values()],
        alone=[alone[place] for place in order],
        seed=seed,
    )
    at = dict(zip(order, found.p_values, strict=True))
    return replace(found, p_values=tuple(at[place] for place in range(len(items))))


def unit_scores(items: Sequence[pd.DataFrame]) -> NDArray[np.float64]:
    """Return the sums of item scores of one comparison, [units, criteria]; NaN where a unit has none.

    Args:
        items: `item_scores` of each criterion.
    """
    codes = [np.asarray(table["unit"].unique(), dtype=np.int64) for table in items]
    every = np.unique(np.concatenate(codes))
    scores = np.full((len(every), len(items)), np.nan)
    for place, (table, own) in enumerate(zip(items, codes, strict=True)):
        tops, bottoms, _ = unit_sums(table)
        scores[np.searchsorted(every, own), place] = tops / bottoms
    return scores
