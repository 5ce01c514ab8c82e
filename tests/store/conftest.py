"""A store whose clock the test moves."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guard_eval.records import BlindPair, Choice, HandOutPlan, Pair
from guard_eval.store import Store, pairs, raters, verdicts
from guard_eval.store.judging import requests

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Clock:
    """A clock that shows `now` until a test moves it."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **duration: float) -> None:
        self.now += timedelta(**duration)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(store_url: str, clock: Clock) -> Iterator[Store]:
    """An empty store."""
    with Store.open(store_url, create=True, clock=clock) as opened:
        yield opened


@pytest.fixture
def add_new_pairs(store: Store, make_pairs: Callable[[int], list[Pair]]) -> Callable[..., int]:
    """Return a function that adds pairs to the store, with slots for a plan if there is one."""
    return lambda count, plan=None: pairs.add_pairs(store, make_pairs(count), plan)


@pytest.fixture
def plan() -> HandOutPlan:
    """A plan with two showings per pair and leases of half an hour."""
    return HandOutPlan(seed=7, slots=2, lease=timedelta(minutes=30))


@pytest.fixture
def single_plan(plan: HandOutPlan) -> HandOutPlan:
    """A plan with one showing per pair."""
    return replace(plan, slots=1)


@pytest.fixture
def judge_all() -> Callable[..., list[BlindPair]]:
    """Return a function that answers all open questions of a model and returns the shown pairs."""

    def judge_all(
        store: Store, name: str, plan: HandOutPlan, choose: Callable[[BlindPair], Choice] = lambda _: "A"
    ):
        rater = raters.get_or_add_rater(store, name, "model")
        with store.begin_read() as db:
            questions = requests.read_open_questions(db, name, plan)
        answers = [(question, {"fluency": choose(question.blind)}) for question in questions]
        with store.begin_write() as (db, now):
            verdicts.save_judged_verdicts(db, rater, answers, now=now, declared=store.declared_now)
        return [question.blind for question in questions]

    return judge_all
