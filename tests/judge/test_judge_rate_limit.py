"""How many requests are under way, by a clock that the test moves."""

import asyncio
import functools
import random

import pytest

from judge.rate_limit import RateLimiter, Stopped


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def in_loop(test):
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(**given):
        asyncio.run(test(**given))

    return run


def waiting(clock):
    """Return a limiter that moves the clock in place of waiting, and the list of its waits."""
    limiter, waits = RateLimiter(4, clock=clock), []

    async def wait(wanted):
        waits.append(wanted)
        clock.now += wanted

    limiter.wait = wait
    return limiter, waits


@in_loop
async def test_it_grows_by_one_with_each_answer_up_to_the_bound(clock):
    limiter = RateLimiter(64, clock=clock)
    assert limiter.limit == 16
    place = await limiter.enter()
    for _ in range(20):
        limiter.answered(place)
    assert limiter.limit == 36
    for _ in range(99):
        limiter.answered(place)
    assert limiter.limit == 64
    assert RateLimiter(3, clock=clock).limit == 3
    assert RateLimiter(64, timeout=30.0, clock=clock).limit == 3  # of 5 seconds each, half of it
    assert RateLimiter(64, timeout=1.0, clock=clock).limit == 1


@in_loop
async def test_too_much_cuts_once_a_round_and_growth_is_slow_then(clock):
    limiter = RateLimiter(64, clock=clock)
    entered = [await limiter.enter() for _ in range(16)]
    clock.now += 1
    limiter.too_much(entered[0])
    assert limiter.limit == pytest.approx(16 * (1 - 1 / 32))  # one of the last 16 was too much
    limiter.too_much(entered[1])
    assert limiter.limit == pytest.approx(15.5)
    for place in entered[1:]:  # a round of answers
        limiter.answered(place)
    assert 16.4 < limiter.limit < 16.6


@pytest.mark.parametrize(("refused", "low", "high"), [(0.02, 40, 64), (0.1, 14, 30), (1.0, 1, 1)])
@in_loop
async def test_it_falls_with_the_share_that_is_too_much(clock, refused, low, high):
    """By hand: a round grows by 1 - p, and where it has too much falls by p/2 of itself: about 2/p."""
    chance = random.Random(3)
    limiter = RateLimiter(64, clock=clock)
    for _ in range(400):
        clock.now += 1
        places = [await limiter.enter() for _ in range(int(limiter.limit))]
        for place in places:
            clock.now += 0.001
            if chance.random() < refused:
                limiter.too_much(place)
            else:
                limiter.answered(place)
            limiter.leave()
        if refused == 1.0 and limiter.limit == 1.0:
            break
    assert low <= limiter.limit <= high


@in_loop
async def test_no_more_pass_than_the_limit_and_who_waits_goes_on(clock):
    limiter = RateLimiter(2, clock=clock)
    passed = []

    async def go(name):
        await limiter.enter()
        passed.append(name)

    waiting = [asyncio.create_task(go(name)) for name in "abc"]
    await settle()
    assert (passed, limiter.in_flight) == (["a", "b"], 2)
    limiter.leave()
    await settle()
    assert (passed, limiter.in_flight) == (["a", "b", "c"], 2)
    last = asyncio.create_task(go("d"))
    await settle()
    limiter.stop()
    with pytest.raises(Stopped):
        await last
    await asyncio.gather(*waiting)
    assert limiter.stopping


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 120.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1.5s"}, 1.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "250ms"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0"}, 0.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "soon"}, 0.0),
        ({"x-ratelimit-remaining-requests": "7", "x-ratelimit-reset-requests": "9s"}, 0.0),
        ({}, 0.0),
    ],
)
@in_loop
async def test_an_empty_window_is_waited_out(clock, headers, seconds):
    limiter, waits = waiting(clock)
    limiter.read_headers(headers)
    await limiter.enter()
    assert waits == ([pytest.approx(seconds)] if seconds else [])


@in_loop
async def test_the_longest_wait_asked_for_holds(clock):
    limiter, waits = waiting(clock)
    limiter.ask_to_wait(3.0)
    limiter.ask_to_wait(1.0)
    await limiter.enter()
    assert waits == [3.0]
