"""Position and length: does the first text win, does the longer one, and what are the shares without it?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.results.cells import CellRow, cell_fields
from analysis.stats.bias import LengthFit, OrderAdjusted, length_adjusted, order_adjusted
from analysis.stats.intervals import Interval, unit_proportion
from analysis.verdicts.encoding import combined, text_codes
from analysis.verdicts.scores import Cell, ScoredVerdicts, Verdicts, by_cell, units, with_units
from guard_eval.reporting.words import KIND_PLACE, plural


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionRow:
    """Preference for the first place, of people or of one judge on one criterion.

    A judge's samples of a pair in one order are one verdict: the method that most of them were for.

    Attributes:
        rater_kind: Who judged.
        judge: Which judge; empty for people.
        criterion: The quality judged.
        first: Non-tied verdicts for the text shown first.
        second: Those for the text shown second.
        ties: Ties.
        share: first / (first + second) with an interval over pairs, or prompts where they are known.
        a_first: Share of verdicts with the comparison's first method shown first; one half is balance.
        both_orders: Pairs that one rater judged in both orders.
        flipped: Those where the verdict went to the other method when the order was turned.
        changed: Those where it did, or came to be a tie or ceased to be one.
        flips: flipped / both_orders with such an interval.
        warnings: What a reader must know before using it.
    """

    rater_kind: str
    judge: str
    criterion: str
    first: int
    second: int
    ties: int
    share: Interval
    a_first: float
    both_orders: int
    flipped: int
    changed: int
    flips: Interval
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderRow(CellRow):
    """A comparison on one criterion, judged by people or one judge, with each order weighing the same.

    Attributes:
        result: The share when shown first and when shown second, and their mean.
    """

    result: OrderAdjusted


def position_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[PositionRow, ...]:
    """Return a row per criterion, of people and each judge; none where it is unknown what was shown first."""
    frame = ScoredVerdicts.of(verdicts).frame
    if "shown_first" not in frame.columns:
        return ()
    known = frame[frame["shown_first"].notna()]
    rows = []
    known = _by_order(with_units(known))
    for key, cell in known.groupby(["rater_kind", "judge", "criterion"], sort=True):
        kind, judge, criterion = (str(part) for part in key)
        untied = cell[cell["side"] != 0]
        for_first = untied["side"] == np.where(untied["a_first"], 1, -1)
        first, a_first = int(for_first.sum()), float(cell["a_first"].mean())
        flipped, changed, unit = _flips(cell)
        why = f"{a_first:.0%} of verdicts had the same method first: preferences for place and method mix"
        rows.append(
            PositionRow(
                rater_kind=kind,
                judge=judge,
                criterion=criterion,
                first=first,
                second=len(untied) - first,
                ties=len(cell) - len(untied),
                share=unit_proportion(for_first, untied["unit"].to_numpy(), level=1 - alpha),
                a_first=a_first,
                both_orders=len(unit),
                flipped=int(flipped.sum()),
                changed=int(changed.sum()),
                flips=unit_proportion(flipped, unit, level=1 - alpha),
                warnings=(why,) if abs(a_first - 0.5) > 0.1 else (),
            )
        )
    return tuple(sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.judge, row.criterion)))


def _by_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each rater, pair, criterion and order: `side` is 1 for method_a, −1 for method_b."""
    names = ["method_a", "method_b", "rater_kind", "judge", "criterion", "pair_id", "rater"]
    for_a, for_b = ((frame["verdict"] == frame[name]).to_numpy(dtype=int) for name in names[:2])
    a_first = (frame["shown_first"] == frame["method_a"]).to_numpy()
    codes = [text_codes(frame[name]).codes for name in names]
    _, first, place = np.unique(
        combined(*codes, a_first.astype(np.int64)), return_index=True, return_inverse=True
    )
    side = np.sign(np.bincount(place, weights=for_a - for_b)).astype(int)
    return frame[[*names, "unit"]].iloc[first].assign(a_first=a_first[first], side=side)


