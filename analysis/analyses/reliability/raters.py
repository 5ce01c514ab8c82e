"""Each rater beside the others: agreement with the rest, ties, preference for a place, and pace."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.evidence import ANSWER_KEYS, Evidence, estimate_record, frame_of, honours
from analysis.stats.proportion import unit_proportion
from analysis.verdicts.scores import item_numbers, with_units
from guard_eval.records import TIE


@honours("alpha", unaffected=("panel", "composite", *ANSWER_KEYS))
def raters(evidence: Evidence) -> pd.DataFrame:
    """Return what each rater did over all comparisons and criteria, people first, by name.

    `agreement` is how often another rater of the same kind, pair and criterion says the same; `first_share`
    the share of non-tied verdicts for the text shown first, with an interval over pairs or prompts, since
    verdicts on several criteria of a pair depend on each other.
    """
    frame, scores, keys = with_units(evidence.frame), evidence.scored.by_kind, ["rater_kind", "rater"]
    item, _ = item_numbers(scores)
    verdict = 3 * item + np.sign(scores["net"].to_numpy()) + 1
    others, same = np.bincount(item)[item] - 1, np.bincount(verdict)[verdict] - 1
    agreeing = scores.assign(others=others, same=same).groupby(keys)[["same", "others"]].sum()
    groups = frame.assign(tied=frame["verdict"] == TIE).groupby(keys, sort=True)
    sums = groups.agg(pairs=("pair_id", "nunique"), verdicts=("verdict", "size"), tie_share=("tied", "mean"))
    seconds = groups["seconds"].median() if "seconds" in frame else pd.Series(np.nan, sums.index)
    first = {}
    if "shown_first" in frame:
        placed = frame[frame["shown_first"].notna() & (frame["verdict"] != TIE)]
        hits = placed["verdict"] == placed["shown_first"]
        for rater, group in placed.assign(hits=hits)[[*keys, "hits", "unit"]].groupby(keys):
            first[rater] = unit_proportion(
                group["hits"].to_numpy(), group["unit"].to_numpy(), level=evidence.level
            )
    unplaced = unit_proportion([], np.zeros(0, dtype=np.int64), level=evidence.level)
    records = []
    for (kind, name), pairs, verdicts, tie_share in sums.itertuples(name=None):
        same_verdicts, compared = agreeing.loc[(kind, name)].tolist()
        pace = seconds[kind, name]
        records.append(
            {
                "rater_kind": kind,
                "rater": name,
                "pairs": int(pairs),
                "verdicts": int(verdicts),
                "tie_share": float(tie_share),
                "agreement": same_verdicts / compared if compared else None,
                "compared": int(compared),
                **estimate_record(first.get((kind, name), unplaced), "first_share", "first_"),
                "seconds": None if pd.isna(pace) else float(pace),
            }
        )
    return frame_of(records, order=("rater_kind", "rater"))
