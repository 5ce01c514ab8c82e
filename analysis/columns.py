"""Result rows → full CSV tables, unrounded: each a list of columns, `simulated` first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import pandas as pd

from analysis.agreement import AgreementRow
from analysis.audits import Finding
from analysis.bias import PositionRow
from analysis.raters import RaterRow
from analysis.render import Table
from analysis.sensitivity import SensitivityRow
from analysis.shares import ShareRow
from analysis.words import ALL
from guard_eval.escaping import Cell

T = TypeVar("T")

SHARES: dict[str, Callable[[ShareRow], Cell]] = {
    "simulated": lambda row: row.simulated,
    "rater_kind": lambda row: row.rater_kind,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
    "dataset": lambda row: row.dataset or ALL,
    "items": lambda row: row.items,
    "raters": lambda row: row.raters,
    "verdicts": lambda row: row.verdicts,
    "wins": lambda row: row.wins,
    "ties": lambda row: row.ties,
    "losses": lambda row: row.losses,
    "win_share_pooled": lambda row: row.pooled,
    "win_share_by_item": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.level,
    "interval": lambda row: row.share.method,
    "p_as_in_the_paper": lambda row: row.paper_test.p_value,
    "paper_test": lambda row: row.paper_test.method,
    "p_by_item": lambda row: row.test.p_value,
    "item_test": lambda row: row.test.method,
    "p_holm": lambda row: row.adjusted,
    "family": lambda row: row.family,
    "declared_beforehand": lambda row: row.declared,
    "warnings": lambda row: "; ".join(
        (*row.warnings, *row.share.warnings, *row.paper_test.warnings, *row.test.warnings)
    ),
}

AGREEMENT: dict[str, Callable[[AgreementRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
    "items": lambda row: row.items,
    "raters": lambda row: row.raters,
    "items_rated_twice": lambda row: row.agreement.n,
    "ratings": lambda row: row.agreement.ratings,
    "raw_agreement": lambda row: row.agreement.raw,
    "chance_agreement": lambda row: row.agreement.expected,
    "fleiss_kappa": lambda row: row.agreement.kappa,
    "low": lambda row: row.agreement.low,
    "high": lambda row: row.agreement.high,
    "level": lambda row: row.agreement.level,
    "standard_error": lambda row: row.agreement.standard_error,
    "method": lambda row: row.agreement.method,
    "krippendorff_alpha_ordinal": lambda row: row.alpha.value,
    "alpha_low": lambda row: row.alpha.low,
    "alpha_high": lambda row: row.alpha.high,
    "gwet_ac1": lambda row: row.ac1.value,
    "ac1_low": lambda row: row.ac1.low,
    "ac1_high": lambda row: row.ac1.high,
    "prevalence_paradox": lambda row: row.paradox,
    "undefined_because": lambda row: row.agreement.reason,
    "warnings": lambda row: "; ".join(row.agreement.warnings),
}

SENSITIVITY: dict[str, Callable[[SensitivityRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "method_a": lambda row: row.method_a,
    "method_b": lambda row: row.method_b,
    "criterion": lambda row: row.criterion,
    "analysis": lambda row: row.analysis,
    "win_share": lambda row: row.share,
    "p": lambda row: row.test.p_value,
    "statistic": lambda row: row.test.statistic,
    "n": lambda row: row.test.n,
    "test": lambda row: row.test.method,
    "note": lambda row: row.note,
    "warnings": lambda row: "; ".join(row.test.warnings),
}

RATER: dict[str, Callable[[RaterRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "rater": lambda row: row.rater,
    "pairs": lambda row: row.pairs,
    "verdicts": lambda row: row.verdicts,
    "tie_rate": lambda row: row.ties,
    "agreement_with_others": lambda row: row.agreement,
    "compared": lambda row: row.compared,
    "share_first": lambda row: None if row.first is None else row.first.estimate,
    "first_low": lambda row: None if row.first is None else row.first.low,
    "first_high": lambda row: None if row.first is None else row.first.high,
    "median_seconds": lambda row: row.seconds,
}

AUDITS: dict[str, Callable[[Finding], Cell]] = {
    "severity": lambda row: row.severity,
    "kind": lambda row: row.kind,
    "where": lambda row: row.where,
    "what": lambda row: row.what,
}

POSITION: dict[str, Callable[[PositionRow], Cell]] = {
    "simulated": lambda row: row.rater_kind == "simulated",
    "rater_kind": lambda row: row.rater_kind,
    "criterion": lambda row: row.criterion,
    "for_first": lambda row: row.first,
    "for_second": lambda row: row.second,
    "ties": lambda row: row.ties,
    "share_first": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
    "level": lambda row: row.share.level,
    "interval": lambda row: row.share.method,
    "same_method_first": lambda row: row.a_first,
    "pairs_in_both_orders": lambda row: row.both_orders,
    "flipped": lambda row: row.flipped,
    "warnings": lambda row: "; ".join((*row.warnings, *row.share.warnings)),
}


def full_table(columns: Mapping[str, Callable[[T], Cell]], rows: Iterable[T]) -> Table:
    """Return every column of every row."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Table(columns=tuple(columns), rows=cells, caption="")


def frame_table(frame: pd.DataFrame, *, simulated: pd.Series | bool) -> Table:
    """Return any frame as it stands, with the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")  # this file may be read again
    table.insert(0, "simulated", simulated)
    cells = tuple(tuple(_cell(value) for value in row) for row in table.itertuples(index=False, name=None))
    return Table(columns=tuple(str(name) for name in table.columns), rows=cells, caption="")


def _cell(value: object) -> Cell:
    if value is None or value is pd.NaT or (isinstance(value, float) and value != value):  # noqa: PLR0124  NaN
        return None
    item = value.item() if hasattr(value, "item") else value
    return item if isinstance(item, str | int | float | bool) else str(item)
