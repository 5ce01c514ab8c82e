"""Does the conclusion survive? Each result again, analysed in the other ways that people would choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from analysis.analyses.outcomes.shares import plan_order
from analysis.evidence import CELL_COLUMNS, Evidence, cell_record, estimate_record, frame_of, honours
from analysis.stats.proportion import pooled_binomial
from analysis.verdicts.scores import ResultKey, by_cell, item_scores
from analysis.verdicts.win_share import fixed_share, random_share, weigh_by_precision, without_each_rater
from guard_eval.estimate import Estimate, join_notes, why_no_p
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import plural

FIXED = "exact sign-flip test"
RANDOM = "other raters of the same kind, t test"
PRECISION = "pairs weighed by their precision, sign-flip test"
POOLED = "ratings pooled, binomial on non-ties (the paper's test)"
UNTIED = "ties dropped, sign-flip test"
LEFT_OUT = "one rater left out, the least clear case"
WITH_EXCLUDED = "with the excluded raters"
_FIXED = {"equal": FIXED, "precision": PRECISION}
MAX_LEFT_OUT = 30
"""With more raters none is left out: one of them hardly matters, and each takes an analysis."""


@honours(
    "alpha",
    "weights",
    "raters",
    "panel",
    "composite",
    unaffected=("correction", "margin", "sequential", "assisted_by"),
)
def sensitivity(evidence: Evidence) -> pd.DataFrame:
    """Return every result in every way, the default first; judges are not taken for a sample of raters."""
    included, records = {}, []
    if evidence.context.with_excluded is not None:
        everybody = Evidence.of(evidence.context.with_excluded, evidence.context)
        included = dict(by_cell(everybody.scored.scores))
    for cell, scores in by_cell(evidence.scored.scores):
        is_random = evidence.context.plan.raters == "random" and cell.rater_kind not in PEOPLE_OF
        default = RANDOM if is_random else _FIXED[evidence.context.plan.weights]
        for analysis, share in _alternatives(evidence, cell, scores, included.get(cell)):
            unreachable = "" if share.p is None else why_no_p(share.smallest_p, evidence.alpha)
            records.append(
                cell_record(cell)
                | {
                    "analysis": analysis,
                    "default": analysis == default,
                    **estimate_record(share, "win_share"),
                    "p": None if unreachable else share.p,
                    "method": share.method,
                    "note": join_notes(share.note, unreachable),
                }
            )
    in_plan = plan_order(evidence.context.planned)
    records.sort(key=lambda row: (in_plan(row), not row["default"]))
    return frame_of(records, (*CELL_COLUMNS, "analysis", "default", "win_share", "low", "high", "p"))


def _alternatives(
    evidence: Evidence, cell: ResultKey, scores: pd.DataFrame, with_excluded: pd.DataFrame | None
) -> Iterator[tuple[str, Estimate]]:
    items, level, raters = item_scores(scores), evidence.level, scores["rater"].nunique()
    weighed, is_weighed = weigh_by_precision(items, scores), evidence.context.plan.weights == "precision"
    fixed = fixed_share(items, level=level)
    yield FIXED, fixed
    if is_weighed or items["raters"].min() < items["raters"].max():
        by_precision = fixed_share(weighed, level=level)
        yield PRECISION, by_precision
    several = raters > 1 and cell.rater_kind not in PEOPLE_OF
    if several and is_weighed:
        yield RANDOM, random_share(scores, weighed, by_precision)
    elif several:
        yield RANDOM, random_share(scores, items, fixed)
    wins, losses = int((scores["net"] > 0).sum()), int((scores["net"] < 0).sum())
    share = (wins + (len(scores) - wins - losses) / 2) / len(scores)
    yield POOLED, replace(pooled_binomial(wins, losses), value=share)
    untied = scores[scores["net"] != 0]
    if 0 < len(untied) < len(scores):
        rest = item_scores(untied)
        lost = len(items) - len(rest)
        note = f"{plural(lost, 'pair')} had ties only" if lost else ""
        yield UNTIED, fixed_share(rest, level=level).with_note(note)
    if several and raters <= MAX_LEFT_OUT:
        yield LEFT_OUT, _least_clear(scores, level)
    if with_excluded is not None and set(with_excluded["rater"]) != set(scores["rater"]):
        yield WITH_EXCLUDED, fixed_share(item_scores(with_excluded), level=level)


def _least_clear(scores: pd.DataFrame, level: float) -> Estimate:
    """Return the share without that rater without whom p is largest, and say how far the share moves."""
    cases = list(without_each_rater(scores, level=level))
    values = [share.value or 0.0 for _, share in cases]

    def unclear(case: tuple[str, Estimate]) -> tuple[bool, float, float]:
        p, value = case[1].p, case[1].value or 0.0
        return p is None, p or 0.0, -abs(value - 0.5)

    rater, share = max(cases, key=unclear)
    span = f"without {rater}; over all raters the share lies between {min(values):.3f} and {max(values):.3f}"
    return replace(share, note=join_notes(span, share.note))
