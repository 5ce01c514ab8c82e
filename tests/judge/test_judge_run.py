"""Online runs: failing servers, killed runs and parallel runs lose no answer and pay nothing twice."""

import asyncio
import contextlib
import functools
import math
import random
import signal
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest
import sqlalchemy
from databases import read_all_rows
from fake_openai import make_chat_answer, make_error, make_verdict
from judge_requests import count_judged_presentations, end_leases, read_spending
from refusals import expect_refusal

from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.servers import workers
from guard_eval.servers.price import Price
from guard_eval.store import Store, raters, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging import requests
from guard_eval.store.judging.group_commit import GroupCommit
from guard_eval.store.schema import add_rows, query
from judge import journal as judge_journal
from judge.questions import RequestBuilder, read_unjudged_questions
from judge.recheck import draw_requests_to_recheck
from judge.viewer import read_judged_comparisons

pytestmark = pytest.mark.slow
both = pytest.mark.both_databases


@both
def test_each_pair_gets_a_verdict_in_both_orders(run, store, pairs, server):
    pairs(4)
    counts = run()
    assert (counts.verdicts, counts.requests, dict(counts.failures)) == (8, 8, {})
    assert Counter(row.shown_first for row in unblind.read_tidy_rows(store)) == {"guard": 8, "top_k(k=50)": 8}
    assert run().requests == 0
    assert read_spending(store).usd == pytest.approx(8 * (100 * 2 + 10 * 8) / 1e6)


def test_one_order_halves_requests_and_balances_sides(run, store, pairs):
    pairs(10)
    assert run(orders="one").requests == 10
    first = Counter(row.shown_first for row in unblind.read_tidy_rows(store) if row.criterion == "fluency")
    assert set(first.values()) == {5}
    assert run(orders="one", samples=2, name="twice").requests == 20


@pytest.fixture
def faulty(server):
    """Make the server fail at random: refusals, errors, lost answers and answers without a verdict."""
    drawn, lock = random.Random(3), threading.Lock()

    def act(ask):
        outs = [
            make_error(429, "slow down", headers={"Retry-After": "0.02"}),
            make_error(500, "oops"),
            make_error(503, "oops", drop=True),
            make_verdict(ask, drop=True),
            make_error(504, "gateway"),
            make_chat_answer("I like the first one"),
            make_verdict(ask, delay=0.01),
        ]
        with lock:
            return drawn.choices(outs, [5, 5, 3, 3, 2, 6, 76])[0]

    server.act = act


@both
@pytest.mark.usefixtures("faulty")
def test_server_errors_lose_no_answer_and_pay_nothing_twice(run, store, pairs, server):
    pairs(40)
    counts = run(concurrency=8)
    assert counts.verdicts + counts.failures.total() == 80
    assert counts.verdicts >= 78
    failed_before = counts.failures.total()
    counts = run(concurrency=8)
    assert counts.verdicts + counts.failures.total() == failed_before
    assert server.times_paid == {1}  # a whole answer that arrived is never asked for again


@both
@pytest.mark.usefixtures("faulty")
@pytest.mark.parametrize("budget", [0.03, 0.05, 0.1])
def test_server_errors_never_exceed_the_budget(run, store, pairs, server, budget):
    pairs(40)
    for _ in range(2):
        with contextlib.suppress(StudyError):
            run(concurrency=8, budget_usd=budget)
    paid = (server.paid.total() + server.unseen.total()) * (100 * 2 + 10 * 8) / 1e6
    booked = read_spending(store).usd + read_spending(store).held_usd
    assert paid <= booked <= budget + 1e-9
    assert unblind.read_tidy_rows(store)


@pytest.mark.parametrize("batch", [False, True])
def test_used_up_budget_ends_the_run_and_can_be_raised(run, store, pairs, batch):
    pairs(3)
    with expect_refusal(r"the budget of \$0.011 is used up"):
        run(batch=batch, budget_usd=0.011)  # one request may cost $0.0098, and costs $0.00028
    spent, done = read_spending(store), count_judged_presentations(store)
    assert spent.usd + spent.held_usd <= 0.011
    assert 0 < done < 6
    assert run(batch=batch, budget_usd=1).requests == 6 - done
    assert count_judged_presentations(store) == 6


