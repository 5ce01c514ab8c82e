"""The judges' requests: one row each, written before it is sent and completed once.

A partial unique index lets one request of a key be open or answered, so nothing is paid twice. `cost` is the
most that a request can cost until its answer says what it did cost. The transaction that inserts a row checks
the sum of all costs, so a budget holds for all processes together. A run renews the lease of its open rows;
one update closes the rows of runs that were killed, and their money stays set aside.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, Choice, JudgeSpending, Plan, Rater, content_id
from guard_eval.store import verdicts
from guard_eval.store.schema import (
    IS_OUT,
    Moment,
    chunks,
    metadata,
    pair,
    presentation,
    rater,
    refuse_changes,
    verdict,
)

LEASE = timedelta(seconds=30)
"""The open requests of a run that has not renewed them for so long are lost: the run was killed."""

BILLION = 10**9

batch = Table(
    "batch",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("provider_id", Text, doc="the provider's name for it"),
    Column("state", String(8), nullable=False, doc="creating, sent or done"),
    Column("run", String(16), nullable=False, doc="the run that looks after it"),
    Column("leased_until", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    CheckConstraint("state IN ('creating', 'sent', 'done')", name="state"),
)

request = Table(
    "request",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False, index=True, doc="SHA-256 of what the study decides about it"),
    Column("rater_id", Integer, ForeignKey("rater.id"), nullable=False, index=True),
    Column("purpose", String(12), nullable=False, doc="study or calibration"),
    Column("pair_id", Text, ForeignKey("pair.id"), nullable=False, index=True),
    Column("number", Integer, nullable=False, doc="twice the sample, plus 1 for the other order"),
    Column("batch_id", Integer, ForeignKey("batch.id"), index=True),
    Column("state", String(8), nullable=False),
    Column("form", Text, nullable=False, doc="interface, output form, and what was left out"),
    Column("max_output_tokens", Integer, nullable=False),
    Column("sent", LargeBinary, nullable=False, doc="the request as it is sent, by zlib"),
    Column("response", LargeBinary, doc="the answer as it came, by zlib"),
    Column("model", Text, doc="the snapshot that the server says it used"),
    Column("fingerprint", Text, doc="the server's name for its configuration"),
    Column("input_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("output_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("cost", BigInteger, doc="billionths of a US dollar: the most it can cost, then its cost"),
    Column("failure", String(16), doc="why it brought no verdict"),
    Column("detail", Text, doc="the same in words"),
    Column("sent_at", Moment, nullable=False),
    Column("seconds", Float(53), doc="from the request to the answer"),
    Column("run", String(16), nullable=False, doc="the run that sends it"),
    Column("leased_until", Moment, nullable=False),
    CheckConstraint("state IN ('open', 'answered', 'unbilled', 'lost')", name="state"),
)
_LIVE = request.c.state.in_(("open", "answered"))
_OPEN = request.c.state == literal_column("'open'")  # a literal: SQLite uses the index for no parameter
Index("uq_request_live", request.c.key, unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE)
Index("ix_request_cost", request.c.cost)

Index("ix_request_open", request.c.leased_until, sqlite_where=_OPEN, postgresql_where=_OPEN)
refuse_changes(request, condition="OLD.response IS NOT NULL", columns=("response",))


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A pair as a judge is to see it.

    Attributes:
        pair_id: The study's pair.
        number: Twice the sample, plus 1 for the other order; in a calibration, which of the pair's questions.
        first: Which text of the pair is shown as A.
        blind: The two texts in the order in which they are shown.
        purpose: A verdict of the study, or the judge's calibration.
    """

    pair_id: str
    number: int
    blind: BlindPair
    first: Literal["a", "b"] = "a"
    purpose: Literal["study", "calibration"] = "study"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A request to be sent; `cost` is the most it can cost, in billionths of a US dollar."""

    question: Question
    key: str
    form: str
    body: bytes
    max_output_tokens: int
    cost: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What a server states about an answer; None for what it does not state.

    `cached_tokens` are among the input's tokens and `reasoning_tokens` among the output's.
    """

    model: str | None = None
    fingerprint: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A request that was answered before: its row, the response, and the token limit it was sent with."""

    row: int
    response: bytes
    max_output_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """What became of a request: its answer, or why there is none.

    `unbilled` certainly costs nothing. `cost` is in billionths of a US dollar, and None leaves what was set
    aside. `failure` is a `judge.failures.ErrorKind`, `detail` the same in words.
    """

    row: int
    state: Literal["answered", "unbilled", "lost"]
    response: bytes | None = None
    usage: Usage = field(default_factory=Usage)
    cost: int | None = None
    seconds: float | None = None
    failure: str | None = None
    detail: str | None = None


Reserved = int | Answered | Literal["busy", "budget"]
"""The row of a request that may be sent, its answer, or why it may not be sent now: another process sends the
same one, or it could cost more than the budget leaves."""


def check_judge(db: Connection, judge: Rater) -> None:
    """Check that a judge may rate.

    Raises:
        StudyError: It is revoked or excluded.
    """
    if db.execute(select(IS_OUT).where(rater.c.id == judge.id)).scalar_one():
        raise StudyError(
            f"the rater {judge.name!r} is revoked or excluded; give the judge another name in study.toml to "
            "start from the beginning"
        )


def read_questions(db: Connection, name: str, plan: Plan) -> list[Question]:
    """Return what the judge of that name is still to be asked: what failed before comes last.

    The order of pairs is drawn by the study's seed for each judge. Number 2k + i is the k-th sample in the
    i-th order. A judge of one order sees every other number; neighbouring pairs take turns.
    """
    done = (
        select(presentation.c.pair_id, presentation.c.number)
        .join(rater)
        .where(rater.c.name == name, presentation.c.rated_at.is_not(None))
    )
    rated = {tuple(row) for row in db.execute(done)}
    failed = {key[1:] for key in read_failures(db, name)}
    pairs = db.execute(select(pair).where(pair.c.expected.is_(None))).all()
    questions = [
        _question(row.id, number, row)
        for row in sorted(pairs, key=lambda row: content_id(plan.seed, name, row.id))
        for number in _numbers(plan, row.position)
        if (row.id, number) not in rated
    ]
    return sorted(questions, key=lambda each: (each.pair_id, each.number) in failed)


def _question(pair_id: str, number: int, row: Any) -> Question:  # noqa: ANN401 (a row of SQLAlchemy)
    turned = (number + row.position) % 2 == 1
    texts = (row.text_b, row.text_a) if turned else (row.text_a, row.text_b)
    blind = BlindPair.of(0, row.prompt, *texts)
    return Question(pair_id=pair_id, number=number, first="b" if turned else "a", blind=blind)


def _numbers(plan: Plan, position: int) -> range:
    if not plan.one_order:
        return range(plan.slots)
    return range(int(content_id(plan.seed, "order", position // 2), 16) % 2, plan.slots, 2)


def reserve(
    db: Connection,
    planned: Sequence[Planned],
    *,
    judge: Rater,
    run: str,
    now: datetime,
    limit: int | None,
    batch_id: int | None = None,
) -> list[Reserved]:
    """Insert the rows of requests that may be sent; return for each request what `Reserved` says.

    Args:
        db: Inside a write transaction, of which there is one at a time.
        planned: The requests.
        judge: Who is asked.
        run: The run that sends them.
        now: The time.
        limit: What all requests of the study may cost together, in billionths of a US dollar.
        batch_id: The batch they are sent in.
    """
    lose_abandoned(db, now)
    live: dict[str, Reserved] = {
        row.key: _answered(row) if row.response else "busy"
        for keys in chunks([each.key for each in planned])
        for row in db.execute(_ANSWERS.where(request.c.key.in_(keys), _LIVE))
    }
    spent = 0
    if limit is not None:
        spent = int(db.execute(select(func.coalesce(func.sum(request.c.cost), 0))).scalar_one())
    outcomes: list[Reserved | None] = []
    rows = []
    for each in planned:
        outcome = live.get(each.key)
        if outcome is None and limit is not None and spent + (each.cost or 0) > limit:
            outcome = "budget"
        outcomes.append(outcome)
        if outcome is None:
            live[each.key] = "busy"
            spent += each.cost or 0
            rows.append({
                "key": each.key, "rater_id": judge.id, "purpose": each.question.purpose,
                "pair_id": each.question.pair_id, "number": each.question.number, "batch_id": batch_id,
                "state": "open", "form": each.form, "max_output_tokens": each.max_output_tokens,
                "sent": zlib.compress(each.body, 1), "cost": each.cost, "sent_at": now, "run": run,
                "leased_until": now + LEASE,
            })  # fmt: skip
    numbers = iter(db.execute(_INSERT, rows).scalars()) if rows else iter(())
    return [int(next(numbers)) if outcome is None else outcome for outcome in outcomes]


_INSERT = insert(request).returning(request.c.id, sort_by_parameter_order=True)
_ANSWERS = select(request.c.key, request.c.id, request.c.response, request.c.max_output_tokens)


def _answered(row: Any) -> Answered:  # noqa: ANN401 (a row of SQLAlchemy)
    response = zlib.decompress(row.response)
    return Answered(row=row.id, response=response, max_output_tokens=row.max_output_tokens)


def lose_abandoned(db: Connection, now: datetime) -> None:
    """Close the open requests of runs whose lease has ended: they may have been paid."""
    ended = (_OPEN, request.c.batch_id.is_(None), request.c.leased_until <= now)
    db.execute(update(request).where(*ended).values(state="lost"))


def renew(db: Connection, run: str, until: datetime) -> None:
    """Let the run's open requests and batches stay its own until then."""
    for table, mine in ((request, _OPEN), (batch, batch.c.state != "done")):
        db.execute(update(table).where(table.c.run == run, mine).values(leased_until=until))


