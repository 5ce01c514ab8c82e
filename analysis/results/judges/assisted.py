"""People's win share, assisted by a judge who judged more pairs: prediction-powered inference.

People rate a random part of the pairs that a judge judges. The share is people's: the judge narrows its
interval as far as it agrees with them, and moves it nowhere if it does not (`analysis.stats.assisted`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from analysis.results.cells import CellRow
from analysis.results.population import share_interval
from analysis.results.shares import ShareRow
from analysis.stats.assisted import PPI_T, PPI_TEST, AssistedMean, assisted_mean
from analysis.stats.correction import holm
from analysis.stats.intervals import Interval
from analysis.stats.ranks.rank_sets import rank_sets
from analysis.stats.significance import TestResult
from analysis.verdicts.scores import ScoredVerdicts, Verdicts, units
from guard_eval.errors import StudyError
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import KIND_PLACE, and_list

FEWEST_RATED = 10
"""With fewer prompts that people rated nothing is estimated."""
CALIBRATED = 40
"""From so many on coverage was measured (docs/assisted.md)."""
_CHANCE = 0.001
"""A part of the pairs that chance gives more rarely than this is not taken for random."""
_COMPARED = ["method_a", "method_b", "criterion"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AssistedRow(CellRow):
    """One comparison on one criterion: people, a judge, and people assisted by the judge.

    `rater_kind` and `judge` are the judge's, or `mean of` several; the share is people's.

    Attributes:
        raters: How many people rated.
        ratings: Their ratings: rater × pair.
        alone: People's share, on the pairs that they rated.
        judged_alone: The judge's own share, on all its pairs.
        share: People's share, assisted; without limits where that cannot be had, and a warning says why.
        test: That the assisted share is one half.
        adjusted: Its p after Holm's correction over the criteria and comparisons of this judge.
        weight: λ, from 0 (the judge is ignored) to 1.
        correlation: r of people's mean share and the judge's score of a pair, within datasets.
        rated: Pairs that people rated.
        judged: Pairs that the judge judged.
        gained: How many more ratings by people would have narrowed their own interval as much.
    """

    raters: int
    ratings: int
    alone: Interval
    judged_alone: Interval
    share: Interval
    test: TestResult
    adjusted: float | None = None
    weight: float = 0.0
    correlation: float | None = None
    rated: int
    judged: int
    gained: float | None = None


def assisted_rows(
    verdicts: Verdicts,
    *,
    judges: Sequence[str] | None = None,
    together: bool = False,
    random: bool = False,
    alpha: float = 0.05,
) -> tuple[AssistedRow, ...]:
    """Return people's share assisted by each judge, for every comparison and criterion that both judged.

    Args:
        verdicts: A table of verdicts, of people and of one or more judges; or of both simulated.
        judges: The judges to take, by name; `None` for all.
        together: Take the mean of these judges as one judge, declared beforehand.
        random: The pairs that people rated are known to be a random part within each dataset; otherwise a
            part that looks as if it were not is refused.
        alpha: One minus the confidence level.

    Raises:
        StudyError: People or a judge are missing; people rated pairs that the judge did not judge, more than
            it did, or fewer than ten; or their part is not random as far as one can see.
    """
    rows = []
    for case in _cases(ScoredVerdicts.of(verdicts), judges, together=together):
        if why := _obstacle(case, random=random):
            raise StudyError(why)
        rows.append(_row(case, alpha=alpha))
    if not rows:
        raise StudyError(
            "no comparison has ratings by people and verdicts by a judge on the same criterion; give a table "
            "with both, their kinds in the column rater_kind"
        )
    return _adjusted(rows)


def assisted_lines(
    verdicts: Verdicts, *, random: bool = False, alpha: float = 0.05
) -> tuple[AssistedRow, ...]:
    """Return `assisted_rows` for a report: of judges with more pairs than people, and what was refused too.

    Where people have rated too few pairs so far there is no row. A row without an assisted share has the
    reason in the warnings of `share`.
    """
    cases = _cases(ScoredVerdicts.of(verdicts), None, together=False)
    rows = [
        _row(case, alpha=alpha, why=_obstacle(case, random=random))
        for case in cases
        if len(case.judged) > len(case.people) and units(case.people).n >= FEWEST_RATED
    ]
    return _adjusted(rows)


def with_assisted_shares(
    rows: Sequence[ShareRow], lines: Sequence[AssistedRow], judge: str
) -> tuple[ShareRow, ...]:
    """Return `rows` of all datasets with people's shares as one judge assists them, for the answer.

    Holm's correction runs over the same family as before. A result that has no assisted share stays people's.
    """
    mine = [line for line in lines if line.judge == judge]
    of = {(PEOPLE_OF[line.rater_kind], line.cell): line for line in mine if line.share.estimate is not None}
    people = {PEOPLE_OF[line.rater_kind] for line in mine}
    out = [row for row in rows if row.dataset is None]
    for place, row in enumerate(out):
        line = of.get((row.rater_kind, row.cell))
        if line is not None:
            out[place] = replace(row, share=line.share, test=line.test, out_of_reach="", assisted_by=judge)
    family = [place for place, row in enumerate(out) if row.rater_kind in people and row.family]
    corrected = holm([out[place].test.p_value for place in family]).p_values
    for place, value in zip(family, corrected, strict=True):
        out[place] = replace(out[place], adjusted=value)
    return tuple(out)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Case:
    """One comparison and criterion, and one judge.

    `people` has one row an item (`item_scores`), `judged` likewise with the judge's share of it.
    """

    key: tuple[str, str, str]
    judge: str
    kind: str
    people: pd.DataFrame
    judged: pd.DataFrame
    raters: int


def _cases(scored: ScoredVerdicts, names: Sequence[str] | None, *, together: bool) -> Iterator[_Case]:
    scores, items = scored.scores, scored.items
    machines = scores[scores["rater_kind"].isin(PEOPLE_OF)]
    machines = machines.assign(share=0.5 + machines["net"] / (2 * machines["showings"]))
    known = set(machines["rater"])
    if unknown := [name for name in names or () if name not in known]:
        raise StudyError(f"no judge is named {unknown[0]!r}; name one of: {', '.join(sorted(known))}")
    if names is not None:
        machines = machines[machines["rater"].isin(names)]
    by_kind = [*_COMPARED, "rater_kind"]
    people, raters = (dict(iter(table.groupby(by_kind))) for table in (items, scores))
    cells = {tuple(map(str, key)): own for key, own in machines.groupby(by_kind)}
    for a, b, criterion, kind in sorted(cells, key=lambda cell: (KIND_PLACE[cell[3]], cell)):
        theirs = (a, b, criterion, PEOPLE_OF[kind])
        if theirs not in people:
            continue
        own = cells[a, b, criterion, kind]
        judges = [(str(name), rows) for name, rows in own.groupby("rater", sort=True)]
        if together and len(judges) > 1:
            judges = [_mean_of(judges)]
        for name, rows in judges:
            yield _Case(
                key=(a, b, criterion),
                judge=name,
                kind=kind,
                people=people[theirs],
                judged=rows,
                raters=raters[theirs]["rater"].nunique(),
            )


def _mean_of(judges: Sequence[tuple[str, pd.DataFrame]]) -> tuple[str, pd.DataFrame]:
    """Return several judges as one, whose score of a pair is the mean of theirs."""
    names = and_list([name for name, _ in judges])
    pairs = [set(rows["pair_id"]) for _, rows in judges]
    if apart := set.union(*pairs) - set.intersection(*pairs):
        raise StudyError(
            f"{len(apart)} pairs were judged by some of {names} and not by all, so they have no mean; let "
            "all judge them, or take the judges one by one"
        )
    first = judges[0][1].set_index("pair_id")
    shares = [rows.set_index("pair_id")["share"] for _, rows in judges]
    return f"mean of {names}", first.assign(share=sum(shares) / len(shares)).reset_index()


def _obstacle(case: _Case, *, random: bool) -> str:
    """Return why people's share cannot be assisted by this judge, with the remedy; empty where it can."""
    who = f"{case.judge} on {case.key[2]}"
    rated, judged = set(case.people["pair_id"]), set(case.judged["pair_id"])
    if len(judged) < len(rated):
        return (
            f"{who}: the judge judged {len(judged)} pairs and people rated {len(rated)}; a judge helps where "
            "it has judged more, so let it judge all pairs"
        )
    if outside := sorted(rated - judged):
        return (
            f"{who}: {len(outside)} of the {len(rated)} pairs that people rated were not judged (the first "
            f"is {outside[0]!r}); let the judge judge them, or leave their ratings out: the "
            "share is then of pairs that the judge would judge"
        )
    found = units(case.people)
    if found.n < FEWEST_RATED:
        return (
            f"{who}: people rated {found.n} {found.name}s, which are too few to see how the judge relates to "
            f"them; have them rate at least {FEWEST_RATED}, better {CALIBRATED}"
        )
    return "" if random or len(judged) == len(rated) else _bias(case)


