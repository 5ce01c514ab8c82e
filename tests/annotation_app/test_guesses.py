"""Wrong invites: so many from one address, then a wait, for that address alone."""

import pytest

from annotation_app.guesses import Guesses


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def guesses(clock):
    return Guesses(burst=3, seconds_each=10.0, remembered=4, clock=clock)


def test_after_a_burst_one_guess_every_ten_seconds(guesses, clock):
    for _ in range(3):
        assert guesses.allowed("192.0.2.1")
        guesses.wrong("192.0.2.1")
    assert not guesses.allowed("192.0.2.1")
    clock.now += 9.9
    assert not guesses.allowed("192.0.2.1")
    clock.now += 0.1
    assert guesses.allowed("192.0.2.1")
    guesses.wrong("192.0.2.1")
    assert not guesses.allowed("192.0.2.1")
    clock.now += 1000
    for _ in range(3):
        assert guesses.allowed("192.0.2.1")
        guesses.wrong("192.0.2.1")
    assert not guesses.allowed("192.0.2.1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("made up", "made up too", True),
        (None, "192.0.2.1", False),
    ],
)
def test_what_counts_as_one_address(guesses, one, other, same):
    for _ in range(3):
        guesses.wrong(one)
    assert not guesses.allowed(one)
    assert guesses.allowed(other) is not same


def test_what_is_remembered_is_bounded(guesses):
    for _ in range(3):
        guesses.wrong("192.0.2.1")
    for number in range(4):
        guesses.wrong(f"198.51.100.{number}")
    assert guesses.allowed("192.0.2.1")  # forgotten for those that came later
    assert len(guesses._full_until) == 4
