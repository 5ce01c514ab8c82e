"""Store the requests to LLM judges. The row of a request is written before sending, and completed once.

A partial unique index allows only one open or answered request per key, so no request is paid twice. `cost`
is the highest possible cost until the answer gives the real cost. The transaction that inserts a row checks
the sum of all costs, so a budget limits all processes together. A run renews the lease of its open requests.
If a run is killed, its leases expire, and another run marks its requests as lost. Their cost stays reserved.

The row of a request in a batch contains the batch's name. The request stays open after the end of its run,
and the next run takes the batch over.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field, fields
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from guard_eval.errors import StudyError
from guard_eval.records import (
    BlindPair,
    Couple,
    HandOutPlan,
    Rater,
    Usage,
    find_declared_part_of_rater,
    make_content_id,
    record,
)
from guard_eval.store import notes
from guard_eval.store.schema import SqlRow, query, split_into_sql_chunks
from guard_eval.store.showings import rounds
from guard_eval.store.showings.rounds import MOST_ROUNDS, PLAYING

LEASE = timedelta(seconds=30)
"""An open request that was not renewed within this time belongs to a killed run, and is lost."""

_JUDGED = query("""
    SELECT presentation.pair_id, presentation.number
    FROM presentation JOIN rater ON rater.id = presentation.rater_id
    WHERE rater.name = :judge AND presentation.rated_at IS NOT NULL
""")

_PAIRS = query(
    f"SELECT id AS pair_id, position, prompt, text_a, text_b FROM pair WHERE {PLAYING}"  # noqa: S608 (constants)
)

_COUNT_OPEN = query(
    f"""
    SELECT method_a, method_b, count(DISTINCT pair.id) AS pairs, count(presentation.rated_at) AS rated
    FROM pair LEFT JOIN rater ON rater.name = :judge
        LEFT JOIN presentation ON presentation.pair_id = pair.id AND presentation.rater_id = rater.id
    WHERE {PLAYING} GROUP BY method_a, method_b
    """  # noqa: S608 (constants)
)

_KEEP_INSTRUCTION = query("""
    INSERT INTO instruction (id, settings, form, manner, prompt, description, text)
    VALUES (:id, :settings, :form, :manner, :prompt, :description, :text)
    ON CONFLICT DO NOTHING
""")

# A form is the interface, the kind of output, and the parameters that were left out. The most frequent form
# comes first, with the number of its verdicts and the highest token limit.
FORMS_WITH_VERDICTS = query("""
    SELECT instruction.form, count(*) AS verdicts, max(request.max_output_tokens) AS max_output_tokens
    FROM request JOIN instruction ON instruction.id = request.instruction
    WHERE instruction.settings = :settings AND request.state = 'answered' AND request.failure IS NULL
    GROUP BY instruction.form ORDER BY count(*) DESC, instruction.form
""")

# A lease ends too late if the clock was set back, or the machine was started again, after the request.
_SHORTEN = query("UPDATE request SET leased_until = :until WHERE state = 'open' AND leased_until > :until")

_LOSE = query("""
    UPDATE request SET state = 'lost' WHERE state = 'open' AND batch IS NULL AND leased_until <= :now
""")

# An answer may be empty.
_LIVE = query("""
    SELECT key, id, response, max_output_tokens, batch FROM request
    WHERE key IN :keys AND (state IN ('open', 'answered') OR response IS NOT NULL)
    ORDER BY response IS NOT NULL
""")

_SPENT = query("SELECT CAST(coalesce(sum(cost), 0) AS BIGINT) FROM request")

_IN_FLIGHT = query("""
    SELECT id FROM request WHERE state = 'open' AND (run = :run OR (batch IS NULL AND :online)) LIMIT 1
""")

_INSERT = query("""
    INSERT INTO request (
        key, rater_id, purpose, pair_id, number, batch, state, instruction, max_output_tokens, sent,
        cost, sent_at, run, leased_until
    ) VALUES (
        :key, :rater, :purpose, :pair, :number, :batch, 'open', :instruction, :max_output_tokens, :sent,
        :cost, :now, :run, :until
    ) RETURNING id
