"""Agreement between raters of one kind, per comparison and criterion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.core.agreement import Agreement, fleiss
from analysis.core.agreement_alpha import krippendorff
from analysis.core.agreement_coefficients import Coefficient, gwet
from analysis.core.patterns import from_counts
from analysis.scores import CELL, item_numbers, rater_scores
from analysis.words import KIND_PLACE


@dataclass(frozen=True, kw_only=True, slots=True)
class AgreementRow:
    """How far raters of one kind agree on which continuation is better (method_a, tie, method_b).

    `items` and `raters` count all that were judged; `agreement.n` only pairs that were rated at least twice.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str
    items: int
    raters: int
    agreement: Agreement
    alpha: Coefficient
    ac1: Coefficient

    @property
    def paradox(self) -> bool:
        """Return whether raters mostly agree and κ is low because one verdict dominates (Feinstein 1990)."""
        kappa, ac1, raw = self.agreement.kappa, self.ac1.value, self.agreement.raw
        return kappa is not None and ac1 is not None and raw is not None and raw >= 0.7 and ac1 - kappa > 0.3


def agreement_rows(frame: pd.DataFrame, *, alpha: float = 0.05) -> tuple[AgreementRow, ...]:
    """Return raw agreement, Fleiss' κ, Krippendorff's ordinal α and Gwet's AC1 of an oriented table.

    A rater has one score per pair.
    """
    scores = rater_scores(frame)
    rows = []
    for key, cell in scores.groupby(CELL, sort=True):
        method_a, method_b, kind, criterion = (str(part) for part in key)
        counts = _counts(cell)
        patterns = from_counts(counts)
        rows.append(
            AgreementRow(
                method_a=method_a,
                method_b=method_b,
                criterion=criterion,
                rater_kind=kind,
                items=len(counts),
                raters=int(cell["rater"].nunique()),
                agreement=fleiss(patterns, level=1 - alpha),
                alpha=krippendorff(patterns, metric="ordinal", level=1 - alpha),
                ac1=gwet(patterns, level=1 - alpha),
            )
        )
    return tuple(
        sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.method_a, row.method_b, row.criterion))
    )


def _counts(cell: pd.DataFrame) -> NDArray[np.int64]:
    """Return how many raters of each item are for method_a, for neither and for method_b, [items, 3]."""
    item, first = item_numbers(cell)
    category = 1 - np.sign(cell["net"].to_numpy())
    return np.bincount(3 * item + category, minlength=3 * len(first)).reshape(-1, 3)
