"""How judges were asked and what became of it, for the command and for the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, Float, Row, cast, func, select

from guard_eval.records import BILLION, Choice, Rater
from guard_eval.store.database import Store
from guard_eval.store.requests import (
    CALIBRATION,
    INSTRUCTION,
    REQUEST,
    TOKENS,
    Question,
    calibration,
    instruction,
    read_failures,
    request,
)
from guard_eval.store.schema import RATER, rater

_ANSWERED = request.state == "answered"
_VARIES = re.compile(r"\d+(?:[.,:]\d+)*|\b(?=\w*\d)[\w-]{8,}")


def read_usage(store: Store) -> dict[str, Any] | None:
    """Return how the study's judges were asked, as the report's `JudgeUsage`; None if none was asked."""
    with store.read() as db:
        spending = read_spending(db)
        if not spending:
            return None
        return {
            "prompts": tuple(read_instructions(db)),
            "spent": tuple(row._asdict() for row in spending),
            "failed": tuple(read_reasons(db)),
            "seen": tuple(read_models(db)),
            "checked": tuple(read_calibration(db)),
        }


def read_instructions(db: Connection) -> list[dict[str, Any]]:
    """Return what each judge was sent besides the texts, in each form that was answered.

    `verdicts` counts the questions of the study that got their verdict in this form, `answers` all answers.
    """
    latest = select(func.max(request.id)).where(_ANSWERED, request.failure.is_(None))
    latest = latest.where(request.purpose == "study")
    latest = latest.group_by(request.rater_id, request.pair_id, request.number)
    columns = (
        rater.name.label("judge"),
        instruction.id,
        instruction.prompt,
        instruction.description,
        instruction.manner,
        instruction.text,
        func.count().label("answers"),
        func.count().filter(request.id.in_(latest)).label("verdicts"),
    )
    statement = select(*columns).join_from(REQUEST, INSTRUCTION).join(RATER).where(_ANSWERED)
    statement = statement.group_by(rater.name, *INSTRUCTION.columns).order_by(
        rater.name, func.min(request.id)
    )
    return [dict(row) for row in db.execute(statement).mappings()]


def count_reasons(failures: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return why questions have no verdict, as `JudgeUsage.failed`, by judge, the most frequent first.

    A failure is a judge, a kind and a sentence. Sentences that differ in nothing but numbers, or in the name
    of a request, are one reason.
    """
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for judge, kind, detail in failures:
        reasons.setdefault((judge, kind, _VARIES.sub("#", detail)), []).append(detail)
    return [
        {"judge": key[0], "kind": key[1], "count": len(details), "reason": details[0]}
        for key, details in sorted(reasons.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    ]


def read_reasons(db: Connection) -> list[dict[str, Any]]:
    """Return why questions of the study have no verdict to this day."""
    return count_reasons((key[0], *why) for key, why in read_failures(db).items())


def read_spending(db: Connection) -> list[Row[Any]]:
    """Return what each judge that was ever asked has taken over all runs, a row for each `judge`, by name.

    Requests that were surely not billed are left out. Of the others, `lost` are those whose answer never
    came, `open` are under way or in a batch, `unmetered` are answers without token counts, and `unpriced` are
    in no sum. `usd` is what the answers cost, at least; `held_usd` is set aside for what is lost or open.
    """
    state = request.state
    cost = request.cost
    count = func.count()
    sent = state != "unbilled"
    sums: dict[str, Any] = {name: cast(func.sum(request[name]), BigInteger) for name in TOKENS}
    sums["usd"] = cast(func.sum(cost).filter(_ANSWERED), Float) / BILLION
    sums["held_usd"] = cast(func.sum(cost).filter(~_ANSWERED), Float) / BILLION
    columns = {
        "requests": count.filter(sent),
        "answers": count.filter(_ANSWERED),
        "lost": count.filter(state == "lost"),
        "open": count.filter(request.state == "open"),
        "unmetered": count.filter(_ANSWERED, (request.input_tokens + request.output_tokens).is_(None)),
        **{name: func.coalesce(total, 0) for name, total in sums.items()},
        "unpriced": count.filter(sent, cost.is_(None)),
    }
    labelled = (column.label(name) for name, column in {"judge": rater.name, **columns}.items())
    statement = select(*labelled).join_from(REQUEST, RATER).group_by(rater.name).order_by(rater.name)
    return list(db.execute(statement))


def read_models(db: Connection) -> list[dict[str, Any]]:
    """Return which models each judge's answers came from, as `JudgeUsage.seen`, in the order first seen."""
    columns = (rater.name.label("judge"), request.model, request.fingerprint)
    first = func.min(request.sent_at).label("first")
    last = func.max(request.sent_at).label("last")
    statement = select(*columns, func.count().label("answers"), first, last).join_from(REQUEST, RATER)
    statement = statement.where(_ANSWERED).group_by(*columns).order_by(rater.name, first)
    return [dict(row) for row in db.execute(statement).mappings()]


def plan_checks(
    db: Connection, judge: Rater, settings: str, questions: Sequence[Question], criteria: Sequence[str]
) -> None:
    """Keep the questions of a calibration before they are asked, unless they are kept already."""
    planned = select(calibration.pair_id, calibration.number).where(calibration.settings == settings)
    kept = {tuple(row) for row in db.execute(planned)}
    same = {"settings": settings, "rater_id": judge.id, "choices": dict.fromkeys(criteria)}
    rows = [
        {"pair_id": question.pair_id, "number": question.number, **asdict(question.check), **same}
        for question in questions
        if question.check is not None and (question.pair_id, question.number) not in kept
    ]
    if rows:
        db.execute(CALIBRATION.insert(), rows)


def keep_answers(
    db: Connection, now: datetime, settings: str, answers: Sequence[tuple[Question, Mapping[str, Choice]]]
) -> None:
    """Keep the answers to questions of a calibration."""
    for question, choices in answers:
        key = (
            calibration.settings == settings,
            calibration.pair_id == question.pair_id,
            calibration.number == question.number,
        )
        db.execute(CALIBRATION.update().where(*key).values(choices=dict(choices), answered_at=now))


def read_answered(db: Connection, settings: str) -> set[tuple[str, int]]:
    """Return the questions of a calibration, as pair and number, that a judge of these settings answered."""
    statement = select(calibration.pair_id, calibration.number)
    rows = db.execute(statement.where(calibration.settings == settings, calibration.answered_at.is_not(None)))
    return {(row.pair_id, row.number) for row in rows}


def read_calibration(db: Connection) -> list[dict[str, Any]]:
    """Return how each judge did in its last calibration, as `JudgeUsage.checked`.

    Answers to requests of other settings do not count.
    """
    last = select(func.max(calibration.answered_at)).group_by(calibration.rater_id)
    settings = select(calibration.settings).where(calibration.answered_at.in_(last))
    statement = select(CALIBRATION, rater.name).join_from(CALIBRATION, RATER)
    statement = statement.where(calibration.settings.in_(settings))
    statement = statement.order_by(rater.name, calibration.pair_id, calibration.number)
    groups: dict[tuple[str, str, str, str, int], list[str]] = {}
    for row in db.execute(statement):
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