def _bias(case: _Case) -> str:
    """Return in what the rated pairs differ from the others more than chance lets them; empty if in nothing.

    Compared are the datasets (χ² test), and the judge's scores within them (Welch's t, over prompts).
    """
    judged = case.judged
    rated = judged["pair_id"].isin(case.people["pair_id"])
    remedy = "; if people's pairs are a random part within each dataset, say so (random=True, --random-part)"
    who = f"{case.judge} on {case.key[2]}: the pairs that people rated are no random part of those judged"
    counts = pd.crosstab(judged["dataset"], rated)
    if len(counts) > 1 and stats.chi2_contingency(counts).pvalue < _CHANCE:
        parts = [f"{row[True]} of {row.sum()} in {name}" for name, row in counts.iterrows()]
        return f"{who}: {and_list(parts)}{remedy}"
    apart = judged["share"] - judged.groupby("dataset")["share"].transform("mean")
    own, rest = (apart[side].groupby(judged.loc[side, "unit"]).mean() for side in (rated, ~rated))
    if np.ptp(apart) > 0 and len(rest) > 1 and stats.ttest_ind(own, rest, equal_var=False).pvalue < _CHANCE:
        shares = [f"{judged.loc[side, 'share'].mean():.0%}" for side in (rated, ~rated)]
        return f"{who}: the judge's win share is {shares[0]} on them and {shares[1]} on the others{remedy}"
    return ""


