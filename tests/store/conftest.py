"""A store whose clock the test moves."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rating import invite_people

from guard_eval.records import HandOutPlan
from guard_eval.store import Store, pairs, raters, verdicts
from guard_eval.store.judging import requests

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Clock:
    """A clock that shows `now` until a test moves it."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now

    def advance(self, **duration):
        self.now += timedelta(**duration)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(store_url, clock):
    """An empty store."""
    with Store.open(store_url, create=True, clock=clock) as opened:
        yield opened


@pytest.fixture
def ann(store):
    return invite_people(store, "Ann")[0]


@pytest.fixture
def ben(store):
    return invite_people(store, "Ben")[0]


@pytest.fixture
def cem(store):
    return invite_people(store, "Cem")[0]


@pytest.fixture
def add_new_pairs(store, make_pairs):
    """Return a function that adds pairs to the store, with slots for a plan if there is one."""
    return lambda count, plan=None: pairs.add_pairs(store, make_pairs(count), plan)


@pytest.fixture
def plan():
    """A plan with two showings per pair and leases of half an hour."""
    return HandOutPlan(seed=7, slots=2, lease=timedelta(minutes=30))


@pytest.fixture
def single_plan(plan):
    """A plan with one showing per pair."""
    return replace(plan, slots=1)


@pytest.fixture
def judge_all():
    """Return a function that answers all open questions of a model and returns the shown pairs."""

    def judge_all(store, name, plan, choose=lambda _: "A"):
        rater = raters.get_or_add_rater(store, name, "model")
        with store.begin_read() as db:
            questions = requests.read_open_questions(db, name, plan)
        answers = [(question, {"fluency": choose(question.blind)}) for question in questions]
        with store.begin_write() as (db, now):
            verdicts.save_judged_verdicts(db, rater, answers, now=now, declared=store.declared_now)
        return [question.blind for question in questions]

    return judge_all