def test_question_that_waits_for_budget_is_not_forgotten(run, store, judge, pairs, server):
    """The first question reserves the money. The other questions need only stored answers."""
    pairs(6)
    questions = read_unjudged_questions(store, judge, seed=11)
    server.act = lambda _: make_chat_answer("A, I guess")
    run(questions=questions[-2:], output="text", concurrency=1)
    server.act = make_verdict
    spent = read_spending(store)
    for more in range(9, 13):  # thousandths of a dollar; one request may cost about 0.0104
        with expect_refusal("is used up"):
            run(output="text", concurrency=16, budget_usd=spent.usd + spent.held_usd + more / 1000)


def test_unexpectedly_high_cost_ends_a_run_with_budget(run, store, pairs, server):
    pairs(3)
    server.act = lambda ask: make_verdict(ask, tokens=(100, 10_000))
    with expect_refusal(r"a response cost \$0.0802, but at most"):
        run(budget_usd=1)
    assert len(server.asks) == 1
    reporter = Mock()
    with progress.use_reporter(reporter):
        assert run().verdicts == 6
    ((warning,), _) = reporter.warn.call_args
    assert (reporter.warn.call_count, "a response cost $0.0802" in warning) == (1, True)


NO_JSON = [
    make_error(400, "Please adjust your prompt.", code="json_validate_failed", kind="invalid_request_error"),
    make_error(200, "Failed to generate JSON. Please adjust your prompt."),
]


@pytest.mark.parametrize("failed", NO_JSON)
def test_answer_blocked_by_the_server_is_requested_again(run, store, pairs, server, failed):
    """Simulate Groq, which does not say what the answer cost. The money stays reserved."""
    pairs(3)
    server.act = lambda ask: failed if "number 1" in ask.words and len(server.asks) % 2 else make_verdict(ask)
    counts = run(concurrency=1, output="json_schema")
    assert (counts.verdicts, dict(counts.failures)) == (6, {})
    spent = read_spending(store)
    assert spent.answers == counts.requests > 6
    assert spent.unmetered == spent.answers - 6
    assert spent.usd > 6 * (100 * 2 + 10 * 8) / 1e6 + spent.unmetered * 512 * 8 / 1e6
    server.act = lambda _: failed
    pairs(4)
    assert {kind for kind, _ in run(concurrency=1, output="json_schema").failures} == {"unparseable"}


def test_run_repeats_cut_off_answers_with_a_higher_limit(run, store, pairs, server):
    pairs(1)
    server.act = lambda _: make_chat_answer("{", finish="length")
    for limit in (64, 128, 256, 512, 1024):  # more often than an unreadable answer is followed by another
        assert [kind for kind, _ in run(max_output_tokens=limit).failures] == ["truncated"]
    server.act = make_verdict
    assert run(max_output_tokens=1024).requests == 0
    assert run(max_output_tokens=2048).verdicts == 2
    assert run(max_output_tokens=64).requests == 0


def test_timed_out_request_is_not_repeated_at_once(run, store, pairs, server):
    pairs(1)
    server.act = lambda ask: make_verdict(ask, delay=1.0)
    counts = run(concurrency=1, timeout=0.2, orders="one")
    assert [kind for kind, _ in counts.failures] == ["timeout"]
    spent = read_spending(store)
    assert (counts.requests, spent.lost) == (1, 1)
    assert spent.held_usd > 0  # the server may ask for its money
    assert run(concurrency=1, timeout=20.0, orders="one").verdicts == 1


@pytest.fixture
def short_lease(monkeypatch):
    for module in (requests, judge_journal):
        monkeypatch.setattr(module, "LEASE", timedelta(seconds=0.6))