_FIELDS = ("response", "seconds", "failure", "detail", *Usage.__slots__)
_SETTLE = (
    update(request)
    .where(request.c.id == bindparam("row"))
    .values(
        # a lease that ended while the answer was on its way stays ended: another run may have the key
        state=case((request.c.state == "lost", "lost"), else_=bindparam("new_state", type_=String)),
        cost=func.coalesce(bindparam("new_cost", type_=BigInteger), request.c.cost),
        **{name: bindparam(f"new_{name}", type_=request.c[name].type) for name in _FIELDS},
    )
)


def settle(db: Connection, settled: Sequence[Settled]) -> None:
    """Complete rows: an answer's cost counts, and what was not billed frees its money."""
    db.execute(
        _SETTLE,
        [
            {
                "row": each.row,
                "new_state": each.state,
                "new_cost": 0 if each.state == "unbilled" else each.cost,
                "new_response": None if each.response is None else zlib.compress(each.response, 1),
                **{f"new_{name}": getattr(each, name) for name in ("seconds", "failure", "detail")},
                **{f"new_{name}": getattr(each.usage, name) for name in Usage.__slots__},
            }
            for each in settled
        ],
    )


_NOTE = update(request).where(request.c.id == bindparam("row"))
_NOTE = _NOTE.values(failure=bindparam("kind"), detail=bindparam("words"))


