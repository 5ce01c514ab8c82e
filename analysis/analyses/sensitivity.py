"""Does the conclusion survive? Each result again, analysed in the other ways that people would choose."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.analyses.evidence import CELL_COLUMNS, Evidence, cell_record, frame_of
from analysis.analyses.shares import plan_order
from analysis.analyses.win_share import fixed_share, pooled_binomial, random_share, without_each_rater
from analysis.verdicts.scores import Cell, by_cell, item_scores
from guard_eval.estimate import Estimate, why_no_p
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import plural

FIXED = "sign-flip test over prompts"
RANDOM = "other raters of the same kind, t test"
POOLED = "ratings pooled, binomial on non-ties (the paper's test)"
UNTIED = "ties dropped, sign-flip test"
LEFT_OUT = "one rater left out, the least clear case"
WITH_EXCLUDED = "with the excluded raters"
MAX_LEFT_OUT = 30
"""With more raters none is left out: one of them hardly matters, and each takes an analysis."""


def sensitivity(evidence: Evidence) -> pd.DataFrame:
    """Return every result in every way, the default first; judges are not taken for a sample of raters."""
    cells = list(by_cell(evidence.scored.scores))
    included = {}
    if evidence.context.with_excluded is not None:
        everybody = Evidence.of(evidence.context.with_excluded, evidence.context)
        included = dict(by_cell(everybody.scored.scores))
    records = []
    for cell, scores in cells:
        default = (
            RANDOM if evidence.context.raters == "random" and cell.rater_kind not in PEOPLE_OF else FIXED
        )
        for analysis, found, note in _alternatives(evidence, cell, scores, included.get(cell)):
            unreachable = found.p is not None and why_no_p(found.smallest_p, evidence.alpha)
            records.append(
                cell_record(cell)
                | {
                    "analysis": analysis,
                    "default": analysis == default,
                    "win_share": found.value,
                    "low": found.low,
                    "high": found.high,
                    "p": None if unreachable else found.p,
                    "method": found.method,
                    "note": "; ".join(filter(None, (note, unreachable or "", found.note))),
                }
            )
    in_plan = plan_order(evidence.context.planned)
    records.sort(key=lambda row: (in_plan(row), not row["default"]))
    return frame_of(records, (*CELL_COLUMNS, "analysis", "default", "win_share", "low", "high", "p"))


def _alternatives(
    evidence: Evidence, cell: Cell, scores: pd.DataFrame, with_excluded: pd.DataFrame | None
) -> list[tuple[str, Estimate, str]]:
    items, level = item_scores(scores), evidence.level
    fixed, raters = fixed_share(items, level=level), scores["rater"].nunique()
    out = [(FIXED, fixed, "")]
    several = raters > 1 and cell.rater_kind not in PEOPLE_OF
    if several:
        out.append((RANDOM, random_share(scores, fixed), ""))
    wins, losses = int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())
    pooled = pooled_binomial(wins, losses)
    share = (wins + (len(scores) - wins - losses) / 2) / len(scores)
    out.append((POOLED, _with_value(pooled, share), ""))
    untied = scores[scores["net"] != 0]
    if 0 < len(untied) < len(scores):
        rest = item_scores(untied)
        lost = len(items) - len(rest)
        note = f"{plural(lost, 'pair')} had ties only" if lost else ""
        out.append((UNTIED, fixed_share(rest, level=level), note))
    if several and raters <= MAX_LEFT_OUT:
        out.append(_least_clear(scores))
    if with_excluded is not None and set(with_excluded["rater"]) != set(scores["rater"]):
        out.append((WITH_EXCLUDED, fixed_share(item_scores(with_excluded), level=level), ""))
    return out


def _with_value(found: Estimate, value: float) -> Estimate:
    return Estimate(
        value=value, p=found.p, n=found.n, unit=found.unit, method=found.method, note=found.note,
        smallest_p=found.smallest_p,
    )  # fmt: skip


def _least_clear(scores: pd.DataFrame) -> tuple[str, Estimate, str]:
    """Return the result without that rater without whom p is largest, and how far the share moves."""
    cases = without_each_rater(scores)

    def unclear(case: tuple[str, float, Estimate]) -> Any:  # noqa: ANN401  a sort key
        return case[2].p is None, case[2].p or 0.0, -abs(case[1] - 0.5)

    rater, share, test = max(cases, key=unclear)
    values = [value for _, value, _ in cases]
    note = f"without {rater}; over all raters the share lies between {min(values):.3f} and {max(values):.3f}"
    return LEFT_OUT, _with_value(test, share), note
