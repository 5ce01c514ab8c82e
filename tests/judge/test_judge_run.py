"""Runs over a server that fails, is killed, or is asked by several at once: nothing is paid twice or lost."""

import asyncio
import contextlib
import functools
import gc
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest.mock import Mock

import pytest
import sqlalchemy
from fake_openai import completion, failure, verdict
from judge_requests import end_leases, judged_in, spent_by

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.servers.form import Form
from guard_eval.store import Store, raters, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging import requests
from guard_eval.store.sql.schema import add_rows, query
from guard_eval.store.sql.sqlite_files import select_all
from judge import journal as judge_journal
from judge.questions import RequestBuilder, read_unjudged

pytestmark = pytest.mark.slow
both = pytest.mark.both_databases


@both
def test_each_pair_gets_a_verdict_in_both_orders(run, store, pairs, server):
    pairs(4)
    ledger = run()
    assert (ledger.verdicts, ledger.requests, dict(ledger.failures)) == (8, 8, {})
    assert Counter(row.shown_first for row in unblind.read_tidy_rows(store)) == {"guard": 8, "top_k(k=50)": 8}
    assert run().requests == 0
    assert spent_by(store).usd == pytest.approx(8 * (100 * 2 + 10 * 8) / 1e6)


def test_one_order_halves_the_requests_and_balances_sides(run, store, pairs):
    pairs(10)
    assert run(orders="one").requests == 10
    first = Counter(row.shown_first for row in unblind.read_tidy_rows(store) if row.criterion == "fluency")
    assert set(first.values()) == {5}
    assert run(orders="one", samples=2, name="twice").requests == 20


@pytest.fixture
def faulty(server):
    """Fail now and then: refuse, break, cut off before and after paying, and talk."""
    drawn, lock = random.Random(3), threading.Lock()

    def act(ask):
        outs = [
            failure(429, "slow down", headers={"Retry-After": "0.02"}),
            failure(500, "oops"),
            failure(503, "oops", drop=True),
            verdict(ask, drop=True),
            failure(504, "gateway"),
            completion("I like the first one"),
            verdict(ask, delay=0.01),
        ]
        with lock:
            return drawn.choices(outs, [5, 5, 3, 3, 2, 6, 76])[0]

    server.act = act


@both
@pytest.mark.usefixtures("faulty")
def test_server_errors_lose_no_answer_and_repeat_no_payment(run, store, pairs, server):
    pairs(40)
    ledger = run(concurrency=8)
    assert ledger.verdicts + ledger.failures.total() == 80
    assert ledger.verdicts >= 78
    failed_before = ledger.failures.total()
    ledger = run(concurrency=8)
    assert ledger.verdicts + ledger.failures.total() == failed_before
    assert server.times_paid == {1}  # a whole answer that arrived is never asked for again


@both
@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("budget", [0.03, 0.05, 0.1])
def test_a_budget_is_never_exceeded_whatever_fails(run, store, pairs, server, budget):
    pairs(40)
    for _ in range(2):
        with contextlib.suppress(StudyError):
            run(concurrency=8, budget_usd=budget)
    paid = (server.paid.total() + server.unseen.total()) * (100 * 2 + 10 * 8) / 1e6
    booked = spent_by(store).usd + spent_by(store).held_usd
    assert paid <= booked <= budget + 1e-9
    assert unblind.read_tidy_rows(store)


@pytest.mark.parametrize("batch", [False, True])
def test_a_used_up_budget_is_reported_and_can_be_raised(run, store, pairs, batch):
    pairs(3)
    with pytest.raises(StudyError, match=r"the budget of \$0.011 is used up"):
        run(batch=batch, budget_usd=0.011)  # one request may cost $0.0098, and costs $0.00028
    spent, done = spent_by(store), judged_in(store)
    assert spent.usd + spent.held_usd <= 0.011
    assert 0 < done < 6
    assert run(batch=batch, budget_usd=1).requests == 6 - done
    assert judged_in(store) == 6