def note_failures(db: Connection, failures: Sequence[tuple[int, str, str]]) -> None:
    """Note why answers brought no verdict: the row, the kind of failure, and the same in words."""
    db.execute(_NOTE, [{"row": row, "kind": kind, "words": words} for row, kind, words in failures])


def save_verdicts(
    db: Connection,
    judge: Rater,
    answers: Sequence[tuple[Question, Mapping[str, Choice]]],
    *,
    now: datetime,
    declared: Mapping[str, str],
) -> None:
    """Append verdicts of the study, with the presentations they belong to.

    Raises:
        StudyError: The judge is revoked or excluded, or a pair or choice is not one of the study's.
    """
    check_judge(db, judge)
    ids = {question.pair_id for question, _ in answers}
    known = select(func.count()).select_from(pair).where(pair.c.id.in_(ids))
    if db.execute(known).scalar_one() < len(ids):
        raise StudyError("the study's pairs were drawn again while this judge was running; run it again")
    verdicts.save_of_judge(db, judge, answers, now=now, declared=declared)


def read_answers(db: Connection, keys: Sequence[str]) -> dict[str, Answered]:
    """Return the answers to requests by key, where there are any."""
    answered = _ANSWERS.where(request.c.response.is_not(None))
    return {
        row.key: _answered(row)
        for part in chunks(list(keys))
        for row in db.execute(answered.where(request.c.key.in_(part)))
    }


def read_criteria(db: Connection, judge: str) -> set[str]:
    """Return the criteria on which the judge of that name has given verdicts."""
    statement = select(verdict.c.criterion).join(presentation, presentation.c.id == verdict.c.presentation_id)
    mine = statement.join(rater, rater.c.id == presentation.c.rater_id).where(rater.c.name == judge)
    return set(db.execute(mine.distinct()).scalars())


