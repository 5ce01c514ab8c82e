"""Length: does the longer text win, and what is the win share at equal length?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.results.cells import CellRow, cell_fields
from analysis.stats.intervals import Interval, wilson
from analysis.stats.length import LengthFit, length_adjusted
from analysis.verdicts.scores import ScoredVerdicts, Verdicts, by_cell, units
from guard_eval.reporting.words import plural

_ITEM = ["method_a", "method_b", "pair_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRow(CellRow):
    """A comparison on one criterion, judged by one kind of rater, as it goes with length.

    Attributes:
        items: Pairs whose lengths are known.
        ratio: Length of method_a's text over method_b's, the geometric mean over items; `None` without items.
        longer: Scores (rater × pair) for the longer text, where one is longer.
        shorter: Those for the shorter.
        ties: Ties where one is longer.
        longer_share: longer / (longer + shorter) with Wilson's interval, every score taken as independent. It
            mixes length and method where one method writes longer; the slope of `fit` does not.
        share: Win share of method_a over the same items, not adjusted; `None` without items.
        fit: The share at equal length, and the slope.
        warnings: What a reader must know before using it.
    """

    items: int
    ratio: float | None
    longer: int
    shorter: int
    ties: int
    longer_share: Interval
    share: float | None
    fit: LengthFit
    warnings: tuple[str, ...] = ()


def length_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[LengthRow, ...]:
    """Return a row per comparison, rater kind and criterion; none where no pair has both lengths.

    Lengths may be in any unit, characters or tokens: only their ratio within a pair counts.

    Args:
        verdicts: A table of verdicts, with length_a and length_b.
        alpha: One minus the confidence level.
    """
    scored = ScoredVerdicts.of(verdicts)
    if not {"length_a", "length_b"} <= set(scored.frame.columns):
        return ()
    lengths = _lengths(scored.frame)
    if not lengths["known"].any():
        return ()
    items = dict(by_cell(scored.items.merge(lengths, on=_ITEM, how="left")))
    scores = scored.scores.merge(lengths[[*_ITEM, "ratio"]], on=_ITEM, how="left")
    return tuple(_row(cell, rows, items[cell], alpha=alpha) for cell, rows in by_cell(scores))


def _lengths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair: log₂ of its length ratio, whether it is known, and whether rows differ."""
    lengths = ["length_a", "length_b"]
    # Rows of a pair mostly say the same, so few are left to be compared.
    grouped = frame[[*_ITEM, *lengths]].drop_duplicates().groupby(_ITEM, sort=True)[lengths]
    least, most = grouped.min(), grouped.max()
    middle = (least + most) / 2
    known = (least > 0).all(axis=1)
    ratio = np.log2((middle["length_a"] / middle["length_b"]).where(known))
    differ = known & (least != most).any(axis=1)
    return pd.DataFrame({"ratio": ratio, "known": known, "differ": differ}).reset_index()


def _row(
    cell: tuple[str, str, str, str], scores: pd.DataFrame, items: pd.DataFrame, *, alpha: float
) -> LengthRow:
    known = items[items["known"]]
    toward = np.sign(scores["net"]) * np.sign(scores["ratio"])  # 1 for the longer, −1 for the shorter text
    unequal = scores["ratio"].notna() & (scores["ratio"] != 0)
    longer, shorter = int((toward > 0).sum()), int((toward < 0).sum())
    return LengthRow(
        **cell_fields(cell),
        items=len(known),
        ratio=float(2 ** known["ratio"].mean()) if len(known) else None,
        longer=longer,
        shorter=shorter,
        ties=int(unequal.sum()) - longer - shorter,
        longer_share=wilson(longer, longer + shorter, level=1 - alpha),
        share=float(known["share"].mean()) if len(known) else None,
        fit=length_adjusted(
            known["share"].to_numpy(),
            known["ratio"].to_numpy(),
            known["dataset"].tolist(),
            clusters=units(known).clusters,
            level=1 - alpha,
        ),
        warnings=_warnings(items),
    )


def _warnings(items: pd.DataFrame) -> tuple[str, ...]:
    unknown, differ = int((~items["known"]).sum()), int(items["differ"].sum())
    warnings = [f"{plural(unknown, 'pair')} without both lengths left out"] if unknown else []
    if differ:
        warnings.append(f"{plural(differ, 'pair')} with several lengths; the middle one is taken")
    return tuple(warnings)