@both
@pytest.mark.usefixtures("short_lease")
def test_run_waits_one_lease_if_the_clock_was_set_back(run, store, pairs, server):
    pairs(1)
    server.act = lambda ask: make_verdict(ask, delay=1.0)
    run(concurrency=1, timeout=0.2, orders="one")
    with store.begin_write() as (db, now):
        reopen = query("UPDATE request SET state = 'open', leased_until = :until")
        reopen(db, until=now + timedelta(hours=1))
    server.act = make_verdict
    reporter = Mock()
    with progress.use_reporter(reporter):
        assert run(orders="one").verdicts == 1
    reporter.show_notice.assert_called_once_with("waiting for open requests of this run or of another run")


@pytest.mark.usefixtures("short_lease")
def test_slow_answer_is_stored_under_a_renewed_lease(run, store, pairs, server):
    """An answer takes four times the lease. The lease is renewed, so no other run counts it as lost."""
    pairs(1)
    server.act = lambda ask: make_verdict(ask, delay=2.5)
    other = threading.Timer(1.5, run, kwargs={"orders": "one"})
    other.start()
    counts = run(orders="one")
    other.join()
    assert (counts.verdicts, server.count("chat"), read_spending(store).lost) == (1, 1, 0)


def test_run_keeps_requests_of_others_if_the_clock_jumps(run, store, pairs, database, server):
    """While a request is under way, the clock is set an hour forward, and another run begins."""
    if not database.startswith("sqlite"):
        pytest.skip("PostgreSQL has the server's clock")
    pairs(1)
    server.act = lambda ask: make_verdict(ask, delay=1.5)
    first = threading.Thread(target=run, kwargs={"orders": "one"})
    first.start()
    while not server.count("chat"):
        time.sleep(0.01)
    with Store.open(database, clock=lambda: datetime.now(UTC) + timedelta(hours=1)) as late:
        run(late, orders="one")
    first.join()
    assert (server.count("chat"), read_spending(store).lost) == (1, 0)


@pytest.mark.usefixtures("short_lease")
def test_lease_that_cannot_be_renewed_ends_the_run(*, run, store, pairs, database, server):
    """Another program locks the database during the first request. The answer is stored."""
    if not database.startswith("sqlite"):
        pytest.skip("a lock of SQLite")
    pairs(2)
    locked = sqlite3.connect(
        database.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False
    )

    def act(ask):
        locked.execute("BEGIN IMMEDIATE")
        threading.Timer(2.0, locked.rollback).start()
        return make_verdict(ask, delay=1.0)

    server.act = act
    with expect_refusal(r"another program has locked .* for .*, so no more requests are"):
        run(concurrency=1)
    assert (len(server.asks), read_spending(store).answers) == (1, 1)
    locked.close()
    server.act = make_verdict
    assert run(concurrency=1).requests == 3


@pytest.mark.parametrize("concurrency", [1, 4])
def test_paid_answers_are_stored_when_the_database_is_back(
    *, run, store, pairs, server, monkeypatch, concurrency
):
    """The database is away for some time, and answers to requests that were already sent arrive."""
    pairs(4)
    begin_write = Store.begin_write
    back_at = math.inf

    def begin_write_later(store):
        nonlocal back_at
        is_answered = len(server.asks) >= 3
        back_at = min(back_at, time.monotonic() + 0.5) if is_answered else back_at
        if is_answered and time.monotonic() < back_at:
            raise StudyError("cannot use the database")
        return begin_write(store)

    server.act = lambda ask: make_verdict(ask, delay=0.1)
    monkeypatch.setattr(Store, "begin_write", begin_write_later)
    monkeypatch.setattr(workers, "STORE_PAUSES_SECONDS", [25.0] * 3)  # 0.5 seconds at the pace of tests
    with contextlib.suppress(StudyError):
        run(concurrency=concurrency)
    assert read_spending(store).answers == len(server.asks) >= 3
    end_leases(store)
    run(concurrency=concurrency)
    assert (count_judged_presentations(store), server.times_paid) == (8, {1})


