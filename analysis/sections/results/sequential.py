"""Tests and intervals that stay valid if results are viewed before all verdicts are in."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import (
    CELL,
    ResultKey,
    ScoredVerdicts,
    UnitScores,
    add_judge_column,
    group_by_result,
)
from analysis.sections.results.shares import ShareRow, correct_p_values, make_plan_sort_key, make_share_cells
from analysis.sections.section import Section, make_result_labels, make_table_section
from analysis.stats.sequential import run_anytime_test
from guard_eval.estimate import join_notes
from guard_eval.records import record
from guard_eval.reporting.words import count_in_words, format_number
from guard_eval.rubric import COMPOSITE

UNEQUAL = (
    "items have different numbers of raters; the test holds if none was looked at before its last verdict"
)


@record
class SequentialRow(ShareRow):
    """The win share of one result, with limits and a p that stay valid at all times together.

    Attributes:
        unit: The unit that the test treats as independent: `prompt` or `pair`.
        units: The number of complete units.
        waiting: The number of items that wait for another rating.
        log_e_value: The evidence against a share of one half.
        reached_after: The number of units after which the test first rejected; None if it did not reject.
        method: The test.
    """

    unit: str
    units: int
    waiting: int
    log_e_value: float
    reached_after: int | None
    method: str


@declare_plan_keys("alpha", "correction", "sequential", "panel", "composite")
def run_sequential_tests(evidence: Evidence) -> list[SequentialRow]:
    """Return a row per comparison and criterion, for people and for each judge.

    Items are in the order of their last verdict (column `at`). If any verdict of a comparison has no time,
    the items are in the order of the table's rows. An item counts only after all its raters have rated it,
    so that no item counts twice if results are viewed twice.
    """
    if not evidence.plan.sequential:
        return []
    scored = evidence.scored
    items = scored.items.merge(_find_last_verdict_times(scored), on=[*CELL, "pair_id"], validate="one_to_one")
    rows = [_run_sequential_test(evidence, key, group) for key, group in group_by_result(items)]
    rows.sort(key=make_plan_sort_key(evidence))
    return correct_p_values(rows, evidence, further_tests=len(evidence.context.by))


def _find_last_verdict_times(scored: ScoredVerdicts) -> pd.DataFrame:
    """Return the row and, if all verdicts have times, the time of the last verdict on each item.

    A panel's verdict has the time of its last judge, and a composite has the time of its last criterion.
    """
    frame = add_judge_column(scored.frame)
    frame = pd.concat(
        [frame, *(panel.select_member_verdicts(frame).assign(judge=panel.name) for panel in scored.panels)]
    )
    if scored.composite is not None:
        group = frame[frame["criterion"].isin(scored.composite)]
        frame = pd.concat([frame, group.assign(criterion=COMPOSITE)])
    unknown = pd.Series(pd.NaT, frame.index)
    times = pd.to_datetime(frame.get("at", unknown), utc=True, format="ISO8601", errors="coerce")
    moments = frame[[*CELL, "pair_id"]].assign(time=times, row=frame.index, timed=times.notna())
    groups = moments.groupby([*CELL, "pair_id"], sort=True)
    return groups.agg({"time": "max", "row": "max", "timed": "all"}).reset_index()


def _run_sequential_test(evidence: Evidence, key: ResultKey, items: pd.DataFrame) -> SequentialRow:
    """Run the sequential test of one result. An item counts only after all its raters have rated it."""
    wait = evidence.context.raters_per_item.get(key.rater_kind)
    by_unit = UnitScores.from_items(items)
    is_waiting = (items["raters"] < (wait or 0)).to_numpy()
    # A prompt counts once: at the time of its last pair, after all its pairs are rated.
    unit_waits = by_unit.sum_columns(is_waiting)[:, 0] > 0
    complete = items[~unit_waits[by_unit.codes]]
    is_timed = bool(items["timed"].all())
    moment = "time" if is_timed else "row"
    is_pair = by_unit.n == len(items)
    complete = complete.assign(last=complete.groupby("unit")[moment].transform("max"))
    ordered = complete.sort_values(["last", "unit", moment, "pair_id"], kind="stable")
    scores = 2 * ordered["share"].to_numpy(dtype=float) - 1
    sums = UnitScores.from_items(ordered).sum_columns(scores, np.ones(len(scores)))
    test = run_anytime_test(sums[:, 0], sizes=None if is_pair else sums[:, 1], alpha=evidence.plan.alpha)
    notes = (
        "" if is_timed else "no time is known: the test holds if items came in the order of the table",
        UNEQUAL if not wait and len(set(complete["raters"])) > 1 else "",
        "every item waits for another rating" if complete.empty else test.share.note,
    )
    return SequentialRow(
        *key,
        unit=by_unit.name,
        units=test.share.n,
        waiting=len(items) - len(complete),
        win_share=test.share,
        p=test.share.p,
        log_e_value=float(test.log_e[-1]) if len(test.log_e) else 0.0,
        reached_after=test.crossed,
        method=test.share.method,
        note=join_notes(*notes),
    )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "May we stop now?"."""
    return make_table_section(
        evidence.rows(run_sequential_tests),
        make_result_labels,
        lambda row: {
            "Prompts": row.units,
            "Waiting": row.waiting,
            "Evidence (log e)": format_number(row.log_e_value, 1),
            "Reached after": row.reached_after,
            **make_share_cells(row, evidence.plan.alpha),
        },
        csv_name="sequential",
        caption="Tests that hold whenever one looks",
        question="May we stop now?",
        answer=_answer_question,
        notes=("An e-value above 1/α at any time rejects; the interval holds at all times together.",),
    )


def _answer_question(rows: Sequence[SequentialRow]) -> str:
    """Answer the section's question: count the results whose evidence has reached the error rate."""
    reached = sum(row.reached_after is not None for row in rows)
    return f"{reached} of {count_in_words(len(rows), 'result')} reached the declared error rate"
