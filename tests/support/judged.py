"""A judge's rows in the store, as its runs write them, and a journal without a store."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from guard_eval.store import Answer, PlannedRequest, Reservation, Settlement, Unjudged, Usage

LEASE = timedelta(minutes=1)

USAGE = Usage(model="m-1", input_tokens=100, cached_tokens=40, output_tokens=10, reasoning_tokens=4)

ANSWER = Answer(
    key="k",
    attempt=0,
    presentation=None,
    status=200,
    body=b"{}",
    request_id=None,
    usage=USAGE,
    usd=0.1,
    seconds=1.0,
    at=datetime(2026, 5, 6, tzinfo=UTC),
)


def planned(key, presentation=None, usd=0.25, **more):
    return PlannedRequest(key=key, presentation=presentation, usd=usd, **more)


def answer(right, presentation=None, **changes):
    """Return the answer to a reserved request."""
    return replace(ANSWER, key=right.key, attempt=right.attempt, presentation=presentation, **changes)


def fail(store, judge, presentation, kind="refusal", detail=""):
    """Let a run note that a presentation could not be judged."""
    run = store.begin(judge, LEASE)
    store.record(run, unjudged=[Unjudged(presentation=presentation, kind=kind, detail=detail)])
    store.end(run)


class JournalInMemory:
    """A journal that remembers what is written, and answers reservations as a test decides."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.written = []
        self.settled = []

    def write(self, entry):
        self.written.append(entry)
        self.settled.append(entry.state if isinstance(entry, Settlement) else "answered")
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def reserve(self, planned):
        await asyncio.sleep(0)
        assert isinstance(planned, PlannedRequest)
        attempt = len(self.settled) - self.settled.count("answered")
        right = Reservation(key=planned.key, attempt=attempt, usd=None)
        return self.outcomes.pop(0) if self.outcomes else right
