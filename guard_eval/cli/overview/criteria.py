"""Agreement and preference for a side, by comparison and criterion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.stats.agreement import fleiss, gwet
from analysis.stats.counts import from_counts
from analysis.stats.intervals import wilson
from guard_eval.cli.overview.ratings import PairRating
from guard_eval.cli.overview.values import CriterionLine
from guard_eval.records import TIE, Pair


def criterion_lines(
    counted: Sequence[PairRating], pairs: Sequence[Pair], *, level: float
) -> tuple[CriterionLine, ...]:
    """Return a line per comparison and criterion on which there are verdicts, sorted.

    The categories of agreement are the first method, a tie and the second method, so that two raters who saw
    the sides differently agree where they mean the same text.
    """
    of = {pair.id: pair for pair in pairs}
    cells: dict[tuple[str, str, str], list[PairRating]] = {}
    for rating in counted:
        pair = of[rating.pair_id]
        for criterion in rating.verdicts:
            cells.setdefault((pair.method_a, pair.method_b, criterion), []).append(rating)
    return tuple(_line(*key, found, level=level) for key, found in sorted(cells.items()))


def _line(
    method_a: str, method_b: str, criterion: str, found: Sequence[PairRating], *, level: float
) -> CriterionLine:
    items = {pair_id: place for place, pair_id in enumerate(dict.fromkeys(r.pair_id for r in found))}
    category = {method_a: 0, TIE: 1, method_b: 2}
    counts = np.zeros((len(items), 3), dtype=np.int64)
    for rating in found:
        counts[items[rating.pair_id], category[rating.verdicts[criterion]]] += 1
    patterns = from_counts(counts)
    ties = int(counts[:, 1].sum())
    for_a = sum(rating.positions[criterion] == "A" for rating in found)
    return CriterionLine(
        method_a=method_a,
        method_b=method_b,
        criterion=criterion,
        verdicts=len(found),
        ties=ties / len(found),
        agreement=fleiss(patterns, level=level),
        ac1=gwet(patterns, level=level),
        first=wilson(for_a, len(found) - ties, level=level),
    )
