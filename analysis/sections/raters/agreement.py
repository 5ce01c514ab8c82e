"""Agreement of raters of one kind: raw agreement, Fleiss' κ, Krippendorff's α, Gwet's AC1 and ICC(1)."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.scores import (
    ResultKey,
    ScoredVerdicts,
    UnitScores,
    compute_mean_scores,
    count_verdicts_by_item,
    find_item_numbers,
    group_by_result,
)
from analysis.sections.section import (
    ComparisonRow,
    Section,
    format_coefficient,
    make_result_labels,
    make_table_section,
    select_first_notes,
    select_rows_for_answer,
)
from analysis.stats.agreement import (
    fleiss_kappa,
    gwet_ac1,
    intraclass_correlation,
    krippendorff_alpha,
    raw_agreement,
)
from guard_eval.estimate import Estimate, join_notes
from guard_eval.records import TIE, record
from guard_eval.reporting.words import format_number, format_percent

LANDIS_KOCH = (
    (0.8, "Almost perfectly"),
    (0.6, "Well"),
    (0.4, "Moderately"),
    (0.2, "Weakly"),
    (-np.inf, "Hardly"),
)
"""Words for κ by the lowest κ that they describe (Landis and Koch 1977)."""
HIGH_RAW = 0.7
KAPPA_GAP = 0.3
"""κ is low only because one verdict dominates if raw agreement is at least .7 and AC1 − κ is above .3."""
DOMINATED = "; one verdict dominates, so κ is low although raters mostly agree (see AC1)"
DESIGN_EFFECT = (
    "Design effect: n ratings of the same pairs are worth n / (design effect) independent ratings."
)


@record
class AgreementRow(ComparisonRow):
    """Agreement between raters of one kind on one result. Judges are compared with each other.

    Attributes:
        raters: The number of raters.
        pairs: The number of pairs.
        pairs_rated_twice: The number of pairs with two ratings or more.
        ratings: The number of ratings.
        unit: The unit that the intervals treat as independent: `prompt` or `pair`.
        units: The number of units.
        categories: The number of choices that raters had.
        raw_agreement: The probability that two ratings of a pair agree.
        fleiss_kappa, krippendorff_alpha_ordinal, gwet_ac1, icc1: The coefficients.
        design_effect: n ratings are worth n / (design effect) independent ratings.
        level: The confidence level.
        note: The reason why a coefficient or its interval is missing.
    """

    raters: int
    pairs: int
    pairs_rated_twice: int
    ratings: int
    unit: str
    units: int
    categories: int
    raw_agreement: float | None
    fleiss_kappa: Annotated[Estimate, "kappa_"]
    krippendorff_alpha_ordinal: Annotated[Estimate, "alpha_"]
    gwet_ac1: Annotated[Estimate, "ac1_"]
    icc1: Annotated[Estimate, "icc1_"]
    design_effect: float | None
    level: float
    note: str

    @property
    def is_kappa_misleading(self) -> bool:
        """Return whether κ is low only because one verdict dominates."""
        kappa, ac1 = self.fleiss_kappa.value, self.gwet_ac1.value
        if self.raw_agreement is None or kappa is None or ac1 is None:
            return False
        return self.raw_agreement >= HIGH_RAW and ac1 - kappa > KAPPA_GAP


@declare_plan_keys("alpha")
def measure_agreement(evidence: Evidence) -> list[AgreementRow]:
    """Measure the agreement between raters of one kind: a row per comparison and criterion.

    A kind with only one rater has no row. Judges are compared with each other, never with people.
    """
    detailed = evidence.detailed_verdicts
    choices = count_possible_choices(detailed, are_ties_possible=evidence.context.ties)
    return [
        _make_agreement_row(key, scores, choices, evidence.plan.level)
        for key, scores in group_by_result(detailed.scores_by_kind)
        if len(scores["rater"].unique()) > 1
    ]


def _make_agreement_row(
    key: ResultKey, scores: pd.DataFrame, choice_count: int, level: float
) -> AgreementRow:
    """Return the agreement of raters on one comparison and criterion."""
    item, first = find_item_numbers(scores)
    by_unit = UnitScores.from_items(scores.iloc[first])
    counts = count_verdicts_by_item(scores)
    kappa = fleiss_kappa(counts, by_unit.codes, level=level)
    alpha = krippendorff_alpha(counts, by_unit.codes, level=level)
    icc = intraclass_correlation(item, compute_mean_scores(scores), by_unit.codes, level=level)
    per_item = len(scores) / len(first)
    return AgreementRow(
        *key,
        raters=int(scores["rater"].nunique()),
        pairs=len(first),
        pairs_rated_twice=int((counts.sum(axis=1) >= 2).sum()),
        ratings=len(scores),
        unit=by_unit.name,
        units=by_unit.n,
        categories=choice_count,
        raw_agreement=raw_agreement(counts),
        fleiss_kappa=kappa,
        krippendorff_alpha_ordinal=alpha,
        gwet_ac1=gwet_ac1(counts, by_unit.codes, categories=choice_count, level=level),
        icc1=icc,
        design_effect=None if icc.value is None else 1 + (per_item - 1) * icc.value,
        level=level,
        note=join_notes(*dict.fromkeys((kappa.note, alpha.note, icc.note))),
    )


def count_possible_choices(verdicts: ScoredVerdicts, *, are_ties_possible: bool | None) -> int:
    """Return the number of choices that raters had: two if ties are neither declared nor in the table.

    A judge whose verdict changes with the order of the texts counts as a tie.
    """
    if are_ties_possible is None:
        are_ties_possible = bool((verdicts.frame["verdict"] == TIE).any())
    return 3 if are_ties_possible or (verdicts.scores["net"] == 0).any() else 2


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Do raters agree with each other?"."""
    rows = evidence.rows(measure_agreement)
    return make_table_section(
        rows,
        make_result_labels,
        lambda row: {
            "Raw": format_percent(row.raw_agreement, 0),
            "Fleiss' κ": format_coefficient(row.fleiss_kappa),
            "α, ordinal": format_coefficient(row.krippendorff_alpha_ordinal),
            "AC1": format_number(row.gwet_ac1.value),
            "Choices": row.categories,
            "ICC(1)": format_number(row.icc1.value),
            "Design effect": format_number(row.design_effect, 1),
        },
        csv_name="agreement",
        caption="Agreement between raters of one kind",
        question="Do raters agree with each other?",
        answer=_answer_question,
        notes=(DESIGN_EFFECT, *select_first_notes(row.note for row in rows)),
    )


def _answer_question(rows: Sequence[AgreementRow]) -> str:
    """Answer the section's question: describe the range of κ in words, and say if one verdict dominates."""
    people = select_rows_for_answer(rows)
    kappas = [row.fleiss_kappa for row in people if row.fleiss_kappa.value is not None]
    if not kappas:
        return "Undefined: see the table"
    kappas.sort(key=lambda kappa: kappa.value or 0.0)
    lowest, highest = (format_number(kappa.value) for kappa in (kappas[0], kappas[-1]))
    word = next(word for least, word in LANDIS_KOCH if (kappas[0].value or 0.0) >= least)
    kappa = format_coefficient(kappas[0]) if lowest == highest else f"{lowest} to {highest}"
    why = DOMINATED if 2 * sum(row.is_kappa_misleading for row in people) > len(people) else ""
    return f"{word}: κ = {kappa}{why}"