def test_a_question_that_waits_for_budget_is_not_forgotten(run, store, judge, pairs, server):
    """The first question takes the money; then all that goes on is to read answers that were paid before."""
    pairs(6)
    questions = read_unjudged(store, judge, seed=11)
    server.act = lambda _: completion("A, I guess")
    run(questions=questions[-2:], output="text", concurrency=1)
    server.act = verdict
    spent = spent_by(store)
    for more in range(9, 13):  # thousandths of a dollar; one request may cost about 0.0104
        with pytest.raises(StudyError, match="is used up"):
            run(output="text", concurrency=16, budget_usd=spent.usd + spent.held_usd + more / 1000)


def test_an_unexpectedly_high_charge_ends_a_budgeted_run(run, store, pairs, server):
    pairs(3)
    server.act = lambda ask: verdict(ask, tokens=(100, 10_000))
    with pytest.raises(StudyError, match=r"a response cost \$0.0802, where at most"):
        run(budget_usd=1)
    assert len(server.asks) == 1
    reporter = Mock()
    with progress.use_reporter(reporter):
        assert run().verdicts == 6
    ((warning,), _) = reporter.warn.call_args
    assert (reporter.warn.call_count, "a response cost $0.0802" in warning) == (1, True)


NO_JSON = [
    failure(400, "Please adjust your prompt.", code="json_validate_failed", kind="invalid_request_error"),
    failure(200, "Failed to generate JSON. Please adjust your prompt."),
]


@pytest.mark.parametrize("failed", NO_JSON)
def test_an_answer_blocked_by_the_server_is_requested_again(run, store, pairs, server, failed):
    """As Groq does it: nobody says what it cost, so its money stays set aside."""
    pairs(3)
    server.act = lambda ask: failed if "number 1" in ask.words and len(server.asks) % 2 else verdict(ask)
    ledger = run(concurrency=1, output="json_schema")
    assert (ledger.verdicts, dict(ledger.failures)) == (6, {})
    spent = spent_by(store)
    assert spent.answers == ledger.requests > 6
    assert spent.unmetered == spent.answers - 6
    assert spent.usd > 6 * (100 * 2 + 10 * 8) / 1e6 + spent.unmetered * 512 * 8 / 1e6
    server.act = lambda _: failed
    pairs(4)
    assert {kind for kind, _ in run(concurrency=1, output="json_schema").failures} == {"unparseable"}


def test_an_answer_without_token_counts_is_not_free(run, store, pairs, server):
    pairs(3)
    server.act = lambda ask: verdict(ask, tokens=(0, 0))
    with pytest.raises(StudyError, match="is used up"):
        run(budget_usd=0.03)  # one request may cost about $0.01
    spent = spent_by(store)
    assert (spent.answers, spent.unmetered) == (2, 2)
    assert 0.018 < spent.usd <= 0.03


def test_a_run_repeats_cut_off_answers_with_a_higher_limit(run, store, pairs, server):
    pairs(1)
    server.act = lambda _: completion("{", finish="length")
    for limit in (64, 128, 256, 512, 1024):  # more often than an unreadable answer is followed by another
        assert [kind for kind, _ in run(max_output_tokens=limit).failures] == ["truncated"]
    server.act = verdict
    assert run(max_output_tokens=1024).requests == 0
    assert run(max_output_tokens=2048).verdicts == 2
    assert run(max_output_tokens=64).requests == 0


def test_a_timed_out_request_is_not_repeated_at_once(run, store, pairs, server):
    pairs(1)
    server.act = lambda ask: verdict(ask, delay=1.0)
    ledger = run(concurrency=1, timeout=0.2, orders="one")
    assert [kind for kind, _ in ledger.failures] == ["timeout"]
    spent = spent_by(store)
    assert (ledger.requests, spent.lost) == (1, 1)
    assert spent.held_usd > 0  # the server may ask for its money
    assert run(concurrency=1, timeout=20.0, orders="one").verdicts == 1


@pytest.fixture
def short_lease(monkeypatch):
    for module in (requests, judge_journal):
        monkeypatch.setattr(module, "LEASE", timedelta(seconds=0.6))


