"""Each rater beside the others: agreement with the rest, ties, preference for a place, and pace."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.analyses.evidence import Evidence, estimate_record, frame_of
from analysis.analyses.win_share import unit_proportion
from analysis.verdicts.scores import item_numbers, unit_codes
from guard_eval.records import SIMULATED, TIE


def raters(evidence: Evidence) -> pd.DataFrame:
    """Return what each rater did over all comparisons and criteria, people first, by name.

    `agreement` is how often another rater of the same kind, pair and criterion says the same; `first_share`
    the share of non-tied verdicts for the text shown first, with an interval over pairs or prompts, since
    verdicts on several criteria of a pair depend on each other.
    """
    frame, scores = evidence.frame, evidence.scored.by_kind
    item, _ = item_numbers(scores)
    verdict = 3 * item + np.sign(scores["net"].to_numpy()) + 1
    others, same = np.bincount(item)[item] - 1, np.bincount(verdict)[verdict] - 1
    sums = scores.assign(others=others, same=same).groupby(["rater_kind", "rater"])[["same", "others"]].sum()
    agreeing_of = {key: (int(same), int(others)) for key, same, others in sums.itertuples(name=None)}
    records = []
    for (kind, name), group in frame.groupby(["rater_kind", "rater"], sort=True):
        agreeing, compared = agreeing_of[kind, name]
        tie = group["verdict"] == TIE
        first = None
        if "shown_first" in group.columns:
            placed = group[group["shown_first"].notna() & ~tie]
            hits = (placed["verdict"] == placed["shown_first"]).to_numpy()
            first = unit_proportion(hits, unit_codes(placed), level=evidence.level)
        seconds = group["seconds"].median() if "seconds" in group.columns else np.nan
        records.append(
            {
                "simulated": kind in SIMULATED,
                "rater_kind": kind,
                "rater": name,
                "pairs": group["pair_id"].nunique(),
                "verdicts": len(group),
                "tie_share": float(tie.mean()),
                "agreement": agreeing / compared if compared else None,
                "compared": compared,
                **estimate_record(first, "first_share", "first_"),
                "seconds": None if pd.isna(seconds) else float(seconds),
            }
        )
    return frame_of(records, order=("rater_kind", "rater"))
