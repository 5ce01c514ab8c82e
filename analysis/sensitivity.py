"""Does the conclusion survive? Each comparison again, analysed in the other ways that people would choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.core.other_tests import majority_sign, signed_rank, tolerated_correlation
from analysis.core.significance import TestResult, binomial, sign_flip
from analysis.scores import CELL, item_scores, rater_scores
from analysis.words import KIND_PLACE

MOST_RATERS = 30
"""Above so many raters none is left out: one of them hardly matters, and each takes an analysis."""

DEFAULT = "item means, sign-flip test (the default)"


@dataclass(frozen=True, kw_only=True, slots=True)
class SensitivityRow:
    """One comparison on one criterion, over all datasets, analysed in one way.

    Attributes:
        method_a: The method whose share is given.
        method_b: The other.
        criterion: The quality judged.
        rater_kind: Who judged.
        analysis: What was done, in words.
        share: Win share of method_a; None where the analysis gives none.
        test: Its test.
        note: What else there is to know.
    """

    method_a: str
    method_b: str
    criterion: str
    rater_kind: str
    analysis: str
    share: float | None
    test: TestResult
    note: str = ""


def sensitivity_rows(frame: pd.DataFrame, *, alpha: float = 0.05) -> tuple[SensitivityRow, ...]:
    """Return every comparison in every way, the default first.

    Args:
        frame: An oriented table of verdicts.
        alpha: Below which p counts as evidence, for the correlation that a pooled test tolerates.
    """
    rows = []
    for key, scores in rater_scores(frame).groupby(CELL, sort=True):
        method_a, method_b, kind, criterion = (str(part) for part in key)
        rows += [
            SensitivityRow(
                method_a=method_a,
                method_b=method_b,
                criterion=criterion,
                rater_kind=kind,
                analysis=analysis,
                share=share,
                test=test,
                note=note,
            )
            for analysis, share, test, note in _ways(scores, alpha)
        ]
    rows.sort(key=lambda row: (KIND_PLACE[row.rater_kind], row.method_a, row.method_b, row.criterion))
    return tuple(rows)


def _ways(scores: pd.DataFrame, alpha: float) -> Iterator[tuple[str, float | None, TestResult, str]]:
    items = item_scores(scores)
    net = items["numerator"] / items["denominator"]
    yield DEFAULT, float(items["share"].mean()), _flip(items), ""
    wins, losses = int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())
    ties = len(scores) - wins - losses
    per_item = len(scores) / len(items)
    tolerated = tolerated_correlation(wins, ties, losses, raters=per_item, alpha=alpha)
    pooled = (wins + ties / 2) / len(scores)
    yield (
        "ratings pooled as in the paper, binomial on non-ties",
        pooled,
        binomial(wins, losses),
        _of(tolerated, alpha),
    )
    majority = majority_sign(net)
    share = majority.statistic / majority.n if majority.n else None
    yield (
        "majority of raters, sign test",
        share,
        majority,
        f"{len(items) - majority.n} items have no majority",
    )
    yield "item means, Wilcoxon signed-rank", None, signed_rank(net), ""
    untied = scores[scores["net"] != 0]
    if len(untied):
        rest = item_scores(untied)
        dropped = len(items) - len(rest)
        note = f"{dropped} items had ties alone" if dropped else ""
        yield "ties dropped, sign-flip test", float(rest["share"].mean()), _flip(rest), note
    yield from _without_one(scores)


def _without_one(scores: pd.DataFrame) -> Iterator[tuple[str, float | None, TestResult, str]]:
    """Leave each rater out in turn; give the one without whom p is largest, and how far the share moves."""
    raters = sorted(scores["rater"].unique())
    if not 2 <= len(raters) <= MOST_RATERS:
        return
    left = []
    for rater in raters:
        items = item_scores(scores[scores["rater"] != rater])
        left.append((float(items["share"].mean()), _flip(items), str(rater)))
    shares = [share for share, _, _ in left]
    share, test, rater = max(
        left, key=lambda one: (one[1].p_value is None, one[1].p_value or 0.0, -abs(one[0] - 0.5))
    )
    note = f"without {rater}; the share lies between {min(shares):.3f} and {max(shares):.3f}"
    yield f"one of {len(raters)} raters left out, the worst case", share, test, note


def _flip(items: pd.DataFrame) -> TestResult:
    return sign_flip(items["numerator"].to_numpy(), items["denominator"].to_numpy())


def _of(tolerated: float | None, alpha: float) -> str:
    if tolerated is None or tolerated >= 1:
        return ""
    return f"below {alpha:g} only while ratings of an item correlate by less than {tolerated:.2f}"
