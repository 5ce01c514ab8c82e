"""Store the questions and answers of a judge's calibration. The answers never count as verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime

from sqlalchemy import Connection

from guard_eval.records import Choice, JsonObject, Rater
from guard_eval.store.judging.requests import Question
from guard_eval.store.schema import query

_PLAN_CHECK = query("""
    INSERT INTO calibration (settings, pair_id, number, rater_id, "check", target, orders, choices)
    VALUES (:settings, :pair, :number, :rater, :check, :target, :orders, :choices)
    ON CONFLICT DO NOTHING
""")

_KEEP_ANSWER = query("""
    UPDATE calibration SET choices = :choices, answered_at = :now
    WHERE settings = :settings AND pair_id = :pair AND number = :number
""")

ANSWERED_QUESTIONS = query("""
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


def store_calibration_questions(
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


def store_calibration_answers(
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


def read_calibration(db: Connection) -> list[JsonObject]:
    """Return the results of each judge's last calibration, in the form of `JudgeUsage.checked`.

    Answers to requests with other settings do not count.
    """
    groups: dict[tuple[str, str, str, str, int], list[str]] = {}
    for row in _CALIBRATION(db):
        answer_by_choice = {"tie": "tie", row.target: "target"}
        for criterion, choice in row.choices.items():
            answers = groups.setdefault((row.name, row.check, row.pair_id, criterion, row.orders), [])
            if choice is not None:
                answers.append(answer_by_choice.get(choice, "other"))
    return [
        {
            "judge": judge,
            "check": check,
            "item": pair_id,
            "criterion": criterion,
            "answers": tuple(answers),
            "orders": orders,
        }
        for (judge, check, pair_id, criterion, orders), answers in groups.items()
    ]