@pytest.mark.usefixtures("short_lease")
def test_an_answer_long_after_its_lease_is_stored(run, store, pairs, server):
    """As one of 130 s under a lease of 30, which is renewed, so no other run counts the request as lost."""
    pairs(1)
    server.act = lambda ask: verdict(ask, delay=2.5)
    other = threading.Timer(1.5, run, kwargs={"orders": "one"})
    other.start()
    ledger = run(orders="one")
    other.join()
    assert (ledger.verdicts, server.count("chat"), spent_by(store).lost) == (1, 1, 0)


@pytest.mark.usefixtures("short_lease")
def test_a_lease_that_cannot_be_renewed_ends_the_run(*, run, store, pairs, database, server):
    """Another program locks the database while the first answer is awaited; that answer is kept."""
    if not database.startswith("sqlite"):
        pytest.skip("a lock of SQLite")
    pairs(2)
    locked = sqlite3.connect(
        database.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )

    def act(ask):
        locked.execute("BEGIN IMMEDIATE")
        threading.Timer(2.0, locked.rollback).start()
        return verdict(ask, delay=1.0)

    server.act = act
    with pytest.raises(StudyError, match=r"another program has kept .* locked for .*, so no more is sent"):
        run(concurrency=1)
    assert (len(server.asks), spent_by(store).answers) == (1, 1)
    locked.close()
    server.act = verdict
    assert run(concurrency=1).requests == 3


def test_an_error_of_all_workers_is_reported_once(run, pairs, server, caplog):
    pairs(20)
    server.act = lambda ask: failure(401) if len(server.asks) > 1 else verdict(ask)
    with pytest.raises(StudyError, match="does not accept the key"):
        run(concurrency=8)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_late_answer_to_a_lost_request_is_used(run, store, pairs, server):
    pairs(1)
    server.act = lambda _: completion("", refusal="no")
    run()
    with store.write() as (db, _):
        query("UPDATE request SET state = 'lost'")(db)
    assert run().requests == 0


def test_a_budget_needs_a_price(run, pairs):
    pairs(1)
    with pytest.raises(StudyError, match="--budget cannot be kept"):
        run(price=None, budget_usd=1)


@pytest.mark.parametrize(
    ("headers", "words"), [({"Retry-After": "1"}, "some wait for 1 seconds"), ({}, "some wait")]
)
def test_a_wait_for_a_rate_limit_is_one_line(*, run, pairs, server, headers, words):
    pairs(20)
    slow = failure(429, "slow down", headers=headers)
    server.act = lambda ask: slow if 5 < len(server.asks) < 20 else verdict(ask)
    reporter = Mock()
    with progress.use_reporter(reporter):
        assert run(concurrency=8).verdicts == 40
    ((line,),) = (call.args for call in reporter.show_notice.call_args_list)
    assert words in line
    assert "slow down" in line


@pytest.mark.parametrize("refuses", [True, False])
def test_a_server_of_two_parallel_requests_answers_all(run, pairs, server, refuses):
    """It does two requests at once, and refuses or queues the others."""
    pairs(30)
    free = threading.Semaphore(2)

    def act(ask):
        if not free.acquire(blocking=not refuses):
            return failure(429, "too many")
        time.sleep(0.02)
        free.release()
        return verdict(ask)

    server.act = act
    ledger = run(concurrency=32, timeout=20.0)
    assert (ledger.verdicts, dict(ledger.failures)) == (60, {})
    assert server.times_paid == {1}
    assert server.count("chat") < 60 + 300


@both
def test_two_processes_share_the_work_and_pay_nothing_twice(*, run, store, database, pairs, server):
    pairs(30)
    server.act = lambda ask: verdict(ask, delay=0.03)
    with Store.open(database) as other, ThreadPoolExecutor() as pool:
        ledgers = list(pool.map(lambda entry: run(entry, concurrency=4), (store, other)))
    assert server.times_paid == {1}
    assert server.paid.total() == 60
    assert sum(entry.requests for entry in ledgers) == 60


