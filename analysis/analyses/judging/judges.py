"""A judge beside people: does it say what they say, and may it stand in for one of them?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence import (
    ANSWER_KEYS,
    CELL_COLUMNS,
    Evidence,
    cell_record,
    estimate_record,
    frame_of,
    honours,
)
from analysis.stats.agreement import agreeing, cohen_kappa
from analysis.stats.alternative_annotator import alternative_annotator
from analysis.stats.proportion import unit_proportion
from analysis.verdicts.scores import UnitScores, judged_by_both
from guard_eval.estimate import join_notes

EPSILON = 0.15
"""How much worse than an annotator a judge may be, for being cheaper: the authors' value for skilled ones."""


@honours("alpha", "panel", "composite", unaffected=ANSWER_KEYS)
def judges(evidence: Evidence) -> pd.DataFrame:
    """Return a row per comparison, criterion and judge, for the pairs that people and the judge judged.

    What most people say is the verdict that more of them gave than any other, and a tie if two are level.
    `with_a_person` is how often the judge says the same as one person, and `among_people` how often two
    people do, over the same pairs. `alternative_wins` is the share of people against whom the judge wins the
    alternative-annotator test (Calderon, Reichart and Dror 2025).
    """
    rows = []
    for cell, people, judged in judged_by_both(evidence.scored.scores):
        pairs = pd.Index(judged["pair_id"])
        item = pairs.get_indexer(pd.Index(people["pair_id"]))
        both, item = people[item >= 0], item[item >= 0]
        label, verdict = _labels(both["net"]), _labels(judged["net"])
        tally = np.bincount(item * 3 + label, minlength=3 * len(pairs)).reshape(len(pairs), 3)
        rated, unit = tally.sum(axis=1) > 0, UnitScores.of(judged).codes
        tally, chosen, index = tally[rated], verdict[rated], unit[rated]
        if not len(chosen):
            continue
        majority = _majority(tally)
        same = unit_proportion(majority == chosen, index, level=evidence.level)
        kappa = cohen_kappa(majority, chosen, unit=index, level=evidence.level)
        as_chosen = tally[np.arange(len(chosen)), chosen] / tally.sum(axis=1)
        twice = tally.sum(axis=1) >= 2
        who = pd.factorize(both["rater"], sort=True)[0]
        wins, why = alternative_annotator(item, who, label, verdict, unit, epsilon=EPSILON, q=evidence.alpha)
        missed = int((~rated).sum())
        left_out = f"{missed} pair(s) that the judge judged and no person are left out" if missed else ""
        rows.append(
            cell_record(cell)
            | {
                "people": int(both["rater"].nunique()),
                "pairs": len(chosen),
                **estimate_record(same, "same_as_most", "same_"),
                **estimate_record(kappa, "cohen_kappa", "kappa_"),
                "with_a_person": float(as_chosen[twice].mean()) if twice.any() else None,
                "among_people": float(agreeing(tally[twice]).mean()) if twice.any() else None,
                "alternative_epsilon": EPSILON,
                "alternative_wins": wins,
                "note": join_notes(left_out, kappa.note, why),
            }
        )
    return frame_of(rows, CELL_COLUMNS)


def _labels(net: pd.Series) -> NDArray[np.int64]:
    return np.asarray(np.sign(net.to_numpy()) + 1, dtype=np.int64)


def _majority(tally: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the verdict that more people gave than any other, or a tie; `tally` is [items, 3]."""
    is_single = (tally == tally.max(axis=1, keepdims=True)).sum(axis=1) == 1
    return np.where(is_single, tally.argmax(axis=1), 1).astype(np.int64)
