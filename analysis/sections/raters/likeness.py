"""Did models answer for people? Agreement with each judge, and the events that the app counted."""

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.likeness import (
    BY_TASTE,
    JudgeLikeness,
    describe_signs_of_llm_use,
    make_judge_likeness_rows,
)
from analysis.scores.scores import convert_scores_to_labels
from analysis.sections.section import Section, make_table_of_first_rows, remove_word_simulated
from guard_eval.records import PEOPLE_OF
from guard_eval.reporting.words import capitalise, find_criterion_title, format_p, format_percent

ITEM = ["method_a", "method_b", "dataset", "pair_id"]


@declare_plan_keys(needs=lambda evidence: evidence.are_raters_known)
def measure_likeness_to_judges(evidence: Evidence) -> list[JudgeLikeness]:
    """Return each person's agreement with each judge, the least probable first."""
    scores = evidence.scored.rater_scores
    labels = scores[["rater", "rater_kind", "criterion"]].assign(
        item=scores.groupby(ITEM, observed=True).ngroup(), label=convert_scores_to_labels(scores)
    )
    rows = [
        row
        for judges, kind in PEOPLE_OF.items()
        for row in make_judge_likeness_rows(
            kind, labels[labels["rater_kind"] == kind], labels[labels["rater_kind"] == judges]
        )
    ]
    return sorted(rows, key=lambda row: row.p)


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Did models answer for people?"."""
    rows = evidence.rows(measure_likeness_to_judges)
    signs = describe_signs_of_llm_use(rows, evidence.context.conduct)
    if not rows and not signs:
        return None
    table = make_table_of_first_rows(
        rows,
        lambda row: {
            "Rater": remove_word_simulated(row.rater),
            "Judge": remove_word_simulated(row.judge),
            "Criterion": capitalise(find_criterion_title(row.criterion)),
        },
        lambda row: {
            "Pairs": row.pairs,
            "Same": format_percent(row.same / row.pairs, 0),
            "Expected": format_percent(row.expected, 0),
            "p": format_p(row.p_adjusted),
        },
        csv_name="likeness",
        caption="People's agreement with judges",
        note="Expected: how often other people say what the judge says. p is corrected for all rows.",
    )
    return Section(
        anchor="likeness",
        question="Did models answer for people?",
        answer=f"{len(signs)} to look at" if signs else "No sign of it",
        notes=(*(f"{remove_word_simulated(name)}: {what}." for name, what in signs.items()), BY_TASTE),
        tables=table,
    )
