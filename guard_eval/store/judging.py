"""Summaries of the judges' requests, for the command and for the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from guard_eval.records import Choice, Rater
from guard_eval.store.database import Store
from guard_eval.store.requests import Question, read_failures
from guard_eval.store.schema import MOMENT, query

_VARIES = re.compile(r"\d+(?:[.,:]\d+)*|\b(?=\w*\d)[\w-]{8,}")


# What each judge was sent besides the texts, in each answered form. `answers` counts all answers, and
# `verdicts` the questions of the study that got their verdict in this form.
_INSTRUCTIONS = query("""
    SELECT rater.name AS judge, instruction.id, instruction.prompt, instruction.description,
        instruction.manner, instruction.text, count(*) AS answers,
        count(*) FILTER (
            WHERE request.id IN (
                SELECT max(id) FROM request
                WHERE state = 'answered' AND failure IS NULL AND purpose = 'study'
                GROUP BY rater_id, pair_id, number
            )
        ) AS verdicts
    FROM request
    JOIN instruction ON instruction.id = request.instruction
    JOIN rater ON rater.id = request.rater_id
    WHERE request.state = 'answered'
    GROUP BY rater.name, instruction.id
    ORDER BY rater.name, min(request.id)
""")

_SPENDING = query("""
    SELECT rater.name AS judge,
        count(*) FILTER (WHERE state != 'unbilled') AS requests,
        count(*) FILTER (WHERE state = 'answered') AS answers,
        count(*) FILTER (WHERE state = 'lost') AS lost,
        count(*) FILTER (WHERE state = 'open') AS open,
        count(*) FILTER (WHERE state = 'answered' AND input_tokens + output_tokens IS NULL) AS unmetered,
        CAST(coalesce(sum(input_tokens), 0) AS BIGINT) AS input_tokens,
        CAST(coalesce(sum(cached_tokens), 0) AS BIGINT) AS cached_tokens,
        CAST(coalesce(sum(output_tokens), 0) AS BIGINT) AS output_tokens,
        CAST(coalesce(sum(reasoning_tokens), 0) AS BIGINT) AS reasoning_tokens,
        coalesce(CAST(sum(cost) FILTER (WHERE state = 'answered') AS DOUBLE PRECISION), 0.0) / 1e9
            AS usd,
        coalesce(CAST(sum(cost) FILTER (WHERE state != 'answered') AS DOUBLE PRECISION), 0.0) / 1e9
            AS held_usd,
        count(*) FILTER (WHERE state != 'unbilled' AND cost IS NULL) AS unpriced
    FROM request JOIN rater ON rater.id = request.rater_id
    GROUP BY rater.name ORDER BY rater.name
""")

# Which models each judge's answers came from, in the order first seen.
_MODELS = query(
    """
    SELECT rater.name AS judge, request.model, request.fingerprint, count(*) AS answers,
        min(request.sent_at) AS first, max(request.sent_at) AS last
    FROM request JOIN rater ON rater.id = request.rater_id
    WHERE request.state = 'answered'
    GROUP BY rater.name, request.model, request.fingerprint
    ORDER BY rater.name, min(request.sent_at)
    """,
    first=MOMENT,
    last=MOMENT,
)

_PLAN_CHECK = query("""
    INSERT INTO calibration (settings, pair_id, number, rater_id, "check", target, orders, choices)
    VALUES (:settings, :pair, :number, :rater, :check, :target, :orders, :choices)
    ON CONFLICT DO NOTHING
""")

_KEEP_ANSWER = query("""
    UPDATE calibration SET choices = :choices, answered_at = :now
    WHERE settings = :settings AND pair_id = :pair AND number = :number
""")

_ANSWERED = query("""
    SELECT pair_id, number FROM calibration WHERE settings = :settings AND answered_at IS NOT NULL
""")

_CALIBRATION = query("""
    SELECT rater.name, calibration.pair_id, calibration."check", calibration.target, calibration.orders,
        calibration.choices
    FROM calibration JOIN rater ON rater.id = calibration.rater_id
    WHERE calibration.settings IN (
        SELECT settings FROM calibration WHERE answered_at IN (
            SELECT max(answered_at) FROM calibration GROUP BY rater_id
        )
    )
    ORDER BY rater.name, calibration.pair_id, calibration.number