""")

_RENEW = query("UPDATE request SET leased_until = :until WHERE run = :run AND state = 'open'")

# A lease that ended before the answer came stays ended, because another run may use the key now. A stored
# answer stays, because an answer is stored again if the confirmation of its first storage was lost.
_SETTLE = query("""
    UPDATE request SET state = CASE state WHEN 'lost' THEN 'lost' ELSE :state END, response = :response,
        model = :model, fingerprint = :fingerprint, input_tokens = :input_tokens,
        cached_tokens = :cached_tokens, output_tokens = :output_tokens, reasoning_tokens = :reasoning_tokens,
        cost = coalesce(:cost, cost), failure = :failure, detail = :detail
    WHERE id = :row AND response IS NULL
""")

_NOTE_FAILURE = query("UPDATE request SET failure = :failure, detail = :detail WHERE id = :row")

JUDGED_CRITERIA = query("""
    SELECT DISTINCT verdict.criterion FROM verdict
    JOIN presentation ON presentation.id = verdict.presentation_id
    JOIN rater ON rater.id = presentation.rater_id
    WHERE rater.name = :judge
""")

_FAILURES = query("""
    SELECT rater.name AS judge, request.pair_id, request.number, request.failure, request.detail
    FROM request JOIN rater ON rater.id = request.rater_id
    WHERE request.purpose = 'study' AND request.failure IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM presentation
        WHERE presentation.rater_id = request.rater_id AND presentation.pair_id = request.pair_id
            AND presentation.number = request.number AND presentation.rated_at IS NOT NULL
    )
    ORDER BY request.id
""")

_ATTEMPTS = query("""
    SELECT rater.name AS judge, request.state, instruction.form, request.instruction,
        request.max_output_tokens, request.sent, request.sent_at, request.response, request.cost,
        request.failure, request.detail, request.model, request.fingerprint, request.input_tokens,
        request.cached_tokens, request.output_tokens, request.reasoning_tokens,
        request.pair_id, request.number, pair.position, pair.prompt, pair.text_a, pair.text_b
    FROM request
    JOIN rater ON rater.id = request.rater_id
    JOIN instruction ON instruction.id = request.instruction
    JOIN pair ON pair.id = request.pair_id
    WHERE request.purpose = 'study' AND request.pair_id IN :pairs
    ORDER BY request.id
""")

_ADOPT = query("""
    UPDATE request SET run = :run, leased_until = :until
    WHERE state = 'open' AND rater_id = :rater AND batch IS NOT NULL AND leased_until <= :now
""")

_BATCHES = query("""
    SELECT DISTINCT batch, provider_id, run FROM request
    WHERE state = 'open' AND rater_id = :rater AND batch IS NOT NULL
""")

_BATCH = query("SELECT key, id, cost, sent_at FROM request WHERE state = 'open' AND batch = :batch")

KEYS_IN_BATCHES = query("""
    SELECT request.key FROM request JOIN rater ON rater.id = request.rater_id
    WHERE rater.name = :judge AND request.state = 'open' AND request.batch IS NOT NULL
""")


@record
class CalibrationCheck:
    """The purpose of a calibration question.

    Attributes:
        check: The name of the check, such as `identical`.
        target: The side of the text that the check is about: the unshuffled text, the padded text, the text
            of the study's first method, or, for identical texts, the first text.
        orders: The number of orders in which the same texts are shown.
    """

    check: str
    target: Literal["A", "B"]
    orders: int


@record
class Question:
    """A question to a judge: the texts of a pair in one order.

    Attributes:
        pair_id: The id of the study's pair.
        number: 2k and 2k + 1 for the k-th sample in the two orders. In a calibration, the questions about a
            pair are numbered.
        first: The text of the pair, a or b, that is shown as A.
        blind: The two texts in the order in which they are shown.
        check: The purpose of a calibration question; None if the question is for a verdict of the study.
    """

    pair_id: str
    number: int
    blind: BlindPair
    first: Literal["a", "b"] = "a"
    check: CalibrationCheck | None = None

    @property
    def purpose(self) -> Literal["study", "calibration"]:
        """Return the question's purpose: a verdict of the study, or the judge's calibration."""
        return "study" if self.check is None else "calibration"


@record
class Instruction:
    """A judge's whole request with placeholders for the texts of a pair: a row of the table `instruction`."""

    id: str
    settings: str
    form: str
    manner: str
    prompt: str
    description: str
    text: str


