"""Ranking of more than two methods by their comparisons: by people and by each judge, per criterion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.stats.ranks.bootstrap import RankingIntervals, bootstrap, tally
from analysis.stats.ranks.davidson import half_win, to_matrices
from analysis.verdicts.scores import ScoredVerdicts, Verdicts, units
from guard_eval.reporting.words import KIND_PLACE, and_list

REPLICATES = 1000
"""Draws of items for the intervals."""
MOST_CELLS = 20_000_000
"""Items × pairs of methods × 3 above which no items are drawn anew: it would take gigabytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingRow:
    """The ranking of methods on one criterion by people or by one judge, over all datasets.

    Attributes:
        rater_kind: Who judged.
        judge: Which judge; empty for people.
        criterion: The quality judged.
        ranking: The methods in alphabetical order with strengths, ranks and their intervals.
        half_wins: Strengths by Bradley–Terry with a tie as half a win, for comparison; None where undefined.
        unit: What was drawn anew for the intervals: pairs, or the prompts they share.
        warnings: What a reader must know before using it.
    """

    rater_kind: str
    judge: str
    criterion: str
    ranking: RankingIntervals
    half_wins: tuple[float, ...] | None
    unit: str
    warnings: tuple[str, ...] = ()

    @property
    def tied(self) -> float | None:
        """Return how often two methods of equal strength tie, ν / (2 + ν); None where the model has no ν."""
        log_nu = self.ranking.estimate.log_nu
        return None if log_nu is None else 1 / (1 + 2 * float(np.exp(-log_nu)))

    @property
    def order(self) -> tuple[int, ...]:
        """Return the methods' places, the strongest first; as they stand where there are no strengths."""
        strengths = self.ranking.estimate.strengths
        places = range(len(self.ranking.estimate.methods))
        return tuple(places if strengths is None else sorted(places, key=lambda one: (-strengths[one], one)))


def ranking_rows(
    verdicts: Verdicts,
    *,
    alpha: float = 0.05,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> tuple[RankingRow, ...]:
    """Return a ranking by people and by each judge for each criterion that compares more than two methods.

    Nothing is returned of two methods: their win share says it all. Where comparisons do not connect all
    methods, each group of three or more is ranked by itself. A rater has one score per pair; the intervals
    draw items anew within their dataset, so that ratings of an item may depend on each other in any way.

    Args:
        verdicts: A table of verdicts.
        alpha: One minus the level of the intervals.
        replicates: How many draws.
        seed: It alone decides the draws.
    """
    scores = ScoredVerdicts.of(verdicts).scores
    rows: list[RankingRow] = []
    for (kind, judge, criterion), cell in scores.groupby(["rater_kind", "judge", "criterion"], sort=True):
        for group, apart in _groups(cell):
            mine = cell[cell["method_a"].isin(group)]
            rows.append(
                _row(
                    mine,
                    group,
                    kind=str(kind),
                    judge=str(judge),
                    criterion=str(criterion),
                    apart=apart,
                    unit=f"{units(mine).name}s",
                    level=1 - alpha,
                    replicates=replicates,
                    seed=seed,
                )
            )
    return tuple(sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.judge, row.criterion)))


def _groups(cell: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return each group of three or more methods that comparisons connect, and the methods outside it."""
    compared = cell[["method_a", "method_b"]].drop_duplicates()
    group_of: dict[str, set[str]] = {}
    for a, b in compared.itertuples(index=False, name=None):
        joined = group_of.get(a, {a}) | group_of.get(b, {b})
        group_of |= dict.fromkeys(joined, joined)
    everyone = set(group_of)
    for group in sorted({tuple(sorted(group)) for group in group_of.values()}):
        if len(group) > 2:
            yield group, tuple(sorted(everyone - set(group)))


def _row(
    cell: pd.DataFrame,
    methods: tuple[str, ...],
    *,
    kind: str,
    judge: str,
    criterion: str,
    apart: tuple[str, ...],
    unit: str,
    level: float,
    replicates: int,
    seed: int,
) -> RankingRow:
    item, _ = pd.factorize(cell["unit"])
    place = {name: number for number, name in enumerate(methods)}
    items, pairs = int(item.max()) + 1, len(methods) * (len(methods) - 1) // 2
    too_many = items * pairs * 3 > MOST_CELLS
    counts = tally(
        np.zeros_like(item) if too_many else item,
        cell["method_a"].map(place).to_numpy(dtype=np.int64),
        cell["method_b"].map(place).to_numpy(dtype=np.int64),
        1 + np.sign(cell["net"].to_numpy()),
        items=1 if too_many else items,
        methods=len(methods),
    )
    strata = None if too_many else cell.groupby(item, sort=True)["dataset"].min().astype(str).tolist()
    ranking = bootstrap(counts, methods, strata=strata, replicates=replicates, level=level, seed=seed)
    if too_many:
        why = f"no intervals: {items} {unit} are too many to draw anew"
        ranking = replace(ranking, n=items, warnings=(*ranking.estimate.warnings, why))
    halves = half_win(*to_matrices(counts.sum(axis=0, dtype=float), len(methods)), methods)
    alone = (f"never compared with {and_list(apart)}, which stand apart",) if apart else ()
    return RankingRow(
        rater_kind=kind,
        judge=judge,
        criterion=criterion,
        ranking=ranking,
        half_wins=halves.strengths,
        unit=unit,
        warnings=(*alone, *ranking.warnings),
    )
