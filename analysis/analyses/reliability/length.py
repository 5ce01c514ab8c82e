"""Does the longer text win, and what is the share at equal length?"""

from __future__ import annotations

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
from analysis.stats.equal_length import METHOD, share_at_equal_length
from analysis.stats.proportion import unit_proportion
from analysis.verdicts.scores import UnitScores, by_cell
from guard_eval.estimate import Estimate, join_notes
from guard_eval.reporting.words import plural

_ITEM = ["method_a", "method_b", "pair_id"]


@honours("alpha", "panel", "composite", unaffected=ANSWER_KEYS)
def length(evidence: Evidence) -> pd.DataFrame:
    """Return a row per comparison, criterion and who judged; none if no pair has both lengths.

    Lengths may be in any unit, characters or tokens: only their ratio within a pair counts. `longer_share`
    is the share of non-tied verdicts for the longer text; it mixes length and method if one method writes
    longer, and `slope` does not: by how much the share rises if the method's text becomes twice as long.
    """
    frame = evidence.frame
    if not {"length_a", "length_b"} <= set(frame.columns):
        return frame_of([], CELL_COLUMNS)
    lengths = _lengths(frame)
    if not lengths["known"].any():
        return frame_of([], CELL_COLUMNS)
    items = dict(by_cell(evidence.scored.items.merge(lengths, on=_ITEM, how="left")))
    scores = evidence.scored.scores.merge(lengths[[*_ITEM, "ratio"]], on=_ITEM, how="left")
    records = []
    for cell, rated in by_cell(scores):
        group = items[cell]
        known = group[group["known"].astype(bool)]
        toward = (np.sign(rated["net"]) * np.sign(rated["ratio"])).to_numpy()
        sided = np.abs(toward) > 0
        longer = unit_proportion(toward[sided] > 0, rated["unit"].to_numpy()[sided], level=evidence.level)
        if len(known):
            by_unit, strata = UnitScores.of(known), pd.factorize(known["dataset"], sort=True)[0]
            share, slope = share_at_equal_length(
                known["share"], known["ratio"], strata, by_unit.codes, level=evidence.level
            )
        else:
            share = slope = Estimate(level=evidence.level, note="no pair has both lengths")
        unknown = len(group) - len(known)
        left_out = f"{plural(unknown, 'pair')} without both lengths left out" if unknown else ""
        records.append(
            cell_record(cell)
            | {
                "pairs": len(known),
                "length_ratio": float(2 ** known["ratio"].mean()) if len(known) else None,
                **estimate_record(longer, "longer_share", "longer_"),
                **estimate_record(share, "share_at_equal_length", "equal_"),
                "p_share_at_equal_length": share.p,
                **estimate_record(slope, "slope", "slope_"),
                "p_slope": slope.p,
                "method": METHOD,
                "note": join_notes(left_out, share.note),
            }
        )
    return frame_of(records, CELL_COLUMNS)


def _lengths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair: log₂ of its length ratio, and whether it is known.

    If the rows of a pair differ in a length, the middle of the least and the greatest is taken.
    """
    lengths = ["length_a", "length_b"]
    # Rows of a pair mostly say the same, so few are left to be compared.
    grouped = frame[[*_ITEM, *lengths]].drop_duplicates().groupby(_ITEM, sort=True)[lengths]
    least, greatest = grouped.min(), grouped.max()
    known, middle = (least > 0).all(axis=1), (least + greatest) / 2
    ratio = np.log2((middle["length_a"] / middle["length_b"]).where(known))
    return pd.DataFrame({"ratio": ratio, "known": known}).reset_index()