@record
class PlannedRequest:
    """A request that is not sent yet. `cost` is the highest possible cost in billionths of a US dollar."""

    question: Question
    key: str
    instruction: str
    body: bytes
    max_output_tokens: int
    cost: int


@record
class AnsweredRequest:
    """A request that was answered earlier, with the row, the response and the token limit."""

    row: int
    response: bytes
    max_output_tokens: int


class ReservedRequest(NamedTuple):
    """The row of a request that may be sent now."""

    row: int


class UnavailableRequest(NamedTuple):
    """A request that may not be sent now.

    `busy`: another process is sending the request, or open requests may cost less than reserved.
    `batch`: the request is in a batch. `budget`: the budget is used up.
    """

    reason: Literal["busy", "batch", "budget"]


Reservation = ReservedRequest | AnsweredRequest | UnavailableRequest


@record
class RequestResult:
    """The result of a request: the answer, or the reason why there is none.

    An `unbilled` request certainly costs nothing. `cost` is in billionths of a US dollar; None keeps the
    reserved amount. `failure` is a `guard_eval.servers.failures.FailureKind`; `detail` describes the failure
    in words.
    """

    row: int
    state: Literal["answered", "unbilled", "lost"]
    response: bytes | None = None
    usage: Usage = field(default_factory=Usage)
    cost: int | None = None
    failure: str | None = None
    detail: str | None = None

    def make_row(self) -> dict[str, object]:
        """Return the values that complete the request's row in the table `request`."""
        cost = 0 if self.state == "unbilled" else self.cost
        return {**asdict(self), **asdict(self.usage), "cost": cost}


def check_judge_may_rate(db: Connection, judge: Rater) -> None:
    """Check that a judge is neither revoked nor excluded.

    Raises:
        StudyError: The judge is revoked or excluded.
    """
    if notes.read_rater_status(db, judge).is_out:
        raise StudyError(
            f"the judge {judge.name!r} is revoked or excluded; give the judge another name in study.toml"
        )


def read_open_questions(
    db: Connection, judge_name: str, plan: HandOutPlan, *, ahead: int = MOST_ROUNDS
) -> list[Question]:
    """Return the open questions of the judge with this name. Questions that failed earlier come last.

    In a study with rounds, the questions are from the finished rounds and the next `ahead` rounds. Some
    comparisons may stop before these rounds.

    The study's seed decides the order of pairs for each judge. A judge with one order gets only even or only
    odd question numbers for a pair; neighbouring pairs alternate.
    """
    rated = {(row.pair_id, row.number) for row in _JUDGED(db, judge=judge_name)}
    failures = read_question_failures(db)
    rows = _PAIRS(db, part=find_declared_part_of_rater(judge_name, "model"), ahead=ahead)
    pairs = sorted(rows, key=lambda row: make_content_id(plan.seed, judge_name, row.pair_id))
    questions = [
        _make_question(row, number)
        for row in pairs
        for number in _list_question_numbers(plan, row.position)
        if (row.pair_id, number) not in rated
    ]
    return sorted(questions, key=lambda question: (judge_name, question.pair_id, question.number) in failures)


def count_open_questions(db: Connection, judge_name: str, *, per_pair: int) -> dict[Couple, int]:
    """Count the questions of a judge without a verdict, `per_pair` for each pair, by couple of methods.

    In a study with rounds, fewer questions may be asked, because comparisons can stop early.
    """
    rows = _COUNT_OPEN(
        db, judge=judge_name, part=find_declared_part_of_rater(judge_name, "model"), ahead=MOST_ROUNDS
    )
    return {(row.method_a, row.method_b): max(0, row.pairs * per_pair - row.rated) for row in rows}