def read_failures(db: Connection, judge: str | None = None) -> dict[tuple[str, str, int], tuple[str, str]]:
    """Return why questions that were asked have no verdict: the last failure's kind and words.

    The keys are judge, pair and number.
    """
    answered = select(presentation.c.id).where(
        presentation.c.rater_id == request.c.rater_id,
        presentation.c.pair_id == request.c.pair_id,
        presentation.c.number == request.c.number,
        presentation.c.rated_at.is_not(None),
    )
    columns = (rater.c.name, request.c.pair_id, request.c.number, request.c.failure, request.c.detail)
    failed = (request.c.purpose == "study", request.c.failure.is_not(None), ~answered.exists())
    mine = () if judge is None else (rater.c.name == judge,)
    rows = db.execute(select(*columns).join(rater).where(*failed, *mine).order_by(request.c.id))
    return {(row[0], row[1], row[2]): (row[3], row[4] or "") for row in rows}


def read_spending(db: Connection) -> list[JudgeSpending]:
    """Return what each judge that was ever asked has taken over all runs, by name."""
    state, cost = request.c.state, request.c.cost
    sent, answered = state != "unbilled", state == "answered"
    sums: dict[str, ColumnElement[Any]] = {
        "requests": case((sent, 1), else_=0),
        "answers": case((answered, 1), else_=0),
        "lost": case((state == "lost", 1), else_=0),
        "open": case((state == "open", 1), else_=0),
        "unmetered": case((and_(answered, request.c.output_tokens.is_(None)), 1), else_=0),
        "unpriced": case((and_(sent, cost.is_(None)), 1), else_=0),
        **{name: request.c[name] for name in Usage.__slots__ if name.endswith("tokens")},
        "usd": case((answered, cost)),
        "held_usd": case((~answered, cost)),
    }
    totals = (func.coalesce(func.sum(column), 0).label(name) for name, column in sums.items())
    statement = select(rater.c.name, *totals).join(rater, rater.c.id == request.c.rater_id)
    spending = []
    for row in db.execute(statement.group_by(rater.c.name).order_by(rater.c.name)).mappings():
        values: dict[str, Any] = {name: int(row[name]) for name in sums}
        values |= {name: values[name] / BILLION for name in ("usd", "held_usd")}
        spending.append(JudgeSpending(judge=row["name"], **values))
    return spending


def read_models(db: Connection) -> list[dict[str, Any]]:
    """Return which models each judge's answers came from, as `JudgeUsage.seen`, in the order first seen."""
    columns = (rater.c.name.label("judge"), request.c.model, request.c.fingerprint)
    first = func.min(request.c.sent_at).label("first")
    statement = (
        select(*columns, func.count().label("answers"), first, func.max(request.c.sent_at).label("last"))
        .join(rater, rater.c.id == request.c.rater_id)
        .where(request.c.state == "answered")
        .group_by(rater.c.name, request.c.model, request.c.fingerprint)
        .order_by(rater.c.name, first)
    )
    return [dict(row) for row in db.execute(statement).mappings()]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A request of the study as it was sent, and what came of it; `usd` is set aside until it is known."""

    judge: str
    question: Question
    key: str
    state: str
    form: str
    sent: bytes
    sent_at: datetime
    response: bytes | None
    usage: Usage
    usd: float | None
    seconds: float | None
    failure: str | None
    detail: str | None


def read_attempts(
    db: Connection,
    *,
    judge: str | None = None,
    pair_ids: Sequence[str] | None = None,
    answered: bool = False,
    limit: int | None = None,
) -> list[Attempt]:
    """Return requests of the study, oldest first.

    Args:
        db: Inside a transaction.
        judge: Only those to the judge of this name.
        pair_ids: Only those about these pairs.
        answered: Only those that were answered.
        limit: At most so many.
    """
    columns = (rater.c.name, pair.c.position, pair.c.prompt, pair.c.text_a, pair.c.text_b)
    wanted = [request.c.purpose == "study"]
    wanted += [] if judge is None else [rater.c.name == judge]
    wanted += [] if pair_ids is None else [request.c.pair_id.in_(pair_ids)]
    wanted += [request.c.state == "answered"] if answered else []
    statement = select(request, *columns).join(rater).join(pair).where(*wanted)
    same = ("key", "state", "form", "sent_at", "seconds", "failure", "detail")
    return [
        Attempt(
            judge=row.name, question=_question(row.pair_id, row.number, row), sent=zlib.decompress(row.sent),
            response=None if row.response is None else zlib.decompress(row.response),
            usage=Usage(**{name: getattr(row, name) for name in Usage.__slots__}),
            usd=None if row.cost is None else row.cost / BILLION,
            **{name: getattr(row, name) for name in same},
        )
        for row in db.execute(statement.order_by(request.c.id).limit(limit))
    ]  # fmt: skip


def read_choices(db: Connection, pair_ids: Sequence[str]) -> dict[tuple[str, str, int], dict[str, Choice]]:
    """Return models' current verdicts on these pairs: choices by criterion, by judge, pair and number."""
    columns = (rater.c.name, presentation.c.pair_id, presentation.c.number)
    statement = select(*columns, verdict.c.criterion, verdict.c.choice).select_from(verdict)
    statement = statement.join(presentation, presentation.c.id == verdict.c.presentation_id)
    statement = statement.join(rater, rater.c.id == presentation.c.rater_id)
    mine = (rater.c.kind == "model", presentation.c.pair_id.in_(pair_ids))
    choices: dict[tuple[str, str, int], dict[str, Choice]] = defaultdict(dict)
    for row in db.execute(statement.where(*mine).order_by(verdict.c.revision)):
        choices[row.name, row.pair_id, row.number][row.criterion] = row.choice
    return choices


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRow:
    """A batch at a provider; `provider_id` is None until the provider has said what it calls it."""

    id: int
    provider_id: str | None
    created_at: datetime


