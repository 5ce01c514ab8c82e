"""Ranking of more than two methods by their comparisons: by people and by each judge, per criterion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.results.cells import first_composite
from analysis.stats.correction import holm
from analysis.stats.ranks.any_difference import any_difference
from analysis.stats.ranks.bootstrap import RankingIntervals, bootstrap, tally
from analysis.stats.ranks.davidson import fit, half_win, shares, to_matrices
from analysis.stats.ranks.rank_sets import rank_sets, share_errors, simultaneous_line
from analysis.stats.significance import TestResult
from analysis.verdicts.scores import ScoredVerdicts, Verdicts, units
from guard_eval.reporting.words import KIND_PLACE, and_list

REPLICATES = 1000
"""Draws of items for the intervals."""
MOST_CELLS = 20_000_000
"""Items × pairs of methods × 3 above which no items are resampled: it would take gigabytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingRow:
    """The ranking of methods on one criterion by people or by one judge, over all datasets.

    Attributes:
        rater_kind: Who judged.
        judge: Which judge; empty for people.
        criterion: The quality judged.
        ranking: The methods in alphabetical order with strengths, ranks and their intervals.
        scores: What ranks the methods, in alphabetical order: their strengths, or, where some would be
            infinite, strengths after half a win to either side of every comparison made.
        sets: The least and the greatest rank of each, all true ones at once at the level of `ranking`; empty
            where nothing can be concluded.
        difference: The test that no method is better than another.
        adjusted: Its p after Holm's correction over the criteria.
        half_wins: Strengths by Bradley–Terry with a tie as half a win, for comparison; None where undefined.
        unit: What was resampled for the intervals: pairs, or the prompts they share.
        warnings: What a reader must know before using it.
    """

    rater_kind: str
    judge: str
    criterion: str
    ranking: RankingIntervals
    scores: tuple[float, ...]
    sets: tuple[tuple[int, int], ...]
    difference: TestResult
    adjusted: float | None = None
    half_wins: tuple[float, ...] | None
    unit: str
    warnings: tuple[str, ...] = ()

    @property
    def who(self) -> tuple[str, str]:
        """Return whose verdicts these are: the kind, and the judge's name."""
        return (self.rater_kind, self.judge)

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods, in alphabetical order."""
        return self.ranking.estimate.methods

    @property
    def tied(self) -> float | None:
        """Return how often two methods of equal strength tie, ν / (2 + ν); None where the model has no ν."""
        log_nu = self.ranking.estimate.log_nu
        return None if log_nu is None else 1 / (1 + 2 * float(np.exp(-log_nu)))

    @property
    def order(self) -> tuple[int, ...]:
        """Return the methods' places, the strongest first."""
        return tuple(sorted(range(len(self.methods)), key=lambda one: (-self.scores[one], one)))


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
    resample items within their dataset, so that ratings of an item may depend on each other in any way.

    Args:
        verdicts: A table of verdicts.
        alpha: One minus the level of the intervals.
        replicates: How many draws.
        seed: It alone decides the draws.
    """
    scores = ScoredVerdicts.of(verdicts).scores
    rows: list[RankingRow] = []
    if len(set(scores["method_a"].unique()) | set(scores["method_b"].unique())) < 3:
        return ()
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
    for who in {row.who for row in rows}:
        places = [place for place, row in enumerate(rows) if row.who == who]
        corrected = holm([rows[place].difference.p_value for place in places]).p_values
        for place, value in zip(places, corrected, strict=True):
            rows[place] = replace(rows[place], adjusted=value)
    return tuple(
        sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.judge, first_composite(row.criterion)))
    )


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
    first, second = (cell[name].map(place).to_numpy(dtype=np.int64) for name in ("method_a", "method_b"))
    sides = np.sign(cell["net"].to_numpy(dtype=np.int64))
    counts = tally(
        np.zeros_like(item) if too_many else item,
        first,
        second,
        1 + sides,
        items=1 if too_many else items,
        methods=len(methods),
    )
    strata = None if too_many else cell.groupby(item, sort=True)["dataset"].min().astype(str).tolist()
    ranking = bootstrap(counts, methods, strata=strata, replicates=replicates, level=level, seed=seed)
    if too_many:
        why = f"no intervals: {items} {unit} are too many to resample"
        ranking = replace(ranking, n=items, warnings=(*ranking.estimate.warnings, why))
    total = counts.sum(axis=0, dtype=float)
    parameters, smoothed = _parameters(ranking, total)
    own = pd.factorize(cell["dataset"].groupby(item, sort=True).min())[0]
    influence = share_errors(parameters, item, first, second, 1 + sides, strata=own)
    line = simultaneous_line(influence, freedom=max(1, items - 1), level=level, seed=seed)
    known = np.array([len(np.unique(item[(first == one) | (second == one)])) for one in range(len(methods))])
    sets = rank_sets(
        shares(parameters), influence, freedom=max(1, items - 1), level=level, line=line, known=known
    )
    nets = np.zeros((items, len(methods)))
    np.add.at(nets, (item, first), sides)
    np.add.at(nets, (item, second), -sides)
    halves = half_win(*to_matrices(total, len(methods)), methods)
    alone = (f"never compared with {and_list(apart)}, which stand apart",) if apart else ()
    return RankingRow(
        rater_kind=kind,
        judge=judge,
        criterion=criterion,
        ranking=ranking,
        scores=tuple(parameters[:-1].tolist()),
        sets=sets if items > 1 else (),
        difference=any_difference(nets, seed=seed),
        half_wins=halves.strengths,
        unit=unit,
        warnings=(*alone, *ranking.warnings, *smoothed),
    )


def _parameters(
    ranking: RankingIntervals, total: NDArray[np.float64]
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Return finite log-strengths and log ν, and what to say where the data alone determine none."""
    found = ranking.estimate
    if found.strengths is not None:
        return np.array([*found.strengths, -np.inf if found.log_nu is None else found.log_nu]), ()
    compared = total.sum(axis=1, keepdims=True) > 0
    table = total + compared * np.array([0.5, 0.0, 0.5])
    ties = table[:, 1].sum()
    start = np.zeros(len(found.methods) + 1)
    start[-1] = np.log(2 * ties / (table.sum() - ties)) if ties else -np.inf
    why = "ranks are of strengths after half a win was given to either side of every comparison made"
    return fit(table[None], start).parameters[0], (why,)