def read_due_questions(db: Connection, now: datetime, judge_name: str, plan: HandOutPlan) -> list[Question]:
    """Return the questions that are due now for the judge with this name.

    A round is over when only failed questions remain. Prompts with a failed question do not count in the
    round.
    """
    failures = read_question_failures(db)
    questions = read_open_questions(db, judge_name, plan, ahead=1)
    while plan.rounds is not None and all(
        (judge_name, question.pair_id, question.number) in failures for question in questions
    ):
        if not rounds.close_round(db, now, find_declared_part_of_rater(judge_name, "model"), plan.rounds):
            break
        questions = read_open_questions(db, judge_name, plan, ahead=1)
    return questions


def _make_question(row: SqlRow, number: int) -> Question:
    """Make a question about a pair; the number decides which text is shown as A."""
    turned = (number + row.position) % 2 == 1
    texts = (row.text_b, row.text_a) if turned else (row.text_a, row.text_b)
    blind = BlindPair.from_texts(0, row.prompt, *texts)
    return Question(pair_id=row.pair_id, number=number, first="b" if turned else "a", blind=blind)


def _list_question_numbers(plan: HandOutPlan, position: int) -> range:
    """Return the numbers of the questions about the pair at a position."""
    drawn = int(make_content_id(plan.seed, "order", position // 2), 16) % 2
    return range(drawn, plan.slots, 2) if plan.one_order else range(plan.slots)


def store_instruction(db: Connection, instruction: Instruction) -> None:
    """Store a judge's instruction, unless it is already stored."""
    _KEEP_INSTRUCTION(db, **asdict(instruction))


def _read_lease_clock(db: Connection, now: datetime) -> datetime:
    """Return the time for leases. Runs on an SQLite file share a machine, which has a clock that nobody sets.

    If the usual clock is set forward by half a minute, the leases of requests under way would end.
    """
    return datetime.fromtimestamp(time.monotonic(), UTC) if db.dialect.name == "sqlite" else now


def reserve_requests(
    db: Connection,
    now: datetime,
    planned: Sequence[PlannedRequest],
    *,
    judge: Rater,
    run: str,
    limit: int | None,
    batch: str | None = None,
) -> list[Reservation]:
    """Insert the rows of requests that may be sent; return the outcome of each request.

    Call this function within a write transaction. `limit` is the highest total
    cost of all requests of the study, in billionths of a US dollar. `batch` is the batch's name, if the
    requests are in a batch.
    """
    clock = _read_lease_clock(db, now)
    _SHORTEN(db, until=clock + LEASE)
    # runs with an expired lease were killed, and their requests may have cost money
    _LOSE(db, now=clock)
    live: dict[str, Reservation] = dict(read_active_requests(db, [request.key for request in planned]))
    spent = 0 if limit is None else _SPENT(db).scalar_one()
    waits = limit is not None and _IN_FLIGHT(db, run=run, online=batch is None).first() is not None
    same = {"rater": judge.id, "batch": batch, "run": run, "now": now, "until": clock + LEASE}
    outcomes: list[Reservation] = []
    for request in planned:
        outcome = live.get(request.key)
        if outcome is None and limit is not None and spent + request.cost > limit:
            outcome = UnavailableRequest("busy" if waits else "budget")
        if outcome is None:
            question = request.question
            inserted = _INSERT(
                db,
                **same,
                key=request.key,
                purpose=question.purpose,
                pair=question.pair_id,
                number=question.number,
                instruction=request.instruction,
                max_output_tokens=request.max_output_tokens,
                sent=request.body,
                cost=request.cost,
            )
            outcome = ReservedRequest(inserted.scalar_one())
            live[request.key] = UnavailableRequest("busy")
            waits = True
            spent += request.cost
        outcomes.append(outcome)
    return outcomes


def read_active_requests(
    db: Connection, keys: Sequence[str]
) -> Iterator[tuple[str, AnsweredRequest | UnavailableRequest]]:
    """Yield requests with these keys: first requests under way or in a batch, then answered requests."""
    for some_keys in split_into_sql_chunks(keys):
        for row in _LIVE(db, keys=some_keys):
            if row.response is None:
                yield row.key, UnavailableRequest("busy" if row.batch is None else "batch")
            else:
                tokens = row.max_output_tokens
                yield row.key, AnsweredRequest(row=row.id, response=row.response, max_output_tokens=tokens)


def renew_lease(db: Connection, now: datetime, leases: Sequence[timedelta], *, run: str) -> None:
    """Let the leases of a run's open requests end after the last of these times from now."""
    _RENEW(db, run=run, until=_read_lease_clock(db, now) + leases[-1])


def store_request_results(db: Connection, _now: datetime, results: Sequence[RequestResult]) -> None:
    """Complete the rows of requests: store the answers with their costs, and free unused reserved amounts."""
    if rows := [result.make_row() for result in results]:
        _SETTLE(db, rows)


def store_answer_failures(db: Connection, _now: datetime, failures: Sequence[tuple[int, str, str]]) -> None:
    """Store why answers gave no verdict: the request's row, the kind of failure, and a sentence."""
    _NOTE_FAILURE(db, [{"row": row, "failure": kind, "detail": words} for row, kind, words in failures])


def read_question_failures(db: Connection) -> dict[tuple[str, str, int], tuple[str, str]]:
    """Return the last failure of each question without a verdict: the kind of failure, and a sentence.

    The keys are the judge, the pair's id and the question's number.
    """
    rows = _FAILURES(db)
    return {(row.judge, row.pair_id, row.number): (row.failure, row.detail) for row in rows}


@record
class Attempt(Usage):
    """A request that was sent, and the result. Until the answer arrives, `cost` is the reserved amount."""

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


_ATTEMPT = {column.name for column in fields(Attempt)} - {"question"}


def read_requests_about_pairs(db: Connection, pair_ids: Sequence[str]) -> list[Attempt]:
    """Return the requests to judges about these pairs, oldest first, without calibration."""
    attempts = []
    for row in _ATTEMPTS(db, pairs=pair_ids):
        values = {name: getattr(row, name) for name in _ATTEMPT}
        attempts.append(Attempt(question=_make_question(row, row.number), **values))
    return attempts


@record
class Batch:
    """A batch of requests. `provider_id` is None if the run ended before the provider returned an id."""

    name: str
    provider_id: str | None


def take_over_batches_of_ended_runs(
    db: Connection, judge: Rater, run: str, now: datetime
) -> tuple[list[Batch], int]:
    """Take over a judge's batches of ended runs; return these, and the number of batches of other runs."""
    clock = _read_lease_clock(db, now)
    _SHORTEN(db, until=clock + LEASE)
    _ADOPT(db, rater=judge.id, run=run, now=clock, until=clock + LEASE)
    rows = _BATCHES(db, rater=judge.id).all()
    mine = [Batch(name=row.batch, provider_id=row.provider_id) for row in rows if row.run == run]
    return mine, len(rows) - len(mine)


def read_open_requests(db: Connection, batch: str) -> dict[str, SqlRow]:
    """Return the `id`, the highest possible `cost` and `sent_at` of each open request in a batch, by key."""
    return {row.key: row for row in _BATCH(db, batch=batch)}


def update_open_requests_of_batch(db: Connection, batch: str, **values: str | int) -> None:
    """Change the open requests of a batch: set the provider's id of the batch, or the final state."""
    changes = ", ".join(f"{name} = :{name}" for name in values)
    of_batch = f"UPDATE request SET {changes} WHERE batch = :batch AND state = 'open'"  # noqa: S608 (our names)
    query(of_batch)(db, batch=batch, **values)
