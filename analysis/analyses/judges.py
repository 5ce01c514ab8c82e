"""A judge beside people: does it say what they say, and may it stand in for one of them?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.analyses.agreement import cohen_kappa
from analysis.analyses.evidence import ALL, CELL_COLUMNS, Evidence, cell_record, estimate_record, frame_of
from analysis.analyses.win_share import unit_proportion
from analysis.stats.alternative_annotator import alternative_annotator
from analysis.verdicts.scores import Cell, UnitScores, by_cell
from guard_eval.estimate import join_notes, sign_flip, why_no_p
from guard_eval.records import PEOPLE_OF

EPSILON = 0.15
"""How much worse than an annotator a judge may be, for being cheaper: the authors' value for skilled ones."""


def judges(evidence: Evidence) -> pd.DataFrame:
    """Return a row per comparison, criterion and judge, for the pairs that people and the judge judged.

    What most people say is the verdict that more of them gave than any other, and a tie if two are level.
    `with_a_person` is how often the judge says the same as one person, and `among_people` how often two
    people do, over the same pairs. `mcnemar_p` tests whether the judge leans to a method where it and most
    people take different sides. `alternative_wins` is the share of people against whom the judge wins the
    alternative-annotator test (Calderon, Reichart and Dror 2025).
    """
    rows = []
    for cell, people, judged in _judged_by_both(evidence.scored.scores):
        pairs = pd.Index(judged["pair_id"])
        item = pairs.get_indexer(pd.Index(people["pair_id"]))
        both, item = people[item >= 0], item[item >= 0]
        who = pd.factorize(both["rater"], sort=True)[0]
        label, verdict = _labels(both["net"]), _labels(judged["net"])
        tally = np.bincount(item * 3 + label, minlength=3 * len(pairs)).reshape(len(pairs), 3)
        rated, unit = tally.sum(axis=1) > 0, UnitScores.of(judged).codes
        tally, chosen, index = tally[rated], verdict[rated], unit[rated]
        if not len(chosen):
            continue
        majority = _majority(tally)
        same = unit_proportion(majority == chosen, index, level=evidence.level)
        kappa = cohen_kappa(majority, chosen, unit=index, level=evidence.level)
        apart = (majority != chosen) & (majority != 1) & (chosen != 1)
        sides = np.bincount(index, weights=np.where(apart, np.sign(chosen - majority), 0))
        lean = sign_flip(sides, unit="prompt")
        twice = tally.sum(axis=1) >= 2
        wins, why = alternative_annotator(item, who, label, verdict, unit, epsilon=EPSILON, q=evidence.alpha)
        missed = int((~rated).sum())
        rows.append(
            cell_record(cell)
            | {
                "people": int(both["rater"].nunique()),
                "pairs": len(chosen),
                **estimate_record(same, "same_as_most", "same_"),
                **estimate_record(kappa, "cohen_kappa", "kappa_"),
                "with_a_person": _mean((tally[np.arange(len(chosen)), chosen] / tally.sum(axis=1))[twice]),
                "among_people": _mean(_pairs_agreeing(tally[twice])),
                "judge_for_a_people_for_b": int((apart & (chosen == 2)).sum()),
                "people_for_a_judge_for_b": int((apart & (chosen == 0)).sum()),
                "mcnemar_p": None if why_no_p(lean.smallest_p, evidence.alpha) else lean.p,
                "alternative_epsilon": EPSILON,
                "alternative_wins": wins,
                "note": join_notes(
                    f"{missed} pair(s) that the judge judged and no person are left out" if missed else "",
                    kappa.note,
                    why,
                ),
            }
        )
    return frame_of(rows, CELL_COLUMNS)


def people_beside_judge(evidence: Evidence) -> pd.DataFrame:
    """Return people's and each judge's counts by dataset and over all of them.

    This is the paper's `tab:llm_with_human`. `agree` is its "Agree?": the same method is ahead in both; level
    shares are no agreement.
    """
    records = []
    for cell, people, judged in _judged_by_both(evidence.scored.scores):
        names = sorted(set(people["dataset"]) & set(judged["dataset"]))
        for dataset in (*(names if len(names) > 1 else ()), ALL):
            theirs, its = (
                np.bincount(
                    _labels(table["net"][(table["dataset"] == dataset) | (dataset == ALL)]), minlength=3
                )
                for table in (people, judged)
            )
            ahead, judged_ahead = (np.sign(counts[2] - counts[0]) for counts in (theirs, its))
            records.append(
                cell_record(cell)
                | {"dataset": dataset}
                | {
                    f"people_{name}": int(theirs[at])
                    for at, name in ((2, "wins"), (1, "ties"), (0, "losses"))
                }
                | {f"judge_{name}": int(its[at]) for at, name in ((2, "wins"), (1, "ties"), (0, "losses"))}
                | {"agree": bool(ahead == judged_ahead != 0)}
            )
    return frame_of(records, (*CELL_COLUMNS, "dataset"))


def _judged_by_both(scores: pd.DataFrame) -> Iterator[tuple[Cell, pd.DataFrame, pd.DataFrame]]:
    """Yield (cell of the judge, people's scores, the judge's scores) if both judged."""
    cells = dict(by_cell(scores))
    for cell, judged in cells.items():
        people = cells.get(cell._replace(rater_kind=PEOPLE_OF.get(cell.rater_kind, ""), judge=""))
        if people is not None:
            yield cell, people, judged


def _labels(net: pd.Series) -> NDArray[np.int64]:
    labels: NDArray[np.int64] = np.sign(net.to_numpy()).astype(np.int64) + 1
    return labels


def _majority(tally: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the verdict that more people gave than any other, or a tie; `tally` is [items, 3]."""
    alone = (tally == tally.max(axis=1, keepdims=True)).sum(axis=1) == 1
    return np.where(alone, tally.argmax(axis=1), 1).astype(np.int64)


def _pairs_agreeing(tally: NDArray[np.int64]) -> NDArray[np.float64]:
    n = tally.sum(axis=1)
    return np.asarray((tally * (tally - 1)).sum(axis=1) / (n * (n - 1)))


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None
