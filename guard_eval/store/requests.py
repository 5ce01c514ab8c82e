"""The judges' requests: one row each, written before it is sent and completed once.

A partial unique index lets one request of a key be open or answered, so nothing is paid twice. `cost` is the
most that a request can cost until its answer says what it did cost. The transaction that inserts a row checks
the sum of all costs, so a budget holds for all processes together. A run renews the lease of its open rows;
one update closes the rows of runs that were killed, and their money stays set aside.

The requests of a batch are rows with its name. They stay open after their run, and the next run adopts them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    bindparam,
    case,
    func,
    literal_column,
    select,
)

from guard_eval.errors import StudyError
from guard_eval.records import BlindPair, HandOutPlan, Rater, Usage, content_id, settings_part
from guard_eval.store import notes, rounds
from guard_eval.store.schema import (
    MOMENT,
    PAIR,
    PRESENTATION,
    RATER,
    VERDICT,
    Converted,
    add_index,
    chunks,
    metadata,
    pair,
    presentation,
    rater,
    refuse_changes,
    required,
    verdict,
)

LEASE = timedelta(seconds=30)
"""The open requests of a run that has not renewed them for so long are lost: the run was killed."""

TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")


_COMPRESSED = Converted(LargeBinary(), lambda plain: zlib.compress(plain, 1), zlib.decompress)

INSTRUCTION = Table(
    "instruction",
    metadata,
    Column("id", String(64), primary_key=True),  # SHA-256 of the settings and the form
    required("settings", String(64)),  # SHA-256 of what study.toml decides about the judge's requests
    required("form", Text),  # the name of the form: interface, output, and what was left out
    required("manner", Text),  # the form in words
    required("prompt", String(12)),  # the prompt's version
    required("description", Text),  # how the prompt differs from the paper's
    required("text", Text),  # a whole request, with placeholders for the texts of a pair
)
instruction = INSTRUCTION.c

REQUEST = Table(
    "request",
    metadata,
    Column("id", Integer, primary_key=True),
    required("key", String(64), index=True),  # SHA-256 of what the study decides about it
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("purpose", String(12)),  # study or calibration
    required("pair_id", Text, ForeignKey("pair.id"), index=True),
    required("number", Integer),  # twice the sample, plus 1 for the other order
    Column("batch", String(16), index=True),  # our name for the batch it is sent in
    Column("provider_id", Text),  # the provider's name for the batch; NULL until it is known
    required("state", String(8)),  # open, answered, unbilled or lost
    required("instruction", String(64), ForeignKey("instruction.id"), index=True),
    required("max_output_tokens", Integer),
    required("sent", _COMPRESSED),  # the request as it is sent
    Column("response", _COMPRESSED),  # the answer as it came
    Column("model", Text),  # the snapshot that the server says it used
    Column("fingerprint", Text),  # the server's name for its configuration
    *(Column(name, Integer) for name in TOKENS),
    Column("cost", BigInteger),  # billionths of a US dollar: the most it can cost, then its cost
    Column("failure", String(16)),  # why it brought no verdict
    Column("detail", Text),  # the same in words
    required("sent_at", MOMENT),
    required("run", String(16)),  # the run that sends it
    required("leased_until", MOMENT),
)
request = REQUEST.c
_LIVE = request.state.in_(("open", "answered"))
_OPEN = request.state == literal_column("'open'")  # a literal: SQLite uses the index for no parameter
_ANSWERED = request.state == "answered"
add_index("uq_request_live", request.key, where=_LIVE, unique=True)
Index("ix_request_cost", request.cost)
add_index("ix_request_open", request.leased_until, where=_OPEN)
refuse_changes(REQUEST, condition="OLD.response IS NOT NULL", columns=("response",))

CALIBRATION = Table(
    "calibration",
    metadata,
    Column("settings", String(64), primary_key=True),  # as in `instruction`
    Column("pair_id", Text, ForeignKey("pair.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    required("rater_id", Integer, ForeignKey("rater.id"), index=True),
    required("check", String(12)),
    required("target", String(1)),  # the side of the text that the check is about
    required("orders", Integer),  # in how many orders the texts are shown
    required("choices", JSON),  # by criterion; null before the answer
    Column("answered_at", MOMENT),
)
calibration = CALIBRATION.c


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What a question of a calibration is for.

    Attributes:
        check: The name of the check.
        target: The side of the text that the check is about: the whole one, the padded one, or the study's
            first method; of identical texts the one shown first.
        orders: In how many orders the same texts are shown.
    """

    check: str
    target: Literal["A", "B"]
    orders: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A pair as a judge is to see it.

    Attributes:
        pair_id: The study's pair.
        number: Twice the sample, plus 1 for the other order; in a calibration, which of the pair's questions.
        first: Which text of the pair is shown as A.
        blind: The two texts in the order in which they are shown.
        check: What a question of the judge's calibration is for; None if the study wants a verdict.
    """

    pair_id: str
    number: int
    blind: BlindPair
    first: Literal["a", "b"] = "a"
    check: Check | None = None

    @property
    def purpose(self) -> Literal["study", "calibration"]:
        """Return whether the study wants a verdict, or the judge's calibration an answer."""
        return "study" if self.check is None else "calibration"


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """What a judge is sent besides the texts, in one form: a row of its table."""

    id: str
    settings: str
    form: str
    manner: str
    prompt: str
    description: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A request to be sent; `cost` is the most it can cost, in billionths of a US dollar."""

    question: Question
    key: str
    instruction: str
    body: bytes
    max_output_tokens: int
    cost: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """A request that was answered before: its row, the response, and the token limit it was sent with."""

    row: int
    response: bytes
    max_output_tokens: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A request that may be sent now: its row."""

    row: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A request that may not be sent now.

    `busy`: another process sends it, or open requests of this run may leave more of the budget. `batch`: it
    is in a batch. `budget`: the budget is used up.
    """

    reason: Literal["busy", "batch", "budget"]


Reservation = Reserved | Answered | Unavailable


@dataclass(frozen=True, kw_only=True, slots=True)
class Settled:
    """What became of a request: its answer, or why there is none.

    `unbilled` certainly costs nothing. `cost` is in billionths of a US dollar, and None leaves what was set
    aside. `failure` is a `guard_eval.servers.failures.FailureKind`, `detail` the same in words.
    """

    row: int
    state: Literal["answered", "unbilled", "lost"]
    response: bytes | None = None
    usage: Usage = field(default_factory=Usage)
    cost: int | None = None
    failure: str | None = None
    detail: str | None = None


def check_judge(db: Connection, judge: Rater) -> None:
    """Check that a judge may rate.

    Raises:
        StudyError: It is revoked or excluded.
    """
    if notes.find_rater(db, judge).is_out:
        raise StudyError(f"the judge {judge.name!r} is revoked or excluded; name it anew in study.toml")


def read_questions(
    db: Connection, name: str, plan: HandOutPlan, *, ahead: int = rounds.MOST_ROUNDS
) -> list[Question]:
    """Return what the judge of that name is still to be asked: what failed before comes last.

    Of a study in rounds these are questions of the rounds until now, and of the next ones `ahead`, for which
    comparisons may stop.

    The order of pairs is drawn by the study's seed for each judge. Number 2k + i is the k-th sample in the
    i-th order. A judge of one order sees every other number; neighbouring pairs take turns.
    """
    done = select(presentation.pair_id, presentation.number).join(RATER)
    done = done.where(rater.name == name, presentation.rated_at.is_not(None))
    rated = {tuple(row) for row in db.execute(done)}
    failed = {key[1:] for key in read_failures(db, name)}
    playing = rounds.is_playing(db, settings_part(name, "model"), ahead=ahead)
    pairs = db.execute(select(PAIR, pair.id.label("pair_id")).where(playing)).all()
    questions = [
        _question(row, number)
        for row in sorted(pairs, key=lambda row: content_id(plan.seed, name, row.id))
        for number in _numbers(plan, row.position)
        if (row.id, number) not in rated
    ]
    return sorted(questions, key=lambda each: (each.pair_id, each.number) in failed)


def next_questions(db: Connection, now: datetime, name: str, plan: HandOutPlan) -> list[Question]:
    """Return what the judge of that name is to be asked now.

    A round is over when nothing but failures is left of it; then its prompts with a failure say nothing.
    """
    failed = {key[1:] for key in read_failures(db, name)}
    questions = read_questions(db, name, plan, ahead=1)
    while plan.rounds is not None and failed.issuperset((each.pair_id, each.number) for each in questions):
        if not rounds.close_round(db, now, settings_part(name, "model"), plan.rounds):
            break
        questions = read_questions(db, name, plan, ahead=1)
    return questions


def _question(row: Any, number: int) -> Question:  # noqa: ANN401 (a row of SQLAlchemy)
    turned = (number + row.position) % 2 == 1
    texts = (row.text_b, row.text_a) if turned else (row.text_a, row.text_b)
    blind = BlindPair.of(0, row.prompt, *texts)
    return Question(pair_id=row.pair_id, number=number, first="b" if turned else "a", blind=blind)


def _numbers(plan: HandOutPlan, position: int) -> range:
    drawn = int(content_id(plan.seed, "order", position // 2), 16) % 2
    return range(drawn, plan.slots, 2) if plan.one_order else range(plan.slots)


def keep_instruction(db: Connection, row: Instruction) -> None:
    """Keep what a judge is sent in one form, unless it is kept already."""
    if db.execute(select(instruction.id).where(instruction.id == row.id)).first() is None:
        db.execute(INSTRUCTION.insert().values(asdict(row)))


def read_forms(db: Connection, settings: str) -> list[tuple[str, int, int]]:
    """Return the forms that gave a judge of these settings verdicts, the most frequent first.

    Each form comes with the number of its verdicts and the highest token limit.
    """
    count = func.count()
    limit = func.max(request.max_output_tokens)
    statement = select(instruction.form, count, limit).join_from(REQUEST, INSTRUCTION)
    statement = statement.where(instruction.settings == settings, _ANSWERED, request.failure.is_(None))
    rows = db.execute(statement.group_by(instruction.form).order_by(count.desc(), instruction.form))
    return [(row[0], row[1], row[2]) for row in rows]


def reserve(
    db: Connection,
    planned: Sequence[Planned],
    *,
    judge: Rater,
    run: str,
    now: datetime,
    limit: int | None,
    batch: str | None = None,
) -> list[Reservation]:
    """Insert the rows of requests that may be sent; return what holds for each request.

    It runs in a write transaction, of which there is one at a time. `limit` is what all requests of the study
    may cost together, in billionths of a US dollar, and `batch` our name for the batch they are sent in.
    """
    # the runs whose lease has ended were killed, and their requests may have been paid
    ended = (_OPEN, request.batch.is_(None), request.leased_until <= now)
    db.execute(REQUEST.update().where(*ended).values(state="lost"))
    wanted = _LIVE | request.response.is_not(None)
    live: dict[str, Reservation] = dict(_read_rows(db, [each.key for each in planned], wanted))
    spent = 0 if limit is None else db.execute(select(func.sum(request.cost))).scalar_one() or 0
    mine = select(request.id).where(_OPEN, request.run == run).limit(1)
    waits = limit is not None and db.execute(mine).first() is not None
    same: dict[str, Any] = {"rater_id": judge.id, "batch": batch, "state": "open", "run": run}
    same |= {"sent_at": now, "leased_until": now + LEASE}
    outcomes: list[Reservation] = []
    for each in planned:
        outcome = live.get(each.key)
        if outcome is None and limit is not None and spent + (each.cost or 0) > limit:
            outcome = Unavailable("busy" if waits else "budget")
        if outcome is None:
            row = {name: getattr(each.question, name) for name in ("purpose", "pair_id", "number")}
            row |= {name: getattr(each, name) for name in ("key", "instruction", "max_output_tokens", "cost")}
            outcome = Reserved(int(db.execute(_INSERT, row | same | {"sent": each.body}).scalar_one()))
            live[each.key] = Unavailable("busy")
            waits = True
            spent += each.cost or 0
        outcomes.append(outcome)
    return outcomes


_INSERT = REQUEST.insert().returning(request.id)


def _read_rows(
    db: Connection, keys: Sequence[str], wanted: ColumnElement[bool]
) -> Iterator[tuple[str, Answered | Unavailable]]:
    """Yield requests with these keys: that they are under way or in a batch, and then what was answered."""
    names = ("key", "id", "response", "max_output_tokens", "batch")
    statement = select(*(request[name] for name in names)).where(wanted)
    statement = statement.order_by(request.response.is_not(None))
    for part in chunks(keys):
        for key, row, response, tokens, batch in db.execute(statement.where(request.key.in_(part))):
            if response is None:  # an answer may be empty
                yield key, Unavailable("busy" if batch is None else "batch")
            else:
                yield key, Answered(row=row, response=response, max_output_tokens=tokens)


def renew(db: Connection, run: str, until: datetime) -> None:
    """Let the run's open requests stay its own until then."""
    db.execute(REQUEST.update().where(request.run == run, _OPEN).values(leased_until=until))