def test_answer_with_a_lost_confirmation_is_stored_once(run, store, pairs, server, monkeypatch):
    """The database commits an answer, and its confirmation is lost."""
    pairs(1)
    store_results = requests.store_request_results
    begin_write = Store.begin_write
    lost = []

    @contextlib.contextmanager
    def lose_first_confirmation(store):
        with begin_write(store) as transaction:
            yield transaction
        if lost == ["answer"]:
            lost.append("confirmation")
            raise StudyError("cannot use the database")

    def store_and_note(db, now, results):
        store_results(db, now, results)
        lost.extend(["answer"] if not lost else [])

    monkeypatch.setattr(requests, "store_request_results", store_and_note)
    monkeypatch.setattr(Store, "begin_write", lose_first_confirmation)
    run()
    assert lost == ["answer", "confirmation"]
    assert (count_judged_presentations(store), server.times_paid) == (2, {1})


def test_late_answer_to_a_lost_request_is_used(run, store, pairs, server):
    pairs(1)
    server.act = lambda _: make_chat_answer("", refusal="no")
    run()
    with store.begin_write() as (db, _):
        query("UPDATE request SET state = 'lost'")(db)
    assert run().requests == 0


@both
def test_runs_wait_for_money_that_another_run_reserved(run, store, database, pairs, server):
    """One request may cost $0.0098 and costs $0.00028. So the budget allows one open request."""
    pairs(4)
    server.act = lambda ask: make_verdict(ask, delay=0.2)
    with Store.open(database) as other, ThreadPoolExecutor() as pool:
        for counts in list(pool.map(functools.partial(run, budget_usd=0.0135), (store, other))):
            assert not counts.failures
    assert server.times_paid == {1}
    assert count_judged_presentations(store) == 8


def test_budget_needs_a_price(run, pairs):
    pairs(1)
    with expect_refusal("--budget cannot be guaranteed"):
        run(price=Price(online=None, batch=None, source="", assumed=True), budget_usd=1)


@pytest.mark.parametrize(
    ("headers", "words"),
    [({"Retry-After": "1"}, "some requests wait for 1 seconds"), ({}, "some requests wait")],
)
def test_wait_for_a_rate_limit_prints_one_line(*, run, pairs, server, headers, words):
    pairs(20)
    slow = make_error(429, "slow down", headers=headers)
    server.act = lambda ask: slow if 5 < len(server.asks) < 20 else make_verdict(ask)
    reporter = Mock()
    with progress.use_reporter(reporter):
        assert run(concurrency=8).verdicts == 40
    ((line,),) = (call.args for call in reporter.show_notice.call_args_list)
    assert f"{words} (HTTP 429: slow down)" in line


@pytest.mark.parametrize("refuses", [True, False])
def test_run_adapts_to_a_server_of_two_parallel_requests(run, pairs, server, refuses):
    """Simulate a server that answers two requests at once, and refuses or queues the others."""
    pairs(30)
    free = threading.Semaphore(2)

    def act(ask):
        if not free.acquire(blocking=not refuses):
            return make_error(429, "too many")
        time.sleep(0.02)
        free.release()
        return make_verdict(ask)

    server.act = act
    counts = run(concurrency=32, timeout=20.0)
    assert (counts.verdicts, dict(counts.failures)) == (60, {})
    assert server.times_paid == {1}
    assert server.count("chat") < 60 + 300


@both
def test_two_parallel_processes_pay_nothing_twice(*, run, store, database, pairs, server):
    pairs(30)
    server.act = lambda ask: make_verdict(ask, delay=0.03)
    with Store.open(database) as other, ThreadPoolExecutor() as pool:
        counts = list(pool.map(lambda entry: run(entry, concurrency=4), (store, other)))
    assert server.times_paid == {1}
    assert server.paid.total() == 60
    assert sum(entry.requests for entry in counts) == 60


@both
@pytest.mark.parametrize("share", [0.2, 0.7])
def test_killed_run_loses_at_most_the_requests_in_flight(*, run, store, pairs, server, child, share):
    pairs(40)
    server.act = lambda ask: make_verdict(ask, delay=0.05)
    process = child(concurrency=16)
    while server.paid.total() < 80 * share:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(0.3)
    end_leases(store)
    counts = run(concurrency=16)
    assert counts.failures.total() == 0
    assert count_judged_presentations(store) == 80
    assert sum(count - 1 for count in server.paid.values()) <= 16