@both
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_a_killed_run_loses_at_most_the_requests_in_flight(*, run, store, pairs, server, child, share):
    pairs(40)
    server.act = lambda ask: verdict(ask, delay=0.05)
    process = child(concurrency=16)
    while server.paid.total() < 80 * share:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.3)
    end_leases(store)
    ledger = run(concurrency=16)
    assert ledger.failures.total() == 0
    assert judged_in(store) == 80
    assert sum(count - 1 for count in server.paid.values()) <= 16


@both
def test_an_answer_after_its_lease_does_not_block_the_next_run(store, pairs, judge):
    pairs(1)
    rater = raters.get_or_add(store, judge.rater_name, "model")
    question, _ = read_unjudged(store, judge, seed=11)
    sent = RequestBuilder(judge, seed=11).describe(Form(), max_output_tokens=9)
    same = {"key": "k", "instruction": sent.id, "body": b"q", "max_output_tokens": 9, "cost": 5}
    planned = [requests.PlannedRequest(question=question, **same)]
    with store.write() as (db, now):
        requests.keep_instruction(db, sent)
        runs = {"killed": now, "next": now + requests.LEASE}
        rows = [
            requests.reserve_requests(db, planned, judge=rater, run=run, now=moment, limit=None)[0].row
            for run, moment in runs.items()
        ]
        requests.settle_requests(
            db, now, [requests.RequestResult(row=rows[0], state="answered", response=b"late")]
        )
        states = {row.run: row.state for row in select_all("request")(db)}
    assert states == {"killed": "lost", "next": "open"}


@both
def test_each_request_key_has_at_most_one_open_request(run, store, pairs):
    pairs(1)
    run()
    with store.read() as db:
        row = select_all("request")(db).first()._asdict()
    del row["id"]
    with pytest.raises(Exception, match=r"(?i)unique"), store.write() as (db, _):
        add_rows(db, "request", [{**row, "state": "open"}])


def test_raw_bytes_of_requests_and_responses_are_stored(run, store, pairs, server):
    pairs(1)
    run(orders="one")
    with store.read() as db:
        (attempt,) = requests.read_attempts(db, [store_pairs.read(store)[0].id])
    assert attempt.sent == server.seen[-1].raw
    assert b'"system_fingerprint": "fp_1"' in attempt.response
    assert attempt.fingerprint == "fp_1"


def test_a_revoked_judge_is_not_asked(run, store, pairs, judge, server):
    pairs(1)
    raters.get_or_add(store, judge.rater_name, "model")
    raters.revoke(store, judge.rater_name)
    with pytest.raises(StudyError, match="is revoked or excluded"):
        run()
    assert server.asks == []


def test_a_full_database_is_reported_and_nothing_is_stored(tmp_path, judge):
    """SQLite ends the whole transaction at a statement that finds no room: what came before it is lost."""

    def write(db, _, sizes):
        for size in sizes:
            db.execute(sqlalchemy.text(f"INSERT INTO t VALUES (zeroblob({size}))"))

    async def fill(store):
        journal = judge_journal.Journal(store, judge, settings="s", limit=None)
        kinds = [functools.partial(write), functools.partial(write)]
        writes = [journal.write(kind, size) for kind, size in zip(kinds, (1, 2_000_000), strict=True)]
        return await asyncio.gather(*writes, return_exceptions=True)

    with Store.open(f"sqlite:///{tmp_path / 'full.db'}", create=True) as store:
        with store.write() as (db, _):
            db.execute(sqlalchemy.text("CREATE TABLE t (body BLOB)"))
            pages = db.execute(sqlalchemy.text("PRAGMA page_count")).scalar() + 4
        limit = f"PRAGMA max_page_count={pages}"
        sqlalchemy.event.listen(store.engine, "checkout", lambda connection, *_: connection.execute(limit))
        errors = asyncio.run(fill(store))
        assert ["database or disk is full; free some space" in str(error) for error in errors] == [True, True]
        with store.read() as db:
            assert db.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == 0
