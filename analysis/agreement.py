"""Agreement between raters of one kind, per comparison and criterion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.core.agreement import Agreement, fleiss
from analysis.scores import CELL, rater_scores
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


def agreement_rows(frame: pd.DataFrame, *, alpha: float = 0.05) -> tuple[AgreementRow, ...]:
    """Return raw agreement and Fleiss' κ of an oriented table; a rater has one score per pair."""
    scores = rater_scores(frame)
    scores["category"] = np.sign(scores["net"])
    rows = []
    for key, cell in scores.groupby(CELL, sort=True):
        method_a, method_b, kind, criterion = (str(part) for part in key)
        counts = pd.crosstab(cell["pair_id"], cell["category"]).reindex(columns=[1, 0, -1], fill_value=0)
        rows.append(
            AgreementRow(
                method_a=method_a,
                method_b=method_b,
                criterion=criterion,
                rater_kind=kind,
                items=len(counts),
                raters=int(cell["rater"].nunique()),
                agreement=fleiss(counts.to_numpy(), level=1 - alpha),
            )
        )
    return tuple(
        sorted(rows, key=lambda row: (KIND_PLACE[row.rater_kind], row.method_a, row.method_b, row.criterion))
    )