def add_batch(
    db: Connection, planned: Sequence[Planned], *, judge: Rater, run: str, now: datetime, limit: int | None
) -> tuple[BatchRow, list[Reserved]]:
    """Insert a batch of those requests that may be sent; return it, and what became of each request."""
    new = insert(batch).values(
        rater_id=judge.id, state="creating", run=run, leased_until=now + LEASE, created_at=now
    )
    number = int(db.execute(new.returning(batch.c.id)).scalar_one())
    outcomes = reserve(db, planned, judge=judge, run=run, now=now, limit=limit, batch_id=number)
    return BatchRow(id=number, provider_id=None, created_at=now), outcomes


def note_sent(db: Connection, number: int, provider_id: str) -> None:
    """Note what the provider calls a batch."""
    db.execute(update(batch).where(batch.c.id == number).values(provider_id=provider_id, state="sent"))


def adopt_batches(db: Connection, judge: Rater, run: str, now: datetime) -> tuple[list[BatchRow], int]:
    """Take the judge's unfinished batches that no living run looks after.

    Returns:
        The batches of this run, and how many others are unfinished.
    """
    unfinished = (batch.c.rater_id == judge.id, batch.c.state != "done")
    free = or_(batch.c.leased_until <= now, batch.c.run == run)
    db.execute(update(batch).where(*unfinished, free).values(run=run, leased_until=now + LEASE))
    rows = db.execute(select(batch).where(*unfinished).order_by(batch.c.id)).all()
    mine = [
        BatchRow(id=row.id, provider_id=row.provider_id, created_at=row.created_at)
        for row in rows
        if row.run == run
    ]
    return mine, len(rows) - len(mine)


def read_batch(db: Connection, number: int) -> dict[str, int]:
    """Return the open requests of a batch: their rows by key."""
    mine = select(request.c.key, request.c.id).where(request.c.batch_id == number, _OPEN)
    return {row.key: row.id for row in db.execute(mine)}


def close_batch(db: Connection, number: int, *, billed: bool) -> None:
    """Note that a batch brings nothing more; its requests without an answer are lost, or cost nothing."""
    values: dict[str, object] = {"state": "lost"} if billed else {"state": "unbilled", "cost": 0}
    db.execute(update(request).where(request.c.batch_id == number, _OPEN).values(values))
    db.execute(update(batch).where(batch.c.id == number).values(state="done"))


def read_in_batches(db: Connection, judge: str) -> set[tuple[str, int]]:
    """Return the questions, by pair and number, whose requests are in batches that are not done."""
    waiting = select(request.c.pair_id, request.c.number).join(rater).where(rater.c.name == judge)
    open_ = (_OPEN, request.c.batch_id.is_not(None))
    return {(row.pair_id, row.number) for row in db.execute(waiting.where(*open_))}
