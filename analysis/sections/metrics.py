"""The scores of the texts by automatic metrics; `guard-eval measure` computes them."""

from collections.abc import Sequence

from analysis.evidence import ALL, Evidence, declare_plan_keys
from analysis.sections.section import Section, format_coefficient, make_labelled_table
from guard_eval.estimate import Estimate
from guard_eval.metrics.scores import METRICS, Score
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.words import join_with_and

METRICS_PER_TABLE = 4
MAX_NAMED = 2
"""The largest number of metrics that the section's answer names."""


@declare_plan_keys()
def list_metric_scores(evidence: Evidence) -> Sequence[Score]:
    """Return the measured scores, over all datasets and in each dataset."""
    return evidence.context.metrics


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "What do automatic metrics say?" from the scores over all datasets."""
    rows = evidence.rows(list_metric_scores)
    rows = [row for row in rows if row.dataset == ALL] or rows
    if not rows:
        return None
    cells = {
        (row.strategy, METRICS[row.metric].title): format_coefficient(
            Estimate(value=row.value, low=row.low, high=row.high)
        )
        for row in rows
    }
    metrics = dict.fromkeys(METRICS[row.metric] for row in rows)
    meanings = {metric.title: metric.meaning for metric in metrics}
    titles = list(meanings)
    strategies = list(dict.fromkeys(row.strategy for row in rows))
    tables = [
        make_labelled_table(
            [{"Strategy": strategy} for strategy in strategies],
            [
                {title: cells.get((strategy, title), NOTHING) for title in titles[start:][:METRICS_PER_TABLE]}
                for strategy in strategies
            ],
            caption="More metrics" if start else "Automatic metrics",
        )
        for start in range(0, len(titles), METRICS_PER_TABLE)
    ]
    compared = [method for method in evidence.comparisons[0] if method in strategies]
    return Section(
        anchor="metrics",
        question="What do automatic metrics say?",
        answer=_answer_question(cells, titles[:MAX_NAMED], compared),
        notes=tuple(f"{title}: {meaning}" for title, meaning in meanings.items()),
        tables=tuple(tables),
    )


def _answer_question(cells: dict[tuple[str, str], str], titles: Sequence[str], methods: Sequence[str]) -> str:
    """Answer the section's question: list the metric scores of the compared methods."""
    scores = [
        f"{title} {join_with_and(f'{cells[method, title].split()[0]} ({method})' for method in methods)}"
        for title in titles
        if methods and all((method, title) in cells for method in methods)
    ]
    return "; ".join(scores) or "See the tables"