def _flips(cell: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
    """Return for each rater and pair seen in both orders whether it flipped, or changed, and its unit."""
    key = cell.groupby(["method_a", "method_b", "pair_id", "rater"], sort=False).ngroup().to_numpy()
    a_first, side = cell["a_first"].to_numpy(), cell["side"].to_numpy()
    sides = np.full((int(key.max()) + 1, 2), -2)
    for place, order in enumerate((a_first, ~a_first)):
        sides[key[order], place] = side[order]
    unit = np.zeros(len(sides), dtype=np.int64)
    unit[key] = cell["unit"].to_numpy()
    both = (sides > -2).all(axis=1)
    return sides[both].prod(axis=1) == -1, sides[both, 0] != sides[both, 1], unit[both]


def order_rows(verdicts: Verdicts, *, alpha: float = 0.05) -> tuple[OrderRow, ...]:
    """Return win shares with each order weighing the same: per comparison, criterion and who judged.

    An item's score in an order is the mean of the verdicts it got in that order, from any rater.

    Args:
        verdicts: A table of verdicts; none of its rows counts that does not say what was shown first.
        alpha: One minus the confidence level.
    """
    frame = ScoredVerdicts.of(verdicts).frame
    if "shown_first" not in frame.columns:
        return ()
    rows = []
    frame = with_units(frame)
    for cell, own in by_cell(frame[frame["shown_first"].notna()]):
        item, pairs = pd.factorize(own["pair_id"], sort=True)
        clusters = units(own.drop_duplicates("pair_id").sort_values("pair_id")).clusters
        for_a, for_b = (
            (own["verdict"] == own[name]).to_numpy(dtype=int) for name in ("method_a", "method_b")
        )
        score = (1 + for_a - for_b) / 2
        a_first = (own["shown_first"] == own["method_a"]).to_numpy()
        means = []
        for order in (a_first, ~a_first):
            count = np.bincount(item[order], minlength=len(pairs))
            total = np.bincount(item[order], weights=score[order], minlength=len(pairs))
            means.append(np.where(count > 0, total / np.maximum(1, count), np.nan))
        rows.append(
            OrderRow(
                **cell_fields(cell),
                result=order_adjusted(means[0], means[1], clusters=clusters, level=1 - alpha),
            )
        )
    return tuple(rows)


_ITEM = ["method_a", "method_b", "pair_id"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRow(CellRow):
    """A comparison on one criterion, judged by people or one judge, as it goes with length.

    Attributes:
        items: Pairs whose lengths are known.
        ratio: Length of method_a's text over method_b's, the geometric mean over items; `None` without items.
        longer: Scores (rater × pair) for the longer text, where one is longer.
        shorter: Those for the shorter.
        ties: Ties where one is longer.
        longer_share: longer / (longer + shorter) with an interval over pairs, or prompts where they are
            known. It mixes length and method where one method writes longer; the slope of `fit` does not.
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
    """Return a row per comparison, criterion and who judged; none where no pair has both lengths.

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


def _row(cell: Cell, scores: pd.DataFrame, items: pd.DataFrame, *, alpha: float) -> LengthRow:
    known = items[items["known"]]
    toward = np.sign(scores["net"]) * np.sign(scores["ratio"])  # 1 for the longer, −1 for the shorter text
    unequal = scores["ratio"].notna() & (scores["ratio"] != 0)
    longer, shorter, sided = int((toward > 0).sum()), int((toward < 0).sum()), toward.abs() > 0
    return LengthRow(
        **cell_fields(cell),
        items=len(known),
        ratio=float(2 ** known["ratio"].mean()) if len(known) else None,
        longer=longer,
        shorter=shorter,
        ties=int(unequal.sum()) - longer - shorter,
        longer_share=unit_proportion(
            toward[sided] > 0, scores.loc[sided, "unit"].to_numpy(), level=1 - alpha
        ),
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
