"""A budget is never exceeded, whatever is in flight and whatever happens to it: 100 random runs.

The server is a coroutine that answers, refuses, loses and overloads by chance, and charges as it likes up to
what a request allows; what it charged is counted there, and not by the judge.
"""

import asyncio
import contextlib
import json
import random
import threading
from datetime import UTC, datetime, timedelta

import pytest

from guard_eval.errors import StudyError
from guard_eval.store import Answer, PlannedRequest, Reservation, Settlement, Usage
from guard_eval.study.settings import Judge
from judge.backend import JudgeRequest, Response
from judge.failures import JudgeError, Retry
from judge.providers.envelopes import read_usage
from judge.run import run_judge

IN_USD, OUT_USD = 3.0, 11.0
"""Per million tokens."""


class Casino:
    """Charges a random amount for whatever it gets, and may lose the answer afterwards."""

    style = "chat"
    url = "http://casino/v1"

    def __init__(self, chance, faults):
        self.chance = chance
        self.faults = faults
        self.charged = 0.0
        self.in_flight = self.most = 0
        self.notices = []

    def build(self, showing, *, again=0):
        blind = showing.blind
        body = json.dumps([blind.presentation, blind.prompt, showing.sample, again]).encode()
        return JudgeRequest(key=body.hex(), body=body, shape="", max_output_tokens=500)

    async def send(self, question):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        for _ in range(self.chance.randrange(40)):
            await asyncio.sleep(0)
        self.in_flight -= 1
        draw = self.chance.random()
        if draw < self.faults:
            kind = self.chance.choice(["rate_limited", "server_error"])
            return JudgeError(kind=kind, detail="")
        tokens = self.chance.randint(1, len(question.body)), self.chance.randint(1, 500)
        self.charged += (tokens[0] * IN_USD + tokens[1] * OUT_USD) / 1e6
        if draw < 1.5 * self.faults:
            return JudgeError(kind="transport", detail="", billed="perhaps")
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        body = json.dumps({"choices": [{}], "usage": usage if draw < 0.9 else None}).encode()
        return Response(body=body, usage=read_usage(body), request_id=None, seconds=0.0, at=datetime.now(UTC))

    def parse(self, showing, body, *, shape):
        if self.chance.random() < self.faults / 2:
            return JudgeError(kind="unparseable", detail="")
        return {"fluency": "A"}

    async def close(self):
        pass


def play(store, number, *, faults, budget):
    """Let a new judge rate all there is with so much more money; return what it was charged."""
    casino = Casino(random.Random(number), faults)
    judge = Judge(
        model=f"model {number}",
        base_url=casino.url,
        criteria=["fluency"],
        concurrency=64,
        usd_per_million_input_tokens=IN_USD,
        usd_per_million_output_tokens=OUT_USD,
    )
    booked = sum(spend.usd + spend.held_usd for spend in store.spending())
    ended = False
    try:
        run_judge(
            store,
            judge,
            seed=number,
            budget_usd=booked + budget,
            connect=lambda: casino,
            retry=Retry(base=0),
            environ={},
        )
    except StudyError as error:
        ended = "is used up" in str(error)
    mine = next(spend for spend in store.spending() if spend.judge == judge.model)
    return casino, mine, ended


@pytest.mark.slow
@pytest.mark.both_databases
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_it_is_never_exceeded(*, store, database_kind, pairs, monkeypatch, faults, pair):
    monkeypatch.setattr("judge.journal.GATHER", 0)
    monkeypatch.setattr("judge.rate_limit.START", 64)  # all at once, as long as nothing is too much
    store.add_pairs([pair(number) for number in range(35)])
    cut_short = most = 0
    runs = 50 if database_kind == "sqlite" else 10  # a server's answers take their time
    for number in range(runs):
        budget = random.Random(number).uniform(0.01, 0.35)
        casino, mine, ended = play(store, number, faults=faults, budget=budget)
        assert casino.charged <= mine.usd + mine.held_usd + 1e-9 <= budget + 2e-9
        assert mine.open == 0
        most = max(most, casino.most)
        cut_short += ended
        if ended:  # no more than one request could have cost is left
            left = budget - mine.usd - mine.held_usd
            assert left <= (60 * IN_USD + 500 * OUT_USD) / 1e6 + 1e-9
    assert cut_short > runs / 5
    assert 32 < most <= 64


