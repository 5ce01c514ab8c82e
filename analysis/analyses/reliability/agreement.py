"""How far raters of one kind agree: raw agreement, Fleiss' κ, Krippendorff's α, Gwet's AC1 and ICC(1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.evidence import (
    ANSWER_KEYS,
    CELL_COLUMNS,
    Evidence,
    cell_record,
    estimate_record,
    frame_of,
    honours,
)
from analysis.stats.agreement import (
    RatingCounts,
    fleiss_kappa,
    gwet_ac1,
    intraclass,
    krippendorff_alpha,
    raw_agreement,
)
from analysis.verdicts.scores import UnitScores, by_cell, item_numbers
from guard_eval.estimate import join_notes
from guard_eval.records import TIE


def count_choices(evidence: Evidence) -> int:
    """Return the number of choices that raters had: two if ties are neither declared nor in the table.

    A judge whose verdict changes with the order ties, too.
    """
    ties = evidence.context.ties
    if ties is None:
        ties = bool((evidence.frame["verdict"] == TIE).any())
    return 3 if ties or bool((evidence.scored.scores["net"] == 0).any()) else 2


@honours("alpha", unaffected=("panel", "composite", *ANSWER_KEYS))
def agreement(evidence: Evidence) -> pd.DataFrame:
    """Return agreement between raters of one kind, per comparison and criterion.

    A kind with one rater has no row. Models of a kind are compared with each other, never with people.
    """
    records: list[dict[str, Any]] = []
    level = evidence.level
    choices = count_choices(evidence)
    for cell, scores in by_cell(evidence.scored.by_kind):
        raters = scores["rater"].nunique()
        if raters < 2:
            continue
        item, first = item_numbers(scores)
        by_unit = UnitScores.of(scores.iloc[first])
        verdict = 1 - np.sign(scores["net"].to_numpy())  # 0, 1, 2 for method_a, tie, method_b
        counts = np.bincount(3 * item + verdict, minlength=3 * len(first)).reshape(-1, 3)
        ratings = RatingCounts.of(counts, by_unit.codes)
        kappa = fleiss_kappa(ratings, level=level)
        alpha = krippendorff_alpha(ratings, level=level)
        ac1 = gwet_ac1(ratings, categories=choices, level=level)
        y = scores["net"].to_numpy() / scores["showings"].to_numpy()
        icc = intraclass(item, y, by_unit.codes, level=level)
        per_item = len(scores) / len(first)
        records.append(
            cell_record(cell)
            | {
                "raters": raters,
                "pairs": len(first),
                "pairs_rated_twice": int((ratings.sizes >= 2).sum()),
                "ratings": len(scores),
                "unit": by_unit.name,
                "units": by_unit.n,
                "categories": choices,
                "raw_agreement": raw_agreement(ratings),
                **estimate_record(kappa, "fleiss_kappa", "kappa_"),
                **estimate_record(alpha, "krippendorff_alpha_ordinal", "alpha_"),
                **estimate_record(ac1, "gwet_ac1", "ac1_"),
                **estimate_record(icc, "icc1", "icc1_"),
                "design_effect": None if icc.value is None else 1 + (per_item - 1) * icc.value,
                "level": level,
                "note": join_notes(*dict.fromkeys((kappa.note, alpha.note, icc.note))),
            }
        )
    return frame_of(records, CELL_COLUMNS)
