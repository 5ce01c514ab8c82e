"""Does the text that is shown first win more often, and do verdicts flip with the order?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.evidence import ANSWER_KEYS, Evidence, estimate_record, frame_of, honours
from analysis.stats.proportion import unit_proportion
from analysis.verdicts.scores import side_of_a, with_units

KEYS = ["method_a", "method_b", "rater_kind", "judge", "criterion", "pair_id", "rater"]


@honours("alpha", unaffected=("panel", "composite", *ANSWER_KEYS))
def position(evidence: Evidence) -> pd.DataFrame:
    """Return a row per criterion, of people and of each judge; none if it is unknown what was shown first.

    A judge's samples of a pair in one order are one verdict: the method that most of them were for.
    `flip_rate` is the share of pairs, judged by one rater in both orders, whose verdict went to the other
    method when the order was turned; `changed` also counts those that became a tie or ceased to be one.
    """
    frame = evidence.frame
    if "shown_first" not in frame.columns or not frame["shown_first"].notna().any():
        return frame_of([])
    records = []
    known = _by_order(with_units(frame[frame["shown_first"].notna()]))
    for (kind, judge, criterion), cell in known.groupby(["rater_kind", "judge", "criterion"], sort=True):
        untied = cell[cell["side"] != 0]
        for_first = (untied["side"] == np.where(untied["a_first"], 1, -1)).to_numpy()
        both = cell[cell["a_first"]].merge(cell[~cell["a_first"]], on=[*KEYS, "unit"])
        flipped = (both["side_x"] * both["side_y"] == -1).to_numpy()
        share = unit_proportion(for_first, untied["unit"].to_numpy(), level=evidence.level)
        flips = unit_proportion(flipped, both["unit"].to_numpy(), level=evidence.level)
        records.append(
            {
                "rater_kind": kind,
                "judge": judge,
                "criterion": criterion,
                "first": int(for_first.sum()),
                "second": int((~for_first).sum()),
                "ties": len(cell) - len(untied),
                **estimate_record(share, "first_share", "first_"),
                "method_a_first": float(cell["a_first"].mean()),
                "both_orders": len(both),
                "flipped": int(flipped.sum()),
                "changed": int((both["side_x"] != both["side_y"]).sum()),
                **estimate_record(flips, "flip_rate", "flip_"),
            }
        )
    return frame_of(records, order=("rater_kind", "judge", "criterion"))


def _by_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each rater, pair, criterion and order: `side` is 1 for method_a, −1 for method_b."""
    known = frame.assign(net=side_of_a(frame, "verdict"), a_first=frame["shown_first"] == frame["method_a"])
    rows = known.groupby([*KEYS, "a_first"], sort=True).agg(net=("net", "sum"), unit=("unit", "first"))
    return rows.assign(side=np.sign(rows["net"])).reset_index()
