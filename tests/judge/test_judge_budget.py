"""A budget is never exceeded, whatever is in flight and whatever happens to it: 100 random runs.

The server is a coroutine that answers, refuses, loses and overloads by chance, and charges as it likes up to
what a request allows; what it charged is counted there, and not by the judge.
"""

import asyncio
import json
import random
from datetime import UTC, datetime, timedelta

import pytest

from guard_eval.errors import StudyError
from guard_eval.settings import Judge
from guard_eval.store import Wanted
from judge.backend import Question, Reply, Trouble
from judge.parsing import Parsed, Problem, Usage, read_usage
from judge.rules import Retry
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

    def question(self, blind, *, sample):
        body = json.dumps([blind.presentation, blind.prompt, sample]).encode()
        return Question(key=body.hex(), body=body, form="", max_output_tokens=500)

    def others(self, blind, *, sample):
        return []

    async def send(self, question):
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        for _ in range(self.chance.randrange(40)):
            await asyncio.sleep(0)
        self.in_flight -= 1
        draw = self.chance.random()
        if draw < self.faults:
            kind = self.chance.choice(["rate_limited", "server_error"])
            return Trouble(problem=Problem(kind=kind, detail=""))
        tokens = self.chance.randint(1, len(question.body)), self.chance.randint(1, 500)
        self.charged += (tokens[0] * IN_USD + tokens[1] * OUT_USD) / 1e6
        if draw < 1.5 * self.faults:
            return Trouble(problem=Problem(kind="transport", detail=""), billed="perhaps")
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        body = json.dumps({"choices": [{}], "usage": usage if draw < 0.9 else None}).encode()
        return Reply(status=200, body=body, request_id=None, seconds=0.0, at=datetime.now(UTC))

    def parse(self, body, form):
        if self.chance.random() < self.faults / 2:
            return Problem(kind="unparseable", detail="")
        return Parsed(choices={"fluency": "A"}, usage=Usage())

    usage = staticmethod(read_usage)

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
    booked = sum(spend.usd + spend.held_usd for spend in store.spend())
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
    mine = next(spend for spend in store.spend() if spend.judge == judge.model)
    return casino, mine, ended


@pytest.mark.both_databases
@pytest.mark.parametrize("faults", [0.0, 0.2])
def test_it_is_never_exceeded(store, database_kind, pair, monkeypatch, faults):
    monkeypatch.setattr("judge.journal.GATHER", 0)
    monkeypatch.setattr("judge.pace.START", 64)  # all at once, as long as nothing is too much
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
def test_what_is_spent_counts_for_every_judge_and_run(store, pair):
    store.add_pairs([pair(number) for number in range(5)])
    _, mine, ended = play(store, 1, faults=0.0, budget=9.0)
    assert not ended
    assert mine.answers == 10
    run = store.begin(store.rater("another", "model"), timedelta(minutes=1))
    wanted = Wanted(key="k", presentation=None, usd=0.001)
    assert store.record(run, wanted=[wanted], limit_usd=mine.usd) == ["budget"]
    assert store.record(run, wanted=[wanted], limit_usd=mine.usd + 0.002) != ["budget"]
