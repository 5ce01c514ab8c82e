"""The runs of judges: tokens, money, failures, models that answered, and calibration."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np

from analysis.evidence import Evidence, FailureRow, ModelRow, SpendingRow, declare_plan_keys
from analysis.sections.section import (
    Section,
    format_share,
    group_by,
    make_table_of_first_rows,
)
from analysis.stats.proportion import estimate_proportion
from guard_eval.estimate import Estimate
from guard_eval.records import record
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.words import count_in_words, find_criterion_title, join_with_and
from guard_eval.servers.price import format_usd

CALIBRATED = {
    "identical": "called a text and itself similar in",
    "shuffled": "preferred a text to its own words in disorder in",
    "swapped": "gave one verdict on both orders of a pair in",
    "padded": "preferred a text with filler to the same text without it in",
}
"""For each calibration check, a phrase for the counted behaviour. The behaviour of `padded` is a fault, and a
judge fails if it occurs in more than half of the pairs. A judge fails the other checks with half or fewer."""
MAX_REASON = 160
"""The largest number of characters of a reason in a cell. A reason may be a long message of a server."""
FAILURES = {
    "refusal": "the model declined",
    "content_filter": "the server withheld the answer, or refused the texts",
    "truncated": "the answer ended at the token limit",
    "unparseable": "the answer was no verdict, three times",
    "wrong_schema": "a criterion was missing or had no choice, three times",
    "unreadable": "the server's answer was none, three times",
    "too_long": "the texts do not fit the model's context",
    "rejected": "the server did not take the request",
    "rate_limited": "the server was too busy, to the end",
    "server_error": "the server failed, to the end",
    "timeout": "no answer in time",
    "transport": "no whole answer came, to the end",
}
"""The meaning of each kind of failure."""


@record
class CalibrationRow:
    """Results of one judge on pairs with a known answer, in one check on one criterion.

    Attributes:
        judge: The judge's name.
        check: The check.
        criterion: The criterion.
        items: The number of items that were answered in every order.
        missing: The number of other items, which do not count.
        hits: The number of items with the outcome of the check: identical texts tie in every order; the
            intact text is preferred to its shuffled words; a swapped pair has the same verdict in both
            orders; the padded text is preferred.
        opposite: The number of items with the opposite outcome.
        share: The share of hits.
    """

    judge: str
    check: str
    criterion: str
    items: int
    missing: int
    hits: int
    opposite: int
    share: Annotated[Estimate, ""]


@declare_plan_keys()
def list_judge_spending(evidence: Evidence) -> Sequence[SpendingRow]:
    """Return the tokens and the cost of each judge."""
    return evidence.context.judging.spent


@declare_plan_keys()
def list_judge_failures(evidence: Evidence) -> Sequence[FailureRow]:
    """Count the missing verdicts of each judge by kind and reason, the most frequent first."""
    return evidence.context.judging.failed


@declare_plan_keys()
def list_answering_models(evidence: Evidence) -> Sequence[ModelRow]:
    """Return the models that answered each judge's requests. Each judge should have only one."""
    return evidence.context.judging.seen


@declare_plan_keys("alpha")
def score_calibration(evidence: Evidence) -> list[CalibrationRow]:
    """Return the results of each judge on pairs with a known answer, by check and criterion."""
    rows = []
    groups = group_by(evidence.context.judging.checked, lambda item: (item.judge, item.check, item.criterion))
    for (judge, check, criterion), items in groups.items():
        complete = [item.answers for item in items if len(item.answers) == item.orders]
        outcomes = [_score_calibration_answers(check, answers) for answers in complete]
        hits = [outcome == 1 for outcome in outcomes]
        rows.append(
            CalibrationRow(
                judge=judge,
                check=check,
                criterion=criterion,
                items=len(complete),
                missing=len(items) - len(complete),
                hits=sum(hits),
                opposite=outcomes.count(-1),
                share=estimate_proportion(hits, np.arange(len(hits)), level=evidence.plan.level),
            )
        )
    return sorted(rows, key=lambda row: (row.judge, list(CALIBRATED).index(row.check), row.criterion))


