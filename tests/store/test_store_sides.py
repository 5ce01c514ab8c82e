"""Nobody who knows on which side a method stood so far can tell where it stands next."""

import random
from collections import Counter, defaultdict
from datetime import timedelta
from functools import cache
from itertools import combinations
from math import sqrt
from typing import NamedTuple

import pytest
from rating import farthest
from sqlalchemy import update

from guard_eval.records import Pair, Plan, content_id
from guard_eval.store import Store
from guard_eval.store.handout.history import Sides
from guard_eval.store.schema import presentation

pytestmark = pytest.mark.slow

ONE = (("guard", "top_k"),)
STAR = (("guard", "beam"), ("guard", "top_k"), ("zebra", "guard"))
ALL = tuple(combinations("abcd", 2))


class Design(NamedTuple):
    """Who compares what: `each` pairs of every comparison; raters come one pair or some pairs at a time."""

    comparisons: tuple[tuple[str, str], ...]
    each: int
    raters: int
    slots: int
    at_a_time: int = 1
    roster: bool = False
    quota: int | None = None
    gold_every: int | None = None
    repeats: int = 0


DESIGNS = {
    "one rater": Design(ONE, 40, 1, 1),
    "one slot": Design(ONE, 45, 3, 1),
    "two slots": Design(ONE, 20, 3, 2),
    "one after the other": Design(ONE, 24, 2, 2, at_a_time=24),
    "three slots in bursts": Design(ONE, 20, 4, 3, at_a_time=8),
    "four slots": Design(ONE, 15, 4, 4),
    "checks": Design(ONE, 20, 2, 2, gold_every=4, repeats=3),
    "a star": Design(STAR, 8, 3, 2),
    "all against all, quota": Design(ALL, 5, 4, 3, at_a_time=6, quota=20),
    "roster": Design(ONE, 30, 3, 2, roster=True),
    "roster of a star": Design(STAR, 16, 2, 2, roster=True),
}
SEEDS = range(1, 7)


def pairs_of(design):
    made = []
    for a, b in design.comparisons:
        for number in range(design.each):
            ids = content_id(a, number), content_id(b, number)
            made.append(
                Pair(
                    id=Pair.make_id(a, b, *ids),
                    dataset=("news", "wiki")[number % 2],
                    prompt_id=f"prompt-{number}",
                    prompt=f"prompt {number}",
                    method_a=a,
                    method_b=b,
                    continuation_a=ids[0],
                    continuation_b=ids[1],
                    text_a=f"{a} {number}",
                    text_b=f"{b} {number}",
                    position=len(made),
                )
            )
    return made


RATE = update(presentation).values(rated_at=presentation.c.handed_out)


def rate(store, number):
    """Rate without a verdict: this is about sides alone, and saving takes as long as handing out."""
    with store._database.write() as connection:
        connection.execute(RATE.where(presentation.c.id == number))


def hand_out_all(design, seed, url):
    """Let raters rate all there is; return each rater's showings as (pair, 1 if its first is A or -1)."""
    plan = Plan(
        seed=seed,
        slots=design.slots,
        lease=timedelta(hours=1),
        quota=design.quota,
        gold_every=design.gold_every,
        repeats=design.repeats,
    )
    pairs = pairs_of(design)
    known = {(pair.prompt, frozenset((pair.text_a, pair.text_b))): pair for pair in pairs}
    rng = random.Random(seed)
    seen = defaultdict(dict)
    with Store.open(url) as store:
        store.add_pairs(pairs)
        here = [store.invite(f"rater {number} of {seed}")[0] for number in range(design.raters)]
        if design.roster:
            store.assign([rater.name for rater in here], plan)
        while here:
            rater = rng.choice(here)
            for _ in range(design.at_a_time):
                given = store.hand_out(rater, plan)
                if not given:
                    here.remove(rater)
                    break
                blind = given[0]
                rate(store, blind.presentation)
                pair = known[blind.prompt, frozenset((blind.text_a, blind.text_b))]
                # a repeat is the other side by definition: it counts once
                seen[rater.name].setdefault(pair.id, (pair, 1 if blind.text_a == pair.text_a else -1))
    return [list(showings.values()) for showings in seen.values()]


def guesses(showings):
    """Yield by each rule what it guesses of a showing from those before (0: nothing), and what came."""
    lead, last, seen = Counter(), Counter(), Counter()
    sides = [side for _, side in showings]
    for number, (pair, side) in enumerate(showings):
        a, b = pair.method_a, pair.method_b
        before = sides[number - 1] if number else 0
        balance = lead[a] - lead[b]
        yield (
            {
                "opposite of the side before": -before,
                "opposite, on even numbers": -before if number % 2 else 0,
                "opposite, on odd numbers": 0 if number % 2 else -before,
                "the number's parity": 1 if number % 2 else -1,
                "the number's remainder of four": 1 if number % 4 < 2 else -1,
                "opposite of two before": -sides[number - 2] if number > 1 else 0,
                "opposite of two alike": -before if number > 1 and sides[number - 2] == before else 0,
                "opposite of the comparison's last": -last[a, b],
                "opposite of the method's last": -last[a],
                "how often the comparison came": 1 if seen[a, b] % 2 else -1,
                "how often the dataset came": 1 if seen[pair.dataset] % 2 else -1,
                "the pair's position": 1 if pair.position % 2 else -1,
                "towards balance": (balance < 0) - (balance > 0),
            },
            side,
        )
        lead[a] += side
        lead[b] -= side
        last[a, b] = last[a] = side
        last[b] = -side
        seen[a, b] += 1
        seen[pair.dataset] += 1


