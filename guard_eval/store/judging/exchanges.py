"""Exchanges with a judge about a pair: requests as sent, answers, verdicts, failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, exists, or_, select

from guard_eval.records import Choice
from guard_eval.store.judging import journal, requests
from guard_eval.store.judging.schema import answer, failure, request
from guard_eval.store.judging.values import Answer, Attempt, Exchange, Failure
from guard_eval.store.schema import batches, pair, presentation, rater, verdict
from guard_eval.store.verdicts import blind

_BILLION = 10**9

_SHOWN = (
    select(
        presentation.c.id,
        presentation.c.pair_id,
        presentation.c.slot,
        presentation.c.first,
        rater.c.name.label("rater"),
    )
    .join(rater, rater.c.id == presentation.c.rater_id)
    .where(presentation.c.id.in_(bindparam("asked", expanding=True)))
)
# a request of another presentation may have brought the answer: those of the same texts are the same
_KEYS = (
    select(request.c.presentation_id, request.c.key)
    .where(request.c.presentation_id.in_(bindparam("asked", expanding=True)))
    .distinct()
)
_REQUESTS = (
    select(request)
    .where(request.c.key.in_(bindparam("asked", expanding=True)))
    .order_by(request.c.sent_at, request.c.attempt)
)
_ANSWERS = select(*journal.COLUMNS, answer.c.presentation_id.label("presentation")).where(
    answer.c.key.in_(bindparam("asked", expanding=True))
)
_VERDICTS = (
    select(verdict.c.presentation_id, verdict.c.criterion, verdict.c.choice)
    .where(verdict.c.presentation_id.in_(bindparam("asked", expanding=True)))
    .order_by(verdict.c.revision)
)


def numbers(connection: Connection, pair_id: str | None, judge: str | None) -> list[int]:
    """Return the presentations to judges of which there is anything, by pair, judge and slot."""
    of = presentation.c.id
    statement = (
        select(of)
        .join(rater, rater.c.id == presentation.c.rater_id)
        .join(pair, pair.c.id == presentation.c.pair_id)
        .where(
            rater.c.kind == "model",
            or_(
                presentation.c.rated_at.is_not(None),
                exists(select(request.c.key).where(request.c.presentation_id == of)),
                exists(select(failure.c.id).where(failure.c.presentation_id == of)),
            ),
        )
        .order_by(pair.c.position, pair.c.id, rater.c.name, presentation.c.slot, of)
    )
    if pair_id is not None:
        statement = statement.where(presentation.c.pair_id == pair_id)
    if judge is not None:
        statement = statement.where(rater.c.name == judge)
    return list(connection.execute(statement).scalars())


def read(connection: Connection, asked: Sequence[int]) -> list[Exchange]:
    """Return the exchanges about these presentations, in their order."""
    parameters = {"asked": list(asked)}
    shown = {row.id: row for row in connection.execute(_SHOWN, parameters)}
    blinds = blind(connection, list(asked))
    attempts = _attempts(connection, asked)
    choices: dict[int, dict[str, Choice]] = defaultdict(dict)
    for given in connection.execute(_VERDICTS, parameters):
        choices[given.presentation_id][given.criterion] = given.choice
    failures: dict[int, list[Failure]] = defaultdict(list)
    for failed in journal.failures(connection, failure.c.presentation_id.in_(asked)):
        failures[failed.presentation].append(failed)
    return [
        Exchange(
            presentation=number,
            pair_id=shown[number].pair_id,
            rater=shown[number].rater,
            order=shown[number].first,
            sample=shown[number].slot // 2,
            blind=shown_texts,
            attempts=tuple(attempts.get(number, ())),
            choices=choices[number],
            failures=tuple(failures[number]),
        )
        for number, shown_texts in zip(asked, blinds, strict=True)
    ]


def _attempts(connection: Connection, asked: Sequence[int]) -> dict[int, list[Attempt]]:
    """Return the requests about each presentation, and those that were answered for another one's sake."""
    keys: dict[str, set[int]] = defaultdict(set)
    for pair_of in connection.execute(_KEYS, {"asked": list(asked)}):
        keys[pair_of.key].add(pair_of.presentation_id)
    answers: dict[tuple[str, int], Answer] = {}
    rows: list[Row[Any]] = []
    for part in batches(list(keys)):
        for found in connection.execute(_ANSWERS, {"asked": part}).mappings():
            came = journal.answer_of(found)
            answers[came.key, came.attempt] = came
        rows += connection.execute(_REQUESTS, {"asked": part})
    bodies = requests.read_sent(connection, list(keys))
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    for row in rows:
        made = Attempt(
            key=row.key,
            attempt=row.attempt,
            state=row.state,
            style=row.style,
            shape=row.shape,
            sent=bodies.get((row.key, row.attempt)),
            sent_at=row.sent_at,
            reserved_usd=None if row.reserved is None else row.reserved / _BILLION,
            answer=answers.get((row.key, row.attempt)),
        )
        for number in keys[row.key]:
            # one that only notes that another's answer counts was never sent
            if made.answer is not None or (row.presentation_id == number and made.sent is not None):
                attempts[number].append(made)
    return attempts