def _score_calibration_answers(check: str, answers: Sequence[str]) -> int:
    """Score the answers on one item: 1 for the outcome that the check counts, −1 for the opposite, else 0."""
    match check:
        case "identical":
            return 1 if set(answers) == {"tie"} else -1
        case "swapped":
            return 1 if len(set(answers)) == 1 else -1
        case _:
            lead = answers.count("target") - answers.count("other")
            return (lead > 0) - (lead < 0)


def describe_changed_models(evidence: Evidence) -> Iterator[str]:
    """Write a sentence about each judge whose requests were answered by more than one model."""
    rows = sorted(evidence.rows(list_answering_models), key=lambda row: row.first)
    for judge, seen in group_by(rows, lambda row: row.judge).items():
        names = list(dict.fromkeys(row.model for row in seen if row.model is not None))
        if len(names) > 1:
            yield f"The model behind {judge} changed while it judged: {', then '.join(names)}."


def describe_mixed_verdict_forms(evidence: Evidence) -> tuple[str, ...]:
    """Write a sentence about each judge that was asked for verdicts in more than one form."""
    prompts = [row for row in evidence.context.judging.prompts if row.verdicts]
    return tuple(
        f"The verdicts of {judge} were asked for in different ways, which may change them: "
        f"{join_with_and(f'{row.verdicts} with {row.manner}' for row in rows)}."
        for judge, rows in group_by(prompts, lambda row: row.judge).items()
        if len(rows) > 1
    )


def _format_cost(row: SpendingRow) -> str:
    """Return the cost of a judge's answers as text, such as `$1.20`."""
    if row.unpriced and row.unpriced == row.requests:
        return "unknown"
    return f"{format_usd(row.usd)} or more" if row.unpriced else format_usd(row.usd)


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "How were the judges asked?"."""
    spent = evidence.rows(list_judge_spending)
    failed = evidence.rows(list_judge_failures)
    tables = (
        *make_table_of_first_rows(
            spent,
            lambda row: {"Judge": row.judge},
            lambda row: {
                "Requests": f"{row.requests:,}",
                "Answers": f"{row.answers:,}",
                "Prompt tokens": f"{row.input_tokens:,}",
                "Answer tokens": f"{row.output_tokens:,}",
                "Cost": _format_cost(row),
                "Set aside": format_usd(row.held_usd),
            },
            csv_name="judge_spending",
            caption="What the judges took",
        ),
        *make_table_of_first_rows(
            failed,
            lambda row: {
                "Judge": row.judge,
                "Failure": find_criterion_title(row.kind),
                "What it means": FAILURES.get(row.kind, NOTHING),
                "Reason given": row.reason[:MAX_REASON] or NOTHING,
            },
            lambda row: {"Showings": row.count},
            csv_name="judge_failures",
            caption="Showings of pairs without a verdict",
        ),
        *make_table_of_first_rows(
            evidence.rows(score_calibration),
            lambda row: {
                "Judge": row.judge,
                "Check": row.check,
                "Criterion": find_criterion_title(row.criterion),
            },
            lambda row: {
                "Items": row.items,
                "As expected": format_share(row.share),
                "Missing": row.missing,
            },
            csv_name="judge_calibration",
            caption="Calibration on pairs whose answer is known",
        ),
    )
    prompts = [
        f"{row.judge} was asked with {row.description} ({row.manner}): {row.verdicts} verdicts from "
        f"{row.answers} answers, calibration included; a whole request is in prompts/{row.file_name}."
        for row in evidence.context.judging.prompts
    ]
    if not (tables or prompts):
        return None
    dollars_spent = f"{format_usd(sum(row.usd for row in spent))}; " if spent else ""
    without = count_in_words(sum(row.count for row in failed), "showing")
    return Section(
        anchor="judge-run",
        question="How were the judges asked?",
        answer=f"{dollars_spent}{without} of a pair without a verdict",
        notes=(*prompts, *describe_mixed_verdict_forms(evidence), *describe_changed_models(evidence)),
        tables=tables,
    )