@pytest.mark.both_databases
def test_what_is_spent_counts_for_every_judge_and_run(store, pairs, pair):
    store.add_pairs([pair(number) for number in range(5)])
    _, mine, ended = play(store, 1, faults=0.0, budget=9.0)
    assert not ended
    assert mine.answers == 10
    run = store.begin(store.rater("another", "model"), timedelta(minutes=1))
    wanted = PlannedRequest(key="k", presentation=None, usd=0.001)
    assert store.record(run, planned=[wanted], limit_usd=mine.usd) == ["budget"]
    assert store.record(run, planned=[wanted], limit_usd=mine.usd + 0.002) != ["budget"]


DEAR = (100 * 2.0 + 9000 * 8.0) / 1e6
"""What a response costs whose server charges 9 000 tokens, whatever it was allowed."""


def run_within(store, judge, environ, budget, **more):
    with contextlib.suppress(StudyError):
        run_judge(store, judge, seed=11, budget_usd=budget, environ=environ, retry=Retry(base=0), **more)
    return store.spending()[0]


@pytest.mark.both_databases
def test_a_server_that_ignores_its_limit_is_found_out_by_its_first_response(
    *, store, pairs, judge, server, environ, fake, pair
):
    store.add_pairs([pair(number) for number in range(20)])
    judge = judge.model_copy(update={"concurrency": 64})
    server.act = lambda ask: fake.completion(json.dumps(dict.fromkeys(ask.criteria, "A")), tokens=(100, 9000))
    reports = []
    spend = run_within(store, judge, environ, 0.30, on_progress=lambda now: reports.append(now.notice or ""))
    # 4 x $0.0722 fit into $0.30, and a fifth does not
    assert sum(server.paid.values()) == spend.answers == 4
    assert spend.usd == pytest.approx(4 * DEAR)
    assert any("a response cost $0.0722, where $0.0" in words for words in reports)
    assert sum("9000 tokens, of 512 allowed" in words for words in reports) == 1
    assert run_within(store, judge, environ, 0.36).answers == 4  # $0.0712 is left
    assert run_within(store, judge, environ, 0.37).answers == 5


@pytest.mark.both_databases
def test_what_a_server_can_spend_too_much_is_what_was_under_way(
    *, store, pairs, judge, server, environ, fake, monkeypatch, pair
):
    """The first response is honest; then all that is under way at once costs too much, and it ends there."""
    monkeypatch.setattr("judge.rate_limit.START", 8)
    store.add_pairs([pair(number) for number in range(20)])
    judge = judge.model_copy(update={"concurrency": 8})
    together = threading.Barrier(8)

    def act(ask):
        if len(server.asks) == 1:
            return fake.verdict(ask)
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(30)
        return fake.completion(json.dumps(dict.fromkeys(ask.criteria, "A")), tokens=(100, 9000))

    server.act = act
    spend = run_within(store, judge, environ, 0.20)
    assert len(server.asks) == spend.answers == 1 + 8
    assert spend.usd == pytest.approx(8 * DEAR + (100 * 2.0 + 10 * 8.0) / 1e6)
    assert spend.held_usd == 0
    before = len(server.asks)
    together.abort()
    run_within(store, judge, environ, spend.usd + DEAR - 0.001)
    assert len(server.asks) == before
    run_within(store, judge, environ, spend.usd + 2 * DEAR)
    assert before < len(server.asks) <= before + 2


@pytest.mark.both_databases
def test_what_is_under_way_or_lost_counts_as_the_worst_response_did(store):
    rater = store.rater("m", "model")
    run = store.begin(rater, timedelta(minutes=1))
    first, *others = [PlannedRequest(key=name, presentation=None, usd=0.01) for name in "abcdef"]
    assert all(
        isinstance(each, Reservation)
        for each in store.record(run, planned=[first, *others[:2]], limit_usd=1.0)
    )
    answer = Answer(
        key="a", attempt=0, presentation=None, status=200, body=b"", request_id=None,
        usage=Usage(input_tokens=1, output_tokens=1), usd=0.1, seconds=0.0, at=datetime.now(UTC),
    )  # fmt: skip
    store.record(run, answers=[answer], settled=[Settlement(key="b", attempt=0, state="lost")])
    # $0.1 spent, $0.1 each for what is lost and under way, $0.1 for the next: $0.4
    assert store.record(run, planned=[others[2]], limit_usd=0.399) == ["budget"]
    assert store.record(run, planned=[others[2]], limit_usd=0.401) != ["budget"]
    other = store.begin(store.rater("another", "model"), timedelta(minutes=1))
    assert store.record(other, planned=[others[3]], limit_usd=0.409) == ["budget"]
    assert store.record(other, planned=[others[3]], limit_usd=0.411) != [
        "budget"
    ]  # its own responses were honest