BALANCE = "towards balance"


def shares(histories):
    """Return by rule its share of right guesses, or of wrong ones if these are more, and how many it made."""
    right, cases = Counter(), Counter()
    for showings in histories:
        for guessed, side in guesses(showings):
            for rule, guess in guessed.items():
                cases[rule] += guess != 0
                right[rule] += guess == side
    return {rule: (max(right[rule], number - right[rule]) / number, number) for rule, number in cases.items()}


@pytest.fixture(scope="module")
def results(databases, tmp_path_factory):
    """Return a function that returns what a design gave, over all seeds; each is run once."""

    @cache
    def of(name):
        return [
            hand_out_all(DESIGNS[name], seed, databases.new("sqlite", tmp_path_factory.mktemp("sides")))
            for seed in SEEDS
        ]

    return of


@pytest.mark.parametrize("name", DESIGNS)
def test_no_rule_predicts_the_next_side_in_a_design(results, name):
    """At most 55 %, and two and a half standard errors of so many draws.

    Towards balance: where all a rater sees is planned to be even to the last, a guesser with the running
    balance is right in .5 + (2^n / C(n, n/2) - 1) / 2n of n showings (Diaconis and Graham 1981): .617 at 20.
    """
    for rule, (share, number) in shares([each for run in results(name) for each in run]).items():
        limit = 0.62 if rule == BALANCE else 0.55
        assert share <= limit + 2.5 * 0.5 / sqrt(number), rule


def test_no_rule_predicts_the_next_side_over_all_designs(results):
    histories = [each for name in DESIGNS for run in results(name) for each in run]
    for rule, (share, _) in shares(histories).items():
        assert share <= (0.6 if rule == BALANCE else 0.55), rule


@pytest.mark.parametrize("name", DESIGNS)
def test_every_pair_is_even_and_every_rater_nearly(results, name):
    for run in results(name):
        by_pair, by_rater = Counter(), Counter()
        for rater, showings in enumerate(run):
            for pair, side in showings:
                by_pair[pair.id] += side
                by_rater[rater, pair.method_a] += side
                by_rater[rater, pair.method_b] -= side
        odd = DESIGNS[name].slots % 2
        assert DESIGNS[name].quota or {abs(lead) for lead in by_pair.values()} == {odd}
        assert farthest(by_pair) <= 1
        assert farthest(by_rater) <= (1 if DESIGNS[name].roster else 5)


def test_two_raters_do_not_find_their_sides_by_the_order_of_pairs(results):
    """With one slot the sides of neighbouring positions are no more opposite than alike."""
    opposite = total = 0
    for run in results("one slot"):
        sides = {pair.position: side for showings in run for pair, side in showings}
        opposite += sum(sides[place] != sides[place + 1] for place in range(len(sides) - 1))
        total += len(sides) - 1
    assert abs(opposite / total - 0.5) <= 2.5 * 0.5 / sqrt(total)


def test_the_draw_is_even_bounded_and_says_little_of_the_next():
    """Long runs: what the side before, the two before or the whole history tells.

    A sequence whose balance stays within b is guessed right in at least .5 + 1 / 4b by who knows the balance:
    the mean of balance times next side is -1/2 for any. Here b is 5: .55 at least, and not much more.
    """
    rng = random.Random(1)
    methods = ("guard", "top_k")
    sides = Sides()
    drawn, balance, most, best = [], 0, 0, 0.0
    for number in range(60_000):
        chances = [sides.first(methods, draw / 1000 + 0.0005) for draw in range(0, 1000, 125)]
        best += max(Counter(chances).values()) / len(chances) if number < 5_000 else 0
        first = sides.first(methods, rng.random())
        sides.add(methods, first)
        drawn.append(1 if first == "a" else -1)
        balance += drawn[-1]
        most = max(most, abs(balance))
    assert most == 5
    for lag, limit in ((1, 0.51), (2, 0.555), (3, 0.55)):
        alike = [one == other for one, other in zip(drawn, drawn[lag:], strict=False)]
        for part in (alike, alike[::2], alike[1::2]):
            assert abs(sum(part) / len(part) - 0.5) <= limit - 0.5
    assert 0.55 <= best / 5_000 <= 0.59