_ROW = REQUEST.update().where(request.id == bindparam("row"))
_SETTLE = _ROW.values(
    # a lease that ended while the answer was on its way stays ended: another run may have the key
    state=case((request.state == "lost", "lost"), else_=bindparam("then", type_=String)),
    cost=func.coalesce(bindparam("paid", type_=BigInteger), request.cost),
)


def settle(db: Connection, _now: datetime, settled: Sequence[Settled]) -> None:
    """Complete rows: an answer's cost counts, and what was not billed frees its money."""
    names = ("row", "response", "failure", "detail")
    rows = [
        {
            "then": each.state,
            "paid": 0 if each.state == "unbilled" else each.cost,
            **{name: getattr(each, name) for name in names},
            **asdict(each.usage),
        }
        for each in settled
    ]
    if rows:
        db.execute(_SETTLE, rows)


def note_failures(db: Connection, _now: datetime, failures: Sequence[tuple[int, str, str]]) -> None:
    """Note why answers brought no verdict: the row, the kind of failure, and the same in words."""
    if rows := [{"row": row, "failure": kind, "detail": words} for row, kind, words in failures]:
        db.execute(_ROW, rows)


def read_answers(db: Connection, keys: Sequence[str]) -> dict[str, Answered]:
    """Return the answers to requests by key, where there are any."""
    rows = _read_rows(db, keys, request.response.is_not(None))
    return {key: row for key, row in rows if isinstance(row, Answered)}


