"""How the judges were asked: money, failures, models, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from analysis.reports.section import Section
from analysis.results.judges.judge_usage import (
    CalibrationRow,
    FailureCount,
    JudgeUsage,
    calibration_rows,
    changed,
)
from analysis.stats.intervals import wilson
from guard_eval.records import CheckedItem, CheckName, JudgeSpending, ModelSeen
from guard_eval.reporting.drawing import short
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Columns, Table, table_of
from guard_eval.reporting.words import and_list, limits, percent, plural, spaced, title

SPENT_COLUMNS: Columns[JudgeSpending] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "requests": lambda row: row.requests,
    "answers": lambda row: row.answers,
    "lost": lambda row: row.lost,
    "under_way": lambda row: row.open,
    "prompt_tokens": lambda row: row.input_tokens,
    "cached_tokens": lambda row: row.cached_tokens,
    "completion_tokens": lambda row: row.output_tokens,
    "reasoning_tokens": lambda row: row.reasoning_tokens,
    "answers_without_tokens": lambda row: row.unmetered,
    "requests_without_price": lambda row: row.unpriced,
    "usd": lambda row: row.usd,
    "held_usd": lambda row: row.held_usd,
}
FAILED_COLUMNS: Columns[FailureCount] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "kind": lambda row: row.kind,
    "reason": lambda row: row.reason,
    "count": lambda row: row.count,
}
SEEN_COLUMNS: Columns[ModelSeen] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "model": lambda row: row.model,
    "fingerprint": lambda row: row.fingerprint,
    "answers": lambda row: row.answers,
    "first": lambda row: row.first.astimezone(UTC).isoformat(),
    "last": lambda row: row.last.astimezone(UTC).isoformat(),
}
CALIBRATION_COLUMNS: Columns[CalibrationRow] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "check": lambda row: row.check,
    "criterion": lambda row: row.criterion,
    "items": lambda row: row.share.n,
    "missing": lambda row: row.missing,
    "hits": lambda row: row.hits,
    "opposite": lambda row: row.opposite,
    "share": lambda row: row.share.estimate,
    "low": lambda row: row.share.low,
    "high": lambda row: row.share.high,
}
CHECKED_COLUMNS: Columns[CheckedItem] = {
    "simulated": lambda _: False,
    "judge": lambda row: row.judge,
    "check": lambda row: row.check,
    "item": lambda row: row.item,
    "criterion": lambda row: row.criterion,
    "answers": lambda row: " ".join(row.answers),
    "asked": lambda row: row.asked,
}


FAILURES_SHOWN = 12
"""Reasons in the page's table."""
LONGEST_REASON = 160
"""Characters of a reason there."""
FAILURES: dict[str, str] = {
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
    "unrecorded": "the recording has no answer",
}

LEDGER_NOTE = (
    "Over all runs, calibration included. Cached tokens are among the prompt's, reasoning among the "
    "answers'. Set aside: for requests whose answer never came, which a server may have charged, and for "
    "those under way."
)
FAILURES_NOTE = (
    "A failure is no verdict and no tie: the pair lacks this judge's word, in one order or both. What got "
    "no answer is asked again when the judge is run again; an answer that is no verdict is kept as it is."
)
SEEN_NOTE = "As the server names them. Configurations: how many fingerprints it gave. Times are UTC."
CALIBRATION_NOTE = (
    "Share of pairs, with Wilson's interval; both orders of a pair together. Identical: a text against "
    "itself is called similar; a judge that reads says so always. Shuffled: a text is preferred to its "
    "own words in disorder. Swapped: the study's own pairs get the same verdict both ways round. Padded: "
    "a text made about half as long again, with its own sentences and with filler, is preferred to "
    "itself; the rest are ties and preferences for the shorter one."
)

NOT_CALIBRATED = (
    "No judge was calibrated: guard-eval judge STUDY --calibrate asks about pairs whose answer is known."
)
NO_WORRIES = "On the calibration's pairs, no judge did what a judge that reads would not do."

HEADINGS: dict[CheckName, str] = {
    "identical": "Identical: similar",
    "shuffled": "Shuffled: intact one preferred",
    "swapped": "Swapped: same verdict",
    "padded": "Padded: longer one preferred",
}


