"""Servers that queue what they cannot do at once: nothing is lost, little is paid in vain, no slot idles.

Time is simulated: the event loop's clock jumps to the next event, so that a run of minutes takes none, and
its length is exact. The server has so many slots, takes its time for each request, and goes on with those
that were given up, as servers do that do not notice it.
"""

import asyncio
import random
import selectors
from collections import Counter
from datetime import UTC, datetime

import pytest
from judged import JournalInMemory

from guard_eval.store import Showing, Usage
from judge.backend import JudgeRequest, Response
from judge.failures import JudgeError, Retry
from judge.ledger import Ledger
from judge.pricing.prices import Budget
from judge.rate_limit import RateLimiter
from judge.sender import Sender

CONCURRENCY = 64


class JumpingSelector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout=None):
        found = super().select(0)
        self.now += 0 if found else timeout or 0
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self):
        return self._jumping.now


class QueueingServer:
    """A backend: `seconds` gives the time of a request by its number, `gateway` gives up before `timeout`."""

    style = "chat"
    url = "http://queue/v1"

    def __init__(self, slots, seconds, *, timeout, gateway=None):
        self.notices = []
        self.sent = Counter()
        self.late = 0
        self.most = 0
        self._now = 0
        self._slots = asyncio.Semaphore(slots)
        self._seconds = seconds
        self._timeout = timeout
        self._gateway = gateway
        self._working = set()

    def build(self, showing, *, again=0):
        return JudgeRequest(key=showing.blind.prompt, body=b"{}", shape="", max_output_tokens=1)

    async def send(self, request):
        self.sent[request.key] += 1
        self._now += 1
        self.most = max(self.most, self._now)
        work = asyncio.create_task(self._serve(int(request.key)))
        self._working.add(work)
        limit = self._timeout if self._gateway is None else self._gateway
        done, _ = await asyncio.wait([work], timeout=limit)
        self._now -= 1
        if done:
            usage = Usage(input_tokens=1, output_tokens=1)
            at = datetime(2026, 1, 1, tzinfo=UTC)
            return Response(body=b"{}", usage=usage, request_id=None, seconds=0.0, at=at)
        self.late += 1
        return JudgeError(kind="timeout", detail="too late", billed="perhaps", late=True)

    async def _serve(self, number):
        async with self._slots:
            await asyncio.sleep(self._seconds(number))

    async def close(self):
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)


@pytest.fixture
def ask(blind):
    """Ask so many questions; return the server, the failures, and the seconds that it took."""

    def run(questions, slots, seconds, *, timeout, gateway=None):
        times = seconds if callable(seconds) else lambda _: seconds

        async def go():
            loop = asyncio.get_running_loop()
            server = QueueingServer(slots, times, timeout=timeout, gateway=gateway)
            journal = JournalInMemory()
            sender = Sender(
                server,
                journal,
                budget=Budget(None, None, model="m"),
                limiter=RateLimiter(CONCURRENCY, timeout=timeout, clock=loop.time),
                retry=Retry(),
                seed=1,
                ledger=Ledger(),
            )
            left = iter(range(questions))
            failures = []

            async def work():
                for number in left:
                    outcome, _ = await sender.ask(Showing(blind=blind(prompt=str(number)), sample=0))
                    if isinstance(outcome, JudgeError):
                        failures.append(number)

            await asyncio.gather(*(work() for _ in range(CONCURRENCY + CONCURRENCY // 4)))
            took = loop.time()
            await server.close()
            assert journal.settled.count("lost") == server.late  # each was set aside as paid
            return server, failures, took

        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            return runner.run(go())

    return run


@pytest.mark.parametrize("timeout", [20, 30, 60, 120, 600])
@pytest.mark.parametrize(("slots", "questions"), [(1, 80), (4, 320), (64, 1920)])
def test_a_server_that_queues_is_kept_busy_and_not_overrun(ask, slots, questions, timeout):
    server, failures, took = ask(questions, slots, 5.0, timeout=timeout)
    assert took <= 1.3 * 5.0 * questions / slots
    assert failures == []
    assert set(server.sent.values()) == {1}  # nothing was asked twice, and so nothing paid twice


@pytest.mark.parametrize("timeout", [20, 60])
@pytest.mark.parametrize(("slots", "questions"), [(1, 160), (4, 640), (64, 3200)])
def test_answers_of_all_lengths_do_not_look_like_a_queue(ask, slots, questions, timeout):
    """One to ten seconds each: concurrency does not collapse, and few are asked again."""
    chance = random.Random(1)
    times = [10 ** chance.uniform(0, 1) for _ in range(questions)]
    server, failures, took = ask(questions, slots, times.__getitem__, timeout=timeout)
    assert took <= 1.3 * sum(times) / slots
    assert failures == []
    assert server.late <= questions / 50


@pytest.mark.parametrize("timeout", [60, 600])
@pytest.mark.parametrize(("slots", "questions"), [(1, 160), (4, 320), (64, 3200)])
def test_a_server_that_slows_down_midway_loses_nothing(ask, slots, questions, timeout):
    def seconds(number):
        return 2.0 if number < questions / 2 else 10.0

    server, failures, took = ask(questions, slots, seconds, timeout=timeout)
    assert took <= 1.3 * sum(map(seconds, range(questions))) / slots
    assert failures == []
    assert server.late <= questions / 25


@pytest.mark.parametrize(("slots", "questions"), [(1, 320), (4, 960), (64, 1920)])
def test_a_gateway_s_own_time_out_is_learned(ask, slots, questions):
    server, failures, took = ask(questions, slots, 5.0, timeout=600, gateway=60)
    assert took <= 1.3 * 5.0 * questions / slots
    assert len(failures) <= questions / 100  # taken for slow by themselves: the next run asks again
    assert server.late <= questions / 10
    assert len(server.notices) == (server.late > 0)


def test_one_very_slow_answer_changes_nothing_and_is_not_paid_for_again(ask):
    server, failures, took = ask(1600, 64, lambda number: 1e4 if number == 100 else 1.0, timeout=600)
    assert failures == [100]
    assert set(server.sent.values()) == {1}
    assert took <= 600 + 10  # its own time-out; the others are done long before
    assert server.most == 64


def test_a_server_that_answers_nobody_is_not_asked_again_and_again(ask):
    server, failures, _ = ask(40, 64, 1e6, timeout=60)
    assert len(failures) == 40
    assert set(server.sent.values()) == {1}


def test_answers_that_fill_half_the_time_out_are_no_reason_to_ask_fewer(ask):
    server, failures, took = ask(1920, 64, 30.0, timeout=60)
    assert took <= 1.3 * 30.0 * 1920 / 64
    assert failures == []
    assert server.late == 0