""")


def read_usage(store: Store) -> dict[str, Any]:
    """Return the fields of the report's `JudgeUsage`; none if no judge was asked."""
    with store.read() as db:
        spending = read_spending(db)
        if not spending:
            return {}
        return {
            "prompts": tuple(row._asdict() for row in _INSTRUCTIONS(db)),
            "spent": tuple(row._asdict() for row in spending),
            "failed": tuple(read_reasons(db)),
            "seen": tuple(row._asdict() for row in _MODELS(db)),
            "checked": tuple(read_calibration(db)),
        }


def count_reasons(failures: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Count the reasons of missing verdicts, as `JudgeUsage.failed`: by judge, the most frequent first.

    A failure is a judge, a kind and a sentence. Sentences that differ only in numbers or in the name of a
    request are one reason.
    """
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for judge, kind, detail in failures:
        reasons.setdefault((judge, kind, _VARIES.sub("#", detail)), []).append(detail)
    return [
        {"judge": key[0], "kind": key[1], "count": len(details), "reason": details[0]}
        for key, details in sorted(reasons.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    ]


def read_reasons(db: Connection) -> list[dict[str, Any]]:
    """Return the reasons of the study's questions that still have no verdict."""
    return count_reasons((key[0], *why) for key, why in read_failures(db).items())


def read_spending(db: Connection) -> list[Row[Any]]:
    """Return the requests and costs of each judge over all runs, one row for each `judge`, by name.

    Requests that were surely not billed are left out. Of the others, `lost` are those whose answer never
    came, `open` are under way or in a batch, `unmetered` are answers without token counts, and `unpriced` are
    in no sum. `usd` is what the answers cost, at least; `held_usd` is set aside for what is lost or open.
    """
    return list(_SPENDING(db))


def plan_checks(
    db: Connection, judge: Rater, settings: str, questions: Sequence[Question], criteria: Sequence[str]
) -> None:
    """Store the questions of a calibration before they are asked, unless they are already stored."""
    same = {"settings": settings, "rater": judge.id, "choices": dict.fromkeys(criteria)}
    rows = [
        {"pair": question.pair_id, "number": question.number, **asdict(question.check), **same}
        for question in questions
        if question.check is not None
    ]
    if rows:
        _PLAN_CHECK(db, rows)


def keep_answers(
    db: Connection, now: datetime, settings: str, answers: Sequence[tuple[Question, Mapping[str, Choice]]]
) -> None:
    """Store the answers to questions of a calibration."""
    rows = [
        {
            "settings": settings,
            "pair": question.pair_id,
            "number": question.number,
            "choices": choices,
            "now": now,
        }
        for question, choices in answers
    ]
    _KEEP_ANSWER(db, rows)


def read_answered(db: Connection, settings: str) -> set[tuple[str, int]]:
    """Return the calibration questions that a judge with these settings answered, as pair and number."""
    return {(row.pair_id, row.number) for row in _ANSWERED(db, settings=settings)}


def read_calibration(db: Connection) -> list[dict[str, Any]]:
    """Return the results of each judge's last calibration, as `JudgeUsage.checked`.

    Answers to requests of other settings do not count.
    """
    groups: dict[tuple[str, str, str, str, int], list[str]] = {}
    for row in _CALIBRATION(db):
        for criterion, choice in row.choices.items():
            answers = groups.setdefault((row.name, row.check, row.pair_id, criterion, row.orders), [])
            if choice is not None:
                answers.append(_name_choice(choice, row.target))
    return [
        {
            "judge": judge,
            "check": check,
            "item": pair_id,
            "criterion": criterion,
            "answers": tuple(answers),
            "asked": orders,
        }
        for (judge, check, pair_id, criterion, orders), answers in groups.items()
    ]


def _name_choice(choice: Choice, target: str) -> str:
    if choice == "tie":
        return "tie"
    return "target" if choice == target else "other"
