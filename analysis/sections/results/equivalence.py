"""Is a win share within a declared margin of one half?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from analysis.evidence import SHARE_KEYS, Evidence, declare_plan_keys
from analysis.scores.scores import compute_mean_scores, group_by_result
from analysis.sections.results.shares import (
    ShareRow,
    WinShareRow,
    correct_p_values,
    make_share_cells,
    measure_total_shares,
)
from analysis.sections.section import Section, make_result_labels, make_table_section
from analysis.stats.equivalence import HALF, compute_conservative_standard_error, run_two_one_sided_tests
from guard_eval.errors import StudyError
from guard_eval.estimate import Estimate, Floats
from guard_eval.records import record
from guard_eval.reporting.words import format_percent, join_with_and

Conclusion = Literal["equivalent", "different", "different but negligible", "undecided"]
CONCLUSIONS: dict[tuple[bool, bool], Conclusion] = {
    (False, False): "undecided",
    (False, True): "equivalent",
    (True, False): "different",
    (True, True): "different but negligible",
}
"""The conclusion, by whether the usual test and the equivalence test are significant."""
OTHER_TEST = "with this setting there is no test of equivalence; remove this setting, or remove margin"


@record
class EquivalenceRow(ShareRow):
    """A test whether the share of one result lies within the margin.

    Attributes:
        margin: The largest distance from one half that does not matter.
        level: 1 − 2α, the level at which the interval agrees with the two one-sided tests.
        differs: Whether the usual test of this result finds a difference.
        conclusion: The conclusion from the equivalence test and the usual test. A significant difference can
            be too small to matter.
    """

    margin: float
    level: float
    differs: bool
    conclusion: Conclusion = "undecided"

    @property
    def is_equivalent(self) -> bool:
        """Return whether the share is shown to lie within the margin."""
        return self.conclusion in {"equivalent", "different but negligible"}


@declare_plan_keys(
    *SHARE_KEYS,
    "margin",
    refuses={"sequential": OTHER_TEST, "assisted_by": OTHER_TEST},
    needs=lambda evidence: evidence.plan.margin,
)
def run_equivalence_tests(evidence: Evidence) -> list[EquivalenceRow]:
    """Test for every result over all datasets whether its share lies within the margin.

    The estimate and its degrees of freedom are those of the share's t interval. The error is at least as
    large as that of a share beyond the margin (`compute_conservative_standard_error`). The p-values are
    corrected as a separate family, because a share cannot be one half and also lie beyond the margin.

    Raises:
        StudyError: The error rate is too large, or another test was declared.
    """
    margin = evidence.plan.margin
    alpha = evidence.plan.alpha
    if margin is None:  # for mypy: without a margin there are no rows
        return []
    if alpha >= HALF:
        raise StudyError(f"alpha = {alpha:g}: a test of equivalence needs an alpha below 0.5, such as 0.05")
    ratings = dict(group_by_result(evidence.scored.scores))
    rows = [
        _run_equivalence_test(row, compute_mean_scores(ratings[row.key]).to_numpy(dtype=float), margin, alpha)
        for row in evidence.rows(measure_total_shares)
    ]
    return [
        replace(row, conclusion=CONCLUSIONS[row.differs, row.is_significant(alpha)])
        for row in correct_p_values(rows, evidence)
    ]


def _run_equivalence_test(row: WinShareRow, scores: Floats, margin: float, alpha: float) -> EquivalenceRow:
    """Run the equivalence test of one result from the scores of its ratings. The p is not yet corrected."""
    value = row.win_share.value
    share = Estimate(value=value, level=1 - 2 * alpha)
    p = None
    note = row.note or "the share has no standard error"
    if value is not None and row.standard_error is not None and row.df is not None:
        error = compute_conservative_standard_error(row.standard_error, scores, row.units, margin=margin)
        share = share.add_t_interval_and_test(error, row.df, bounds=(0.0, 1.0))
        p = run_two_one_sided_tests(value, error, row.df, margin=margin)
        note = ""
    return EquivalenceRow(
        *row.key,
        margin=margin,
        win_share=share,
        level=share.level,
        differs=row.is_significant(alpha),
        p=p,
        note=note,
    )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Is the difference too small to matter?"."""
    return make_table_section(
        evidence.rows(run_equivalence_tests),
        lambda row: {**make_result_labels(row), "Conclusion": row.conclusion},
        lambda row: {
            "Margin": format_percent(row.margin),
            **make_share_cells(row, evidence.plan.alpha, p_heading="p of equivalence"),
        },
        csv_name="equivalence",
        caption="Is the share within the margin around 50 %?",
        question="Is the difference too small to matter?",
        answer=_answer_question,
        notes=("Two one-sided t tests (Schuirmann 1987). Undecided means that neither is shown.",),
    )


def _answer_question(rows: Sequence[EquivalenceRow]) -> str:
    """Answer the section's question: count the results with each conclusion."""
    counts = Counter(row.conclusion for row in rows)
    return join_with_and(f"{count} {conclusion}" for conclusion, count in counts.most_common())
