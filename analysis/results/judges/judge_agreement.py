"""Each judge beside the people: does it agree with them, lean as they lean, stand in for one of them?

A judge is one rater of kind model beside people, or of kind simulated_model beside simulated people; judges
are never pooled, neither with each other nor with people. A judge that saw a pair in both orders has one
verdict on it, and one that flips has tied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from analysis.results.cells import NO_VERDICTS, CellRow, VerdictCounts, cell_fields
from analysis.stats.agreement import Coefficient, cohen
from analysis.stats.intervals import Interval, unit_proportion
from analysis.stats.judge_tests import AlternativeTest, alternative_annotator, leave_one_out
from analysis.stats.significance import TestResult, reachable, sign_flip
from analysis.verdicts.scores import Cell, ScoredVerdicts, Verdicts, by_cell, units
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import KIND_PLACE

EPSILONS = (0.1, 0.15, 0.2)
"""What the authors of the test advise: raters from a crowd, skilled raters, experts."""
_SIDES = (-1, 0, 1)
"""What the labels 0, 1 and 2 stand for: method_b, a tie, method_a."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeRow(CellRow):
    """One judge against the people, in one comparison on one criterion.

    Attributes:
        people: How many people judged the pairs that the judge judged.
        items: Pairs that the judge and at least one person judged.
        same: How often the judge says what most people say, with Wilson's interval over pairs, or over
            prompts where they are known. What most say is the verdict that more of them gave than any other;
            where two are level, a tie.
        kappa: Cohen's κ of the judge and that majority.
        with_a_person: How often the judge says the same as one person, averaged over the pairs that two
            people or more judged; `None` where there are none.
        among_people: How often two people say the same, over the same pairs: what `with_a_person` must be
            compared with.
        correlation: Kendall's τ-b of the judge's scores with the mean of the people's; `None` where
            either is the same throughout.
        both_sided: Pairs on which the majority and the judge both take a side.
        people_only: Of these, those where people are for method_a and the judge for method_b.
        judge_only: Those where the judge is for method_a and people for method_b.
        lean: McNemar's exact test of these two counts.
        alternative: The alternative-annotator test, once for each ε of `EPSILONS`.
        names: The people, by the places in `alternative`.
        warnings: What a reader must know before using it.
    """

    people: int
    items: int
    same: Interval
    kappa: Coefficient
    with_a_person: float | None
    among_people: float | None
    correlation: float | None
    both_sided: int
    people_only: int
    judge_only: int
    lean: TestResult
    alternative: tuple[AlternativeTest, ...]
    names: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BesideRow(CellRow):
    """People beside one judge in one dataset or in all, as in the paper (`tab:llm_with_human`).

    Attributes:
        dataset: The dataset, or `None` for all of them.
        people: What people chose, their ratings pooled.
        judged: What the judge chose.
        warnings: What a reader must know before using it.
    """

    dataset: str | None
    people: VerdictCounts
    judged: VerdictCounts
    warnings: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        """Return the paper's "Agree?": the same method is ahead in both; level shares are no agreement."""
        return self.people.leader == self.judged.leader != 0


def judge_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[JudgeRow, ...]:
    """Return a row per comparison, criterion and judge, for what both people and a judge judged.

    Args:
        verdicts: A table of verdicts.
        alpha: One minus the confidence level, and the false discovery rate of the alternative-annotator test.
    """
    rows = [
        _row(cell, people, judged, alpha=alpha)
        for cell, people, judged in _beside(ScoredVerdicts.of(verdicts).scores)
    ]
    return tuple(sorted(rows, key=_place))


def beside_rows(verdicts: Verdicts) -> tuple[BesideRow, ...]:
    """Return people's and each judge's counts by dataset and over all of them, the datasets first.

    Args:
        verdicts: A table of verdicts.
    """
    rows = []
    for cell, people, judged in _beside(ScoredVerdicts.of(verdicts).scores):
        theirs, its = _by_dataset(people), _by_dataset(judged)
        datasets = sorted(set(theirs) & set(its)) if len(set(theirs) | set(its)) > 1 else []
        for dataset in (*datasets, None):
            row = BesideRow(
                **cell_fields(cell),
                dataset=dataset,
                people=sum(theirs.values(), NO_VERDICTS) if dataset is None else theirs[dataset],
                judged=sum(its.values(), NO_VERDICTS) if dataset is None else its[dataset],
                warnings=_coverage(people, judged) if dataset is None else (),
            )
            rows.append(row)
    return tuple(sorted(rows, key=_place))


def _by_dataset(scores: pd.DataFrame) -> dict[str, VerdictCounts]:
    codes, names = pd.factorize(scores["dataset"])
    tally = np.bincount(codes * 3 + _labels(scores["net"]), minlength=3 * len(names)).reshape(-1, 3)
    return {
        str(name): VerdictCounts(wins=int(line[2]), ties=int(line[1]), losses=int(line[0]))
        for name, line in zip(names, tally, strict=True)
    }