def section(run: JudgeUsage | None, *, alpha: float = 0.05) -> Section | None:
    """Return how judges were asked; nothing where none was."""
    if run is None or not run.spent:
        return None
    rows = calibration_rows(run.checked, alpha=alpha)
    parts = [_spending_table(run.spent)]
    if run.failed:
        parts.append(_failure_table(run.failed))
    if run.seen:
        parts.append(_seen_table(run.seen))
    parts += [_calibration_table(judge, rows) for judge in dict.fromkeys(row.judge for row in rows)]
    exports = {
        "judge_ledger": table_of(run.spent, SPENT_COLUMNS),
        "judge_failures": table_of(run.failed, FAILED_COLUMNS),
        "judge_models": table_of(run.seen, SEEN_COLUMNS),
    }
    if rows:
        exports["judge_calibration"] = table_of(rows, CALIBRATION_COLUMNS)
        exports["judge_calibration_items"] = table_of(run.checked, CHECKED_COLUMNS)
    return Section(
        anchor="judge-run",
        title="How the judges were asked",
        folded=True,
        paragraphs=(*_prompt(run), *_changes(run), *_failures(run), *_calibration(rows, run.checked)),
        parts=tuple(parts),
        exports=exports,
    )


def _spending_table(rows: Sequence[JudgeSpending]) -> Table:
    """Return tokens and cost of each judge."""
    remarks = [
        f"{row.judge}: {plural(row.unmetered, 'answer')} came without token counts and are missing there."
        for row in rows
        if row.unmetered
    ]
    return table_of(
        rows,
        {
            "Judge": lambda row: row.judge,
            "Requests": lambda row: f"{row.requests:,}",
            "Answers": lambda row: f"{row.answers:,}",
            "Lost": lambda row: f"{row.lost:,}",
            "Prompt tokens": lambda row: f"{row.input_tokens:,}",
            "Cached": lambda row: f"{row.cached_tokens:,}",
            "Answer tokens": lambda row: f"{row.output_tokens:,}",
            "Reasoning": lambda row: f"{row.reasoning_tokens:,}",
            "Cost": _cost,
            "Set aside": lambda row: _usd(row.held_usd),
        },
        caption="What the judges took",
        note=" ".join((LEDGER_NOTE, *remarks)),
    )


def _failure_table(rows: Sequence[FailureCount]) -> Table:
    """Return what each judge left without a verdict, by kind and reason, the most frequent first."""
    more = sum(row.count for row in rows[FAILURES_SHOWN:])
    rest = f" {plural(more, 'showing')} more, for rarer reasons, in judge_failures.csv." if more else ""
    return table_of(
        rows[:FAILURES_SHOWN],
        {
            "Judge": lambda row: row.judge,
            "Failure": lambda row: spaced(row.kind),
            "What it means": lambda row: FAILURES.get(row.kind, ""),
            "Reason given": lambda row: short(row.reason, LONGEST_REASON) or NOTHING,
            "Showings": lambda row: row.count,
        },
        caption="Showings of pairs without a verdict",
        note=FAILURES_NOTE + rest,
        text_columns=4,
    )


def _seen_table(rows: Sequence[ModelSeen]) -> Table:
    """Return which models answered, configurations counted."""
    groups: dict[tuple[str, str | None], list[ModelSeen]] = {}
    for row in rows:
        groups.setdefault((row.judge, row.model), []).append(row)
    return table_of(
        groups.values(),
        {
            "Judge": lambda members: members[0].judge,
            "Model that answered": lambda members: members[0].model or "not stated",
            "From": lambda members: _minute(min(one.first for one in members)),
            "To": lambda members: _minute(max(one.last for one in members)),
            "Configurations": lambda members: (
                len({one.fingerprint for one in members if one.fingerprint}) or NOTHING
            ),
            "Answers": lambda members: f"{sum(one.answers for one in members):,}",
        },
        caption="Models that answered",
        note=SEEN_NOTE,
        text_columns=4,
    )


