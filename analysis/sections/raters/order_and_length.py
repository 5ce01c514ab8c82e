"""Does the first text win more often? Does the longer text win more often?"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import (
    CELL,
    ResultKey,
    UnitScores,
    add_unit_column,
    convert_methods_to_signs,
    group_by_raters,
    group_by_result,
)
from analysis.sections.section import (
    ComparisonRow,
    CriterionRow,
    Section,
    make_criterion_labels,
    make_result_labels,
    make_table_of_first_rows,
    select_first_notes,
    select_rows_for_answer,
)
from analysis.stats.equal_length import METHOD, estimate_share_at_equal_length
from analysis.stats.proportion import estimate_proportion
from guard_eval.estimate import Estimate, join_notes
from guard_eval.records import record
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.words import (
    capitalise,
    count_in_words,
    format_number,
    format_p,
    format_percent,
    format_share_limits,
)

RATED = [*CELL, "pair_id", "rater"]
"""The columns that identify a rater's verdicts on one pair and criterion, in both orders of the texts."""
ITEM = ["method_a", "method_b", "pair_id"]


@record
class PositionRow(CriterionRow):
    """How verdicts depend on the order of the texts.

    Attributes:
        first: The number of verdicts for the text shown first.
        second: The number of verdicts for the text shown second.
        ties: The number of ties.
        first_share: The share of verdicts without ties for the text shown first.
        both_orders: The number of pairs that a rater judged in both orders.
        flipped: The number of these pairs on which the two orders favour different methods.
        flip_rate: The share of these pairs that are flipped.
        repeated: The number of pairs that a judge judged several times in one order.
        contradictions: The share of the repeated pairs on which the judge's verdicts differ.
    """

    first: int
    second: int
    ties: int
    first_share: Annotated[Estimate, "first_"]
    both_orders: int
    flipped: int
    flip_rate: Annotated[Estimate, "flip_"]
    repeated: int
    contradictions: Annotated[Estimate, "contradictions_"]


@record
class LengthRow(ComparisonRow):
    """How verdicts depend on the length of the texts.

    Attributes:
        pairs: The number of pairs with both lengths.
        length_ratio: The geometric mean of (length of `method_a`) / (length of `method_b`).
        longer_share: The share of verdicts without ties for the longer text. If one method writes longer
            texts, this share mixes the effects of length and method.
        share_at_equal_length: The win share at equal length.
        p_share_at_equal_length: The p of a test that this share is one half.
        slope: The increase of the share if the method's text becomes twice as long.
        p_slope: The p of a test that the slope is 0.
        method: The statistical model.
        note: A warning about the numbers.
    """

    pairs: int
    length_ratio: float | None
    longer_share: Annotated[Estimate, "longer_"]
    share_at_equal_length: Annotated[Estimate, "equal_"]
    p_share_at_equal_length: float | None
    slope: Annotated[Estimate, "slope_"]
    p_slope: float | None
    method: str
    note: str


@declare_plan_keys("alpha")
def measure_position_effect(evidence: Evidence) -> Iterator[PositionRow]:
    """Measure how often the first text wins, and how often a verdict flips with the order.

    People and each judge have a row per criterion. There are no rows if it is unknown which text was first.
    If a judge has several answers on a pair in one order, the majority is one verdict.
    """
    frame = evidence.frame
    if "shown_first" not in frame.columns or not frame["shown_first"].notna().any():
        return
    level = evidence.plan.level
    by_order = _sum_verdicts_by_order(add_unit_column(frame[frame["shown_first"].notna()]))
    for key, group in group_by_raters(by_order, "judge", "criterion"):
        untied = group[group["side"] != 0]
        for_first = (untied["side"] == np.where(untied["a_first"], 1, -1)).to_numpy()
        both = group[group["a_first"]].merge(group[~group["a_first"]], on=[*RATED, "unit"])
        flipped = (both["side_x"] * both["side_y"] == -1).to_numpy()
        repeated = group[group["samples"] > 1]
        differ = (repeated["answers"] > 1).to_numpy()
        yield PositionRow(
            *key,
            first=int(for_first.sum()),
            second=int((~for_first).sum()),
            ties=len(group) - len(untied),
            first_share=estimate_proportion(for_first, untied["unit"].to_numpy(), level=level),
            both_orders=len(both),
            flipped=int(flipped.sum()),
            flip_rate=estimate_proportion(flipped, both["unit"].to_numpy(), level=level),
            repeated=len(repeated),
            contradictions=estimate_proportion(differ, repeated["unit"].to_numpy(), level=level),
        )


