"""A store whose clock the test moves."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from guard_eval.records import BlindPair, Plan, Rater
from guard_eval.store import Store

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Clock:
    """Says `now`, which stands still until the test moves it."""

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
    """An empty store, once on SQLite and once on PostgreSQL."""
    with Store.open(store_url, create=True, clock=clock) as opened:
        yield opened


@pytest.fixture
def plan() -> Plan:
    """Two showings per pair, half an hour each."""
    return Plan(seed=7, slots=2, lease=timedelta(minutes=30))


@pytest.fixture
def one(plan: Plan) -> Plan:
    """One showing per pair."""
    return replace(plan, slots=1)


@pytest.fixture
def claim() -> Callable[..., list[BlindPair]]:
    """Return what a judge claims: first what it left unrated, as its runs are over when they have claimed."""

    def claim(store: Store, judge: Rater, plan: Plan, limit: int = 1) -> list[BlindPair]:
        run = store.begin(judge, plan.lease)
        given = [showing.blind for showing in store.claim(run, plan, limit)]
        store.end(run)
        return given

    return claim