@both
def test_answer_after_its_lease_does_not_block_next_run(run, store, pairs, server):
    pairs(1)
    server.act = lambda _: make_error(503, drop=True)
    with contextlib.suppress(StudyError):
        run(orders="one")
    with store.begin_write() as (db, now):
        lost = read_all_rows(db, "request")[0]._asdict()
        add_rows(db, "request", [{**lost, "id": lost["id"] + 99, "state": "open"}])
        late = requests.RequestResult(row=lost["id"], state="answered", response=b"late")
        requests.store_request_results(db, now, [late])
        states = {row.id: row.state for row in read_all_rows(db, "request")}
    assert (states[lost["id"]], states[lost["id"] + 99]) == ("lost", "open")


def test_stored_answers_of_many_pairs_take_few_queries(run, store, judge, pairs):
    pairs(20)
    questions = read_unjudged_questions(store, judge, seed=11)
    run()
    builder = RequestBuilder(judge, seed=11)
    state = builder.make_initial_run_state(store)
    queries = []
    sqlalchemy.event.listen(store.engine, "before_cursor_execute", lambda *seen: queries.append(seen[2]))
    assert len(builder.replay_stored_answers(store, questions, state)) == 40
    assert len(draw_requests_to_recheck(store, judge, 15, seed=11)) == 15
    assert len(list(read_judged_comparisons(store, seed=11))) == 20
    assert len([text for text in queries if "SELECT" in text]) < 10


@both
def test_each_request_key_has_at_most_one_open_request(run, store, pairs):
    pairs(1)
    run()
    with store.begin_read() as db:
        row = read_all_rows(db, "request")[0]._asdict()
    del row["id"]
    with pytest.raises(Exception, match=r"(?i)unique"), store.begin_write() as (db, _):
        add_rows(db, "request", [{**row, "state": "open"}])


def test_requests_and_responses_are_stored_as_bytes(run, store, pairs, server):
    pairs(1)
    run(orders="one")
    with store.begin_read() as db:
        (attempt,) = requests.read_requests_about_pairs(db, [store_pairs.read_pairs(store)[0].id])
    assert attempt.sent == server.seen[-1].raw
    assert b'"system_fingerprint": "fp_1"' in attempt.response
    assert attempt.fingerprint == "fp_1"


def test_revoked_judge_is_not_asked(run, store, pairs, judge, server):
    pairs(1)
    raters.get_or_add_rater(store, judge.rater_name, "model")
    raters.decide_about_rater(store, judge.rater_name, "revoke", by="owner")
    with expect_refusal("is revoked or excluded"):
        run()
    assert server.asks == []


def test_full_database_is_an_error_and_stores_nothing(tmp_path):
    """SQLite cancels the whole transaction if the disk is full, also the statements before the error."""

    def write(db, _, sizes):
        for size in sizes:
            db.execute(sqlalchemy.text(f"INSERT INTO t VALUES (zeroblob({size}))"))

    async def fill(store):
        commit = GroupCommit(store)
        writes = [commit.write(functools.partial(write), size) for size in (1, 2_000_000)]
        return await asyncio.gather(*writes, return_exceptions=True)

    with Store.open(f"sqlite:///{tmp_path / 'full.db'}", create=True) as store:
        with store.begin_write() as (db, _):
            db.execute(sqlalchemy.text("CREATE TABLE t (body BLOB)"))
            pages = db.execute(sqlalchemy.text("PRAGMA page_count")).scalar() + 4
        limit = f"PRAGMA max_page_count={pages}"
        sqlalchemy.event.listen(store.engine, "checkout", lambda connection, *_: connection.execute(limit))
        errors = asyncio.run(fill(store))
        assert ["database or disk is full; free some space" in str(error) for error in errors] == [True, True]
        with store.begin_read() as db:
            assert db.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == 0