def _row(case: _Case, *, alpha: float, why: str = "") -> AssistedRow:
    method_a, method_b, criterion = case.key
    alone = share_interval(case.people, level=1 - alpha)
    row = AssistedRow(
        method_a=method_a,
        method_b=method_b,
        criterion=criterion,
        rater_kind=case.kind,
        judge=case.judge,
        raters=case.raters,
        ratings=int(case.people["raters"].sum()),
        alone=alone,
        judged_alone=share_interval(case.judged, level=1 - alpha),
        share=replace(alone, estimate=None, low=None, high=None, method=PPI_T, warnings=(why,)),
        test=TestResult(n=0, method=PPI_TEST, warnings=(why,)),
        rated=len(case.people),
        judged=len(case.judged),
    )
    if why:
        return row
    found = _mean(case, alpha)
    each = row.ratings / row.rated
    share = found.interval
    if share.n < CALIBRATED:
        few = f"people rated {share.n}, and coverage was measured from {CALIBRATED} on"
        share = replace(share, warnings=(*share.warnings, few))
    return replace(
        row,
        share=share,
        test=found.test,
        weight=found.weight,
        correlation=found.correlation,
        gained=None if found.effective is None else (found.effective - found.rated) * each,
    )


def _mean(case: _Case, alpha: float) -> AssistedMean:
    theirs = case.people.set_index("pair_id")["share"].reindex(case.judged["pair_id"])
    return assisted_mean(
        theirs.to_numpy(),
        case.judged["share"].to_numpy(),
        case.judged["dataset"].tolist(),
        clusters=units(case.judged).clusters,
        level=1 - alpha,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AssistedRank:
    """A method's place among those that were all compared with each other, by people assisted by a judge.

    Attributes:
        rater_kind: The judge's kind.
        judge: The judge.
        criterion: The quality judged.
        method: The method.
        share: Its win share against the others, each comparison weighing the same.
        low: Its least rank, 1 for the largest share.
        high: Its greatest rank; all methods' ranks lie between low and high at once with chance `level`.
        level: That chance.
    """

    rater_kind: str
    judge: str
    criterion: str
    method: str
    share: float
    low: int
    high: int
    level: float


def assisted_ranks(
    verdicts: Verdicts, *, random: bool = False, alpha: float = 0.05
) -> tuple[AssistedRank, ...]:
    """Return the ranks of three or more methods that were all compared with each other, the first first.

    Nothing is returned for a judge and criterion with a comparison missing, or one that cannot be assisted.
    """
    groups: dict[tuple[str, str, str], list[_Case]] = {}
    for case in _cases(ScoredVerdicts.of(verdicts), None, together=False):
        if len(case.judged) > len(case.people):
            groups.setdefault((case.kind, case.judge, case.key[2]), []).append(case)
    rows: list[AssistedRank] = []
    for (kind, judge, criterion), cases in groups.items():
        methods = sorted({name for case in cases for name in case.key[:2]})
        whole = len(cases) == len(methods) * (len(methods) - 1) // 2 and len(methods) > 2
        if not whole or any(_obstacle(case, random=random) for case in cases):
            continue
        shares, sets = _ranked(cases, methods, alpha)
        rows += sorted(
            (
                AssistedRank(
                    rater_kind=kind,
                    judge=judge,
                    criterion=criterion,
                    method=method,
                    share=share,
                    low=low,
                    high=high,
                    level=1 - alpha,
                )
                for method, share, (low, high) in zip(methods, shares, sets, strict=True)
            ),
            key=lambda row: (-row.share, row.method),
        )
    return tuple(rows)


def _ranked(
    cases: Sequence[_Case], methods: Sequence[str], alpha: float
) -> tuple[list[float], tuple[tuple[int, int], ...]]:
    """Return each method's mean share against the others, and its rank set."""
    numbers = np.unique(np.concatenate([case.judged["unit"].to_numpy() for case in cases]))
    shares, influence = np.zeros(len(methods)), np.zeros((len(numbers), len(methods)))
    freedom, inflation = math.inf, 1.0
    for case in cases:
        found = _mean(case, alpha)
        place = np.searchsorted(numbers, case.judged["unit"].to_numpy())
        own = np.bincount(place, weights=found.influence, minlength=len(numbers)) / (len(methods) - 1)
        estimate = (found.interval.estimate or 0.0) / (len(methods) - 1)
        first, second = (methods.index(name) for name in case.key[:2])
        shares[[first, second]] += estimate, 1 / (len(methods) - 1) - estimate
        influence[:, first] += own
        influence[:, second] -= own
        freedom, inflation = min(freedom, found.freedom), max(inflation, found.inflation)
    sets = rank_sets(shares, influence, freedom=freedom, level=1 - alpha, inflation=inflation)
    return shares.tolist(), sets


def _adjusted(rows: Sequence[AssistedRow]) -> tuple[AssistedRow, ...]:
    out = list(rows)
    for judge in {(row.rater_kind, row.judge) for row in rows}:
        places = [place for place, row in enumerate(rows) if (row.rater_kind, row.judge) == judge]
        corrected = holm([rows[place].test.p_value for place in places]).p_values
        for place, value in zip(places, corrected, strict=True):
            out[place] = replace(rows[place], adjusted=value)
    return tuple(out)
