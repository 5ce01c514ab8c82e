"""The sections of the report in page order, and the analyses by the name of their CSV file.

To add a section, write one module and list its names here.
"""

from __future__ import annotations

from collections.abc import Callable

from analysis.evidence import Evidence
from analysis.sections import metrics, search
from analysis.sections.raters import (
    agreement,
    audits,
    disagreements,
    excluded,
    habits,
    judge_run,
    judges,
    likeness,
    order_and_length,
)
from analysis.sections.results import (
    assisted,
    by_column,
    equivalence,
    ranking,
    rounds,
    sensitivity,
    sequential,
    shares,
)
from analysis.sections.section import Analyse, Section

SECTIONS: tuple[Callable[[Evidence], Section | None], ...] = (
    rounds.make_section,
    ranking.make_section,
    excluded.make_section,
    shares.make_section,
    by_column.make_section,
    equivalence.make_section,
    sequential.make_section,
    agreement.make_section,
    sensitivity.make_section,
    sensitivity.make_section_on_other_raters,
    order_and_length.make_section,
    judges.make_section,
    disagreements.make_section,
    assisted.make_section,
    habits.make_section,
    likeness.make_section,
    audits.make_section,
    judge_run.make_section,
    search.make_section,
    metrics.make_section,
)
ANALYSES: dict[str, Analyse] = {
    "rounds": rounds.rounds,
    "ranking": ranking.ranking,
    "excluded_raters": excluded.excluded_raters,
    "with_excluded_raters": excluded.with_excluded_raters,
    "win_shares": shares.win_shares,
    "coverage": shares.coverage,
    "by_value": by_column.by_value,
    "interactions": by_column.interactions,
    "equivalence": equivalence.equivalence,
    "sequential": sequential.sequential,
    "agreement": agreement.agreement,
    "sensitivity": sensitivity.sensitivity,
    "position": order_and_length.position,
    "length": order_and_length.length,
    "judges": judges.judges,
    "disagreements": disagreements.disagreements,
    "assisted": assisted.assisted,
    "raters": habits.raters,
    "likeness": likeness.likeness,
    "audits": audits.audits,
    "judge_spending": judge_run.spending,
    "judge_failures": judge_run.failures,
    "judge_models": judge_run.models,
    "judge_calibration": judge_run.calibration,
    "search": search.search,
    "expected_best": search.expected_best,
    "metrics": metrics.metrics,
}
