"""Sides are balanced, and a rater who counts them cannot predict the next side."""

import random
from collections import Counter, defaultdict
from datetime import timedelta
from itertools import combinations

import pytest

from guard_eval.records import HandOutPlan
from guard_eval.store import Store, handout, pairs, raters, unblind, verdicts

pytestmark = pytest.mark.slow

METHODS = ("guard", "top_k(k=50)", "greedy")
PAIRS = 60
DESIGNS = [(1, 1), (2, 1), (3, 1), (4, 1), (2, 3), (3, 3), (4, 3)]
"""Raters per pair, and comparisons among which the pairs are divided."""


def simulate_raters(folder, make_pairs, slots, comparisons, seed):
    """Let six people rate, two of whom leave early; return all rows.

    People take turns at random. With an odd seed, they rate one after another, a sixth of the work each.
    """
    shuffled = random.Random(f"{slots} {comparisons} {seed}")
    couples = list(combinations(METHODS, 2))[:comparisons]
    plan = HandOutPlan(seed=seed, slots=slots, lease=timedelta(minutes=30))
    with Store.open(f"sqlite:///{folder / f'{slots}-{comparisons}-{seed}.db'}", create=True) as store:
        for method_a, method_b in couples:
            pairs.add_pairs(store, make_pairs(PAIRS // comparisons, method_a=method_a, method_b=method_b))
        here = {raters.invite_rater(store, f"R{number}")[0]: PAIRS for number in range(6)}
        for who in shuffled.sample(list(here), 2):
            here[who] = shuffled.randrange(5, 30)
        showings = {who: next(iter(handout.claim_pairs(store, who, plan)), None) for who in here}
        rated = Counter()
        while waiting := [who for who in here if showings[who] is not None and here[who]]:
            who = shuffled.choice(waiting)
            if seed % 2:
                who = min(waiting, key=lambda rater: (rated[rater] >= PAIRS * slots / 6, rater.name))
            here[who] -= 1
            rated[who] += 1
            choice = {"fluency": shuffled.choice("AB")}
            number = showings[who].presentation
            showings[who] = verdicts.save_verdict(store, number, choice, rater=who, then=plan)
        return unblind.read_tidy_rows(store)


def read_showings(rows):
    """Yield for each showing: whether method A was first, the last side, the index in the visit, the lead.

    The lead is the larger imbalance of the two methods. It is positive if method B should be first next. The
    last item of each visit is the lead at the end, with None as side.
    """
    visits = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.presentation):
        visits[row.rater].append(row)
    for visit in visits.values():
        lead, last = Counter(), None
        for index, row in enumerate(visit):
            first = row.shown_first == row.method_a
            yield first, last, index, max(lead[row.method_a], -lead[row.method_b], key=abs)
            lead[row.method_a] += 1 if first else -1
            lead[row.method_b] -= 1 if first else -1
            last = first
        yield None, last, len(visit), max(lead.values(), key=abs)


@pytest.fixture(scope="module")
def showings(tmp_path_factory, make_pairs):
    """The showings of four simulated studies for each design."""
    folder = tmp_path_factory.mktemp("sides")
    return [
        showing
        for slots, comparisons in DESIGNS
        for seed in range(4)
        for showing in read_showings(simulate_raters(folder, make_pairs, slots, comparisons, seed))
    ]


def compute_share_of_right_guesses(guesses):
    """Return the share of guesses that are right."""
    right = Counter(guesses)
    return right[True] / right.total()


def test_side_imbalance_of_a_method_rarely_exceeds_six(showings):
    """A coin draws five or six as the limit.

    The imbalance is larger only if all remaining slots are on one side, which is rare.
    """
    leads = [abs(lead) for first, *_, lead in showings if first is None]
    assert max(leads) <= 9
    assert sum(lead > 6 for lead in leads) <= len(leads) * 0.025


@pytest.mark.parametrize(
    "key",
    [lambda last, _: last, lambda _, index: index % 2, lambda last, index: (last, index % 2)],
    ids=["last side", "parity", "both"],
)
def test_next_side_is_independent_of_last_side_and_position(showings, key):
    """No guess by these keys is better than a coin. The standard error of 1000 showings is 0.016."""
    seen = defaultdict(Counter)
    for first, last, index, _ in showings:
        if last is not None and first is not None:
            seen[key(last, index)][first] += 1
    assert sum(counts.total() for counts in seen.values()) > 4000
    assert all(counts[True] / counts.total() == pytest.approx(0.5, abs=0.05) for counts in seen.values())


def test_side_counts_hardly_predict_the_next_side(showings):
    """A rater always bets on the side that was less frequent before.

    In a fair random walk between −5 and 5, such a bet wins 0.6 of the steps that begin at 3 or more.
    """
    counted = [(first, lead) for first, *_, lead in showings if lead and first is not None]
    assert len(counted) > 3600
    assert compute_share_of_right_guesses((lead < 0) == first for first, lead in counted) <= 0.58
    assert (
        compute_share_of_right_guesses((lead < 0) == first for first, lead in counted if abs(lead) >= 3)
        <= 0.62
    )


def test_side_imbalance_ends_at_unpredictable_positions(showings):
    """At a lead of 5, the limit is 5 in half of all cases. In the other half, a coin decides."""
    turned = Counter(
        (lead > 0) != first for first, _, _, lead in showings if abs(lead) == 5 and first is not None
    )
    assert turned.total() > 100
    assert 0.6 < turned[True] / turned.total() < 0.9