def _sum_verdicts_by_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each rater, pair, criterion and order: `side` is 1 for method_a, −1 for method_b."""
    placed = frame.assign(
        net=convert_methods_to_signs(frame, "verdict"), a_first=frame["shown_first"] == frame["method_a"]
    )
    rows = placed.groupby([*RATED, "a_first"], sort=True).agg(
        net=("net", "sum"), unit=("unit", "first"), samples=("net", "size"), answers=("net", "nunique")
    )
    return rows.assign(side=np.sign(rows["net"])).reset_index()


@declare_plan_keys("alpha", "panel", "composite")
def measure_length_effect(evidence: Evidence) -> list[LengthRow]:
    """Return a row per comparison and criterion, for people and for each judge, if both lengths are known.

    Lengths may be in any unit, such as characters or tokens, because only the ratio within a pair matters.
    """
    scored = evidence.detailed_verdicts
    if not {"length_a", "length_b"} <= set(scored.frame.columns):
        return []
    lengths = _compute_length_ratios(scored.frame)
    if not lengths["known"].any():
        return []
    items = dict(group_by_result(scored.items.merge(lengths, on=ITEM, how="left")))
    scores = scored.scores.merge(lengths[[*ITEM, "ratio"]], on=ITEM, how="left")
    rows = [
        _make_length_row(key, rated, items[key], evidence.plan.level)
        for key, rated in group_by_result(scores)
    ]
    return (
        [replace(row, p_share_at_equal_length=None) for row in rows] if evidence.has_early_stopping else rows
    )


def _compute_length_ratios(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per pair: log₂ of the length ratio, and whether the ratio is known.

    If the rows of a pair differ in a length, use the midpoint between the smallest and the largest value.
    """
    lengths = ["length_a", "length_b"]
    # The rows of a pair mostly have the same lengths, so few distinct rows remain.
    grouped = frame[[*ITEM, *lengths]].drop_duplicates().groupby(ITEM, sort=True)[lengths]
    least, greatest = grouped.min(), grouped.max()
    has_both = (least > 0).all(axis=1)
    middle = (least + greatest) / 2
    ratio = np.log2((middle["length_a"] / middle["length_b"]).where(has_both))
    return pd.DataFrame({"ratio": ratio, "known": has_both}).reset_index()


def _make_length_row(key: ResultKey, rated: pd.DataFrame, items: pd.DataFrame, level: float) -> LengthRow:
    """Return how the verdicts of one result depend on length."""
    measured = items[items["known"].astype(bool)]
    toward = (np.sign(rated["net"]) * np.sign(rated["ratio"])).to_numpy()
    sided = np.abs(toward) > 0
    share = slope = Estimate(level=level, note="no pair has both lengths")
    if len(measured):
        strata = pd.factorize(measured["dataset"], sort=True)[0]
        units = UnitScores.from_items(measured).codes
        share, slope = estimate_share_at_equal_length(
            measured["share"], measured["ratio"], strata, units, level=level
        )
    unknown = len(items) - len(measured)
    left_out = f"{count_in_words(unknown, 'pair')} without both lengths left out" if unknown else ""
    return LengthRow(
        *key,
        pairs=len(measured),
        length_ratio=float(2 ** measured["ratio"].mean()) if len(measured) else None,
        longer_share=estimate_proportion(toward[sided] > 0, rated["unit"].to_numpy()[sided], level=level),
        share_at_equal_length=share,
        p_share_at_equal_length=share.p,
        slope=slope,
        p_slope=slope.p,
        method=METHOD,
        note=join_notes(left_out, share.note),
    )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Does the order or the length of texts matter?"."""
    positions, lengths = evidence.rows(measure_position_effect), evidence.rows(measure_length_effect)
    if not (positions or lengths):
        return None
    position_table = make_table_of_first_rows(
        positions,
        make_criterion_labels,
        lambda row: {
            "First text won": format_percent(row.first_share.value),
            "Interval": format_share_limits(row.first_share),
            "Ties": row.ties,
            "Flipped with the order": f"{row.flipped} of {row.both_orders}" if row.both_orders else NOTHING,
            "Contradicts itself": format_percent(row.contradictions.value),
        },
        csv_name="position",
        caption="Preference for the first place",
    )
    length_table = make_table_of_first_rows(
        lengths,
        make_result_labels,
        lambda row: {
            "Length ratio": format_number(row.length_ratio),
            "Longer text won": format_percent(row.longer_share.value),
            "Share at equal length": format_percent(row.share_at_equal_length.value),
            "Interval": format_share_limits(row.share_at_equal_length),
            "p of length": NOTHING if row.p_slope is None else format_p(row.p_slope),
        },
        csv_name="length",
        caption="Preference for length",
    )
    return Section(
        anchor="order-length",
        question="Does the order or the length of texts matter?",
        answer=_answer_question(positions, lengths),
        notes=("Shares are of verdicts that are no ties.", *select_first_notes(row.note for row in lengths)),
        tables=(*position_table, *length_table),
    )


def _answer_question(positions: Sequence[PositionRow], lengths: Sequence[LengthRow]) -> str:
    """Say how often the first text won, and how often the longer text won, with the first raters."""
    shares = {
        "first-shown": [row.first_share for row in select_rows_for_answer(positions)],
        "longer": [row.longer_share for row in select_rows_for_answer(lengths)],
    }
    parts = []
    for text, of_text in shares.items():
        values = [share.value for share in of_text if share.value is not None]
        if values:
            limits = dict.fromkeys(format_percent(share, 0) for share in (min(values), max(values)))
            parts.append(f"the {text} text won {' to '.join(limits)}")
    return capitalise("; ".join(parts)) or "See the tables"
