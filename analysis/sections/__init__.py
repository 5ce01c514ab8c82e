"""The sections of the report in page order, and the analyses by the name of their CSV file.

To add a section, write one module and list its names here.
"""

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
    "rounds": rounds.summarise_rounds,
    "ranking": ranking.rank_methods,
    "excluded_raters": excluded.list_excluded_raters,
    "with_excluded_raters": excluded.measure_shares_without_exclusions,
    "win_shares": shares.measure_reported_shares,
    "coverage": shares.count_pairs_and_ratings,
    "by_value": by_column.measure_shares_by_column_value,
    "interactions": by_column.run_interaction_tests,
    "equivalence": equivalence.run_equivalence_tests,
    "sequential": sequential.run_sequential_tests,
    "agreement": agreement.measure_agreement,
    "sensitivity": sensitivity.run_alternative_analyses,
    "position": order_and_length.measure_position_effect,
    "length": order_and_length.measure_length_effect,
    "judges": judges.compare_judges_with_people,
    "disagreements": disagreements.list_disagreements,
    "assisted": assisted.measure_assisted_shares,
    "raters": habits.measure_rater_habits,
    "likeness": likeness.measure_likeness_to_judges,
    "audits": audits.run_data_audits,
    "judge_spending": judge_run.list_judge_spending,
    "judge_failures": judge_run.list_judge_failures,
    "judge_models": judge_run.list_answering_models,
    "judge_calibration": judge_run.score_calibration,
    "search": search.list_tried_settings,
    "expected_best": search.list_expected_best_scores,
    "metrics": metrics.list_metric_scores,
}
