"""Select the results for the report's answer, with the declared test."""

from collections.abc import Iterator
from dataclasses import replace

from analysis.evidence import SHARE_KEYS, Evidence, declare_plan_keys
from analysis.scores.scores import ResultKey
from analysis.sections.results.assisted import AssistedRow, measure_assisted_shares
from analysis.sections.results.rounds import RoundsRow, summarise_rounds
from analysis.sections.results.sequential import SequentialRow, run_sequential_tests
from analysis.sections.results.shares import WinShareRow, measure_total_shares
from guard_eval.estimate import Estimate, join_notes


@declare_plan_keys(*SHARE_KEYS, "sequential", "assisted_by")
def select_rows_for_report_answer(evidence: Evidence) -> Iterator[WinShareRow]:
    """Yield the win shares over all datasets for the report's answer, with the test that the plan declares.

    The plan may declare shares assisted by a judge, sequential tests, rounds, or the usual sign-flip test.
    """
    rows = evidence.rows(measure_total_shares)
    declared: dict[ResultKey, tuple[Estimate, SequentialRow | AssistedRow | RoundsRow]] = {}
    shares = {row.key: row.win_share for row in rows}
    if evidence.plan.sequential:
        declared = {row.key: (row.win_share, row) for row in evidence.rows(run_sequential_tests)}
    elif evidence.plan.assisted_by is not None:
        declared = {
            row.key.of_people: (row.people_assisted, row)
            for row in evidence.rows(measure_assisted_shares)
            if row.judge == evidence.plan.assisted_by and row.people_assisted.value is not None
        }
    elif evidence.has_early_stopping:
        declared = {
            row.key: (shares[row.key], row) for row in evidence.rows(summarise_rounds) if row.key in shares
        }
    for row in rows:
        if row.key not in declared:
            yield row
            continue
        share, test = declared[row.key]
        # The declared test has no smallest possible p.
        yield replace(
            row,
            win_share=share,
            p=test.p,
            p_adjusted=test.p_adjusted,
            family=test.family,
            method=test.method,
            smallest_p=0.0,
            note=test.note if evidence.plan.sequential else join_notes(row.note, test.note),
        )