def _place(row: JudgeRow | BesideRow) -> tuple[int, str, str, str, str]:
    return KIND_PLACE[row.rater_kind], row.judge, row.method_a, row.method_b, row.criterion


def _beside(
    scores: pd.DataFrame,
) -> Iterator[tuple[Cell, pd.DataFrame, pd.DataFrame]]:
    """Yield (cell of the judge, people's scores, the judge's scores) where both judged."""
    cells = dict(by_cell(scores))
    for cell, judged in cells.items():
        kind = PEOPLE_OF.get(cell.rater_kind, "")
        people = cells.get(cell._replace(rater_kind=kind, judge=""))
        if people is not None:
            yield cell, people, judged


def _coverage(people: pd.DataFrame, judged: pd.DataFrame) -> tuple[str, ...]:
    theirs, its = pd.Index(people["pair_id"].unique()), pd.Index(judged["pair_id"])
    both = int(its.isin(theirs).sum())
    if both == len(theirs) == len(its):
        return ()
    return (f"people judged {len(theirs)} pairs, the judge {len(its)}, and both {both}",)


def _row(
    cell: Cell,
    people: pd.DataFrame,
    judged: pd.DataFrame,
    *,
    alpha: float,
) -> JudgeRow:
    pairs = pd.Index(judged["pair_id"])
    item = pairs.get_indexer(pd.Index(people["pair_id"]))
    people, item = people[item >= 0], item[item >= 0]
    who, names = pd.factorize(people["rater"], sort=True)
    label, verdict = _labels(people["net"]), _labels(judged["net"])
    tally = np.bincount(item * 3 + label, minlength=3 * len(pairs)).reshape(len(pairs), 3)
    rated = tally.sum(axis=1) > 0
    tally, own = tally[rated], verdict[rated]
    majority = _majority(tally)
    found = units(judged)
    alone = found.clusters is None
    out = leave_one_out(item, who, label, verdict, categories=3, clusters=found.clusters)
    prompts = None if alone else found.place[rated]
    apart = (majority != own) & (majority != 1) & (own != 1)
    people_only, judge_only = int((apart & (majority == 2)).sum()), int((apart & (own == 2)).sum())
    missed = int((~rated).sum())
    return JudgeRow(
        **cell_fields(cell),
        people=len(names),
        items=len(own),
        same=unit_proportion(majority == own, found.place[rated], level=1 - alpha),
        kappa=cohen(majority, own, categories=3, clusters=prompts, level=1 - alpha),
        with_a_person=_mean((tally[np.arange(len(own)), own] / np.maximum(1, tally.sum(axis=1))), tally),
        among_people=_mean(_pairs_agreeing(tally), tally),
        correlation=_correlation(tally, (judged["net"] / judged["showings"]).to_numpy()[rated]),
        both_sided=int(((majority != 1) & (own != 1)).sum()),
        people_only=people_only,
        judge_only=judge_only,
        lean=reachable(_lean(np.where(apart, np.sign(majority - own), 0), found.place[rated]), alpha),
        alternative=tuple(alternative_annotator(out, epsilon=one, q=alpha) for one in EPSILONS),
        names=tuple(str(name) for name in names),
        warnings=(f"{missed} pair(s) that the judge judged and no person are left out",) if missed else (),
    )


def _lean(side: NDArray[np.int64], unit: NDArray[np.int64]) -> TestResult:
    """Return McNemar's exact test (1947) of the sides that differ, as the sign-flip test of units' sums.

    Of single items the two are the same.
    """
    sums = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, unit, side)
    found = sign_flip(sums, np.ones_like(sums))
    return replace(found, method="McNemar's exact test, as sign flips of units, on items where sides differ")


def _labels(net: pd.Series) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = np.sign(net.to_numpy(dtype=np.int64)) + 1
    return labels


def _majority(tally: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the verdict that more people gave than any other, or a tie; `tally` is [items, 3]."""
    most = tally.max(axis=1, keepdims=True) if len(tally) else tally
    alone = (tally == most).sum(axis=1) == 1
    majority: NDArray[np.int64] = np.where(alone, tally.argmax(axis=1), 1).astype(np.int64)
    return majority


def _pairs_agreeing(tally: NDArray[np.int64]) -> NDArray[np.float64]:
    n = tally.sum(axis=1)
    agreeing: NDArray[np.float64] = (tally * (tally - 1)).sum(axis=1) / np.maximum(1, n * (n - 1))
    return agreeing


def _mean(values: NDArray[np.float64], tally: NDArray[np.int64]) -> float | None:
    """Return the mean over the items that two people or more judged."""
    twice = tally.sum(axis=1) >= 2
    return float(values[twice].mean()) if twice.any() else None


def _correlation(tally: NDArray[np.int64], scores: NDArray[np.float64]) -> float | None:
    means = (tally @ np.array(_SIDES)) / np.maximum(1, tally.sum(axis=1))
    if len(means) < 2 or np.ptp(means) == 0 or np.ptp(scores) == 0:
        return None
    return float(stats.kendalltau(means, scores).statistic)