def _calibration_table(judge: str, rows: Sequence[CalibrationRow]) -> Table:
    """Return how one judge did on each check, a row for each criterion."""
    mine = {(row.check, row.criterion): row for row in rows if row.judge == judge}
    checks = [check for check in HEADINGS if any(check == known for known, _ in mine)]
    criteria = list(dict.fromkeys(criterion for _, criterion in mine))
    return Table(
        columns=("Criterion", *(HEADINGS[check] for check in checks)),
        rows=tuple(
            (title(criterion), *(_share(mine.get((check, criterion))) for check in checks))
            for criterion in criteria
        ),
        caption=f"Calibration of {judge}",
        note=CALIBRATION_NOTE,
    )


def _prompt(run: JudgeUsage) -> list[str]:
    sentences = [
        f"{one.judge} was asked with {one.words}; the prompt has the hash {one.version}, and is in "
        f"prompts/{one.version}.txt."
        for one in run.prompts
    ]
    if run.asked_otherwise:
        sentences.append(
            f"Warning: {and_list(run.asked_otherwise)} answered requests unlike those that would be made "
            "today: another wording, seed or temperature, or other criteria, or another form of the answer."
        )
    return sentences


def _changes(run: JudgeUsage) -> list[str]:
    return [
        f"Warning: the model behind {judge} changed while it judged: "
        + "; then ".join(
            f"{one.model}, {plural(one.answers, 'answer')} from {_minute(one.first)} to {_minute(one.last)}"
            for one in models
        )
        + ". Its verdicts are of several models, which may judge differently; judge_models.csv has every "
        "configuration."
        for judge, models in changed(run.seen)
    ]


def _failures(run: JudgeUsage) -> list[str]:
    total = sum(row.count for row in run.failed)
    if not total:
        return ["Every pair that was shown to a judge has its verdict."]
    return [
        f"{plural(total, 'showing')} of a pair ended without a verdict, counted below by kind and reason."
    ]


def _calibration(rows: Sequence[CalibrationRow], checked: Sequence[CheckedItem]) -> list[str]:
    if not rows:
        return [NOT_CALIBRATED]
    sentences = []
    for judge in dict.fromkeys(row.judge for row in rows):
        mine = [row for row in rows if row.judge == judge]
        sentences += [f"{judge} {found}." for found in _worries(mine)]
    sentences = sentences or [NO_WORRIES]
    lacking = {(one.judge, one.check, one.item) for one in checked if len(one.answers) < one.asked}
    if lacking:
        whole = len({(one.judge, one.check, one.item) for one in checked})
        sentences.append(
            f"Of the calibration's {plural(whole, 'item')}, {len(lacking)} were not answered in every order "
            "and are left out."
        )
    return sentences


def _worries(rows: Sequence[CalibrationRow]) -> list[str]:
    """Return what a judge that reads would not do, as far as the calibration shows it."""
    untied = [row for row in rows if row.check == "identical" and row.hits < row.share.n]
    blind = [row for row in rows if row.check == "shuffled" and row.share.n and (row.share.low or 0) <= 0.5]
    long = [row for row in rows if row.check == "padded" and _mostly(row.hits, row.opposite)]
    worries = []
    if untied:
        worries.append(f"does not always call identical texts similar (it does in {_criteria(untied)})")
    if blind:
        worries.append(
            f"is not shown to prefer texts to their own words in disorder (it does in {_criteria(blind)})"
        )
    if long:
        worries.append(f"prefers padded texts to themselves (it does in {_criteria(long)})")
    return worries


def _mostly(hits: int, opposite: int) -> bool:
    """Return whether hits are shown to be more than half of those that took a side."""
    return (wilson(hits, hits + opposite).low or 0) > 0.5


def _criteria(rows: Sequence[CalibrationRow]) -> str:
    return and_list([f"{percent(row.share.estimate, 0)} on {title(row.criterion)}" for row in rows])


def _share(row: CalibrationRow | None) -> str:
    if row is None or row.share.estimate is None:
        return NOTHING
    return f"{percent(row.share.estimate)} ({limits(row.share)})"


def _cost(row: JudgeSpending) -> str:
    if row.unpriced and row.unpriced == row.requests:
        return "unknown"
    return f"{_usd(row.usd)} or more" if row.unpriced else _usd(row.usd)


def _usd(amount: float) -> str:
    return f"${amount:,.4f}" if 0 < amount < 0.1 else f"${amount:,.2f}"


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M")