def read_criteria(db: Connection, judge: str) -> set[str]:
    """Return the criteria on which the judge of that name has given verdicts."""
    criteria = select(verdict.criterion).join_from(VERDICT, PRESENTATION).join_from(PRESENTATION, RATER)
    return set(db.execute(criteria.where(rater.name == judge).distinct()).scalars())


def read_failures(db: Connection, judge: str | None = None) -> dict[tuple[str, str, int], tuple[str, str]]:
    """Return why questions that were asked have no verdict: the last failure's kind and words.

    The keys are judge, pair and number.
    """
    columns = (request.pair_id, request.number)
    same = (presentation[each.name] == each for each in (request.rater_id, *columns))
    rated = select(presentation.id).where(*same, presentation.rated_at.is_not(None))
    wanted = (request.purpose == "study", request.failure.is_not(None), ~rated.exists())
    statement = select(rater.name, *columns, request.failure, request.detail).join_from(REQUEST, RATER)
    statement = statement.where(*wanted).order_by(request.id)
    if judge is not None:
        statement = statement.where(rater.name == judge)
    return {(row[0], row[1], row[2]): (row[3], row[4]) for row in db.execute(statement)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt(Usage):
    """A request of the study as it was sent, and what came of it; `cost` is set aside until it is known."""

    judge: str
    question: Question
    state: str
    form: str
    instruction: str
    max_output_tokens: int
    sent: bytes
    sent_at: datetime
    response: bytes | None
    cost: int | None
    failure: str | None
    detail: str | None


def read_attempts(db: Connection, pair_ids: Sequence[str]) -> list[Attempt]:
    """Return the requests of the study about these pairs, oldest first."""
    texts = (pair.position, pair.prompt, pair.text_a, pair.text_b)
    columns = (REQUEST, instruction.form, rater.name.label("judge"))
    statement = select(*columns, *texts).join_from(REQUEST, RATER).join(PAIR).join(INSTRUCTION)
    wanted = (request.purpose == "study", request.pair_id.in_(pair_ids))
    rows = db.execute(statement.where(*wanted).order_by(request.id)).all()
    names = {each.name for each in fields(Attempt)} - {"question"}
    return [
        Attempt(question=_question(row, row.number), **{name: getattr(row, name) for name in names})
        for row in rows
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Requests that a provider answers within a day; `provider_id` is None if the run ended before that."""

    name: str
    provider_id: str | None
    sent_at: datetime


def adopt_batches(db: Connection, judge: Rater, run: str, now: datetime) -> tuple[list[Batch], int]:
    """Take the judge's batches that no living run looks after; return its own, and the number of others."""
    unfinished = (_OPEN, request.rater_id == judge.id, request.batch.is_not(None))
    free = request.leased_until <= now
    db.execute(REQUEST.update().where(*unfinished, free).values(run=run, leased_until=now + LEASE))
    columns = (request.batch, request.provider_id, request.run)
    statement = select(*columns, func.min(request.sent_at)).where(*unfinished).group_by(*columns)
    rows = db.execute(statement).all()
    mine = [Batch(name=row[0], provider_id=row[1], sent_at=row[3]) for row in rows if row[2] == run]
    return mine, len(rows) - len(mine)


def read_batch(db: Connection, batch: str) -> dict[str, tuple[int, int | None]]:
    """Return the open requests of a batch: by key their rows, and the most that they can cost."""
    mine = select(request.key, request.id, request.cost).where(request.batch == batch, _OPEN)
    return {row.key: (row.id, row.cost) for row in db.execute(mine)}


def change_batch(db: Connection, batch: str, **values: str | int) -> None:
    """Change the open requests of a batch: the provider's name for it, or their state in the end."""
    db.execute(REQUEST.update().where(request.batch == batch, _OPEN).values(values))


def read_in_batches(db: Connection, judge: str) -> set[str]:
    """Return the keys of the judge's requests in batches that are not done."""
    waiting = (rater.name == judge, _OPEN, request.batch.is_not(None))
    return set(db.execute(select(request.key).join_from(REQUEST, RATER).where(*waiting)).scalars())
