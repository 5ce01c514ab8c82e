"""From verdicts to scores: one per rater and pair, then one per item, as exact fractions."""

from __future__ import annotations

import math

import pandas as pd

CELL = ["method_a", "method_b", "rater_kind", "criterion"]
"""What is never pooled: a comparison, judged by one kind of rater, on one criterion."""


def rater_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per rater and pair of an oriented table: `net` of its `showings`.

    A verdict for method_a counts +1, for method_b −1, a tie 0. A rater who saw a pair more than once (a
    judge in both orders) has one score, net / showings: a verdict that flips with the order is a tie.
    """
    sign = (frame["verdict"] == frame["method_a"]).astype(int) - (
        frame["verdict"] == frame["method_b"]
    ).astype(int)
    keys = [*CELL, "dataset", "pair_id", "rater"]
    grouped = frame.assign(net=sign).groupby(keys, sort=True)["net"]
    return grouped.agg(net="sum", showings="count").reset_index()


def item_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """Return one row per item of `rater_scores`: its mean score as `numerator` / `denominator`, and `share`.

    The score lies between −1 (every rater for method_b) and 1; share = (1 + score) / 2 is the item's
    tie-split win share.
    """
    common = math.lcm(*(int(value) for value in scores["showings"].unique())) if len(scores) else 1
    whole = scores.assign(part=scores["net"] * (common // scores["showings"]))
    grouped = whole.groupby([*CELL, "dataset", "pair_id"], sort=True)["part"]
    items = grouped.agg(numerator="sum", raters="count").reset_index()
    items["denominator"] = items["raters"] * common
    items["share"] = 0.5 + items["numerator"] / (2 * items["denominator"])
    return items
