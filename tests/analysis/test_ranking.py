"""Rankings: against hand arithmetic, a general optimiser, linear programs, and known strengths."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from analysis.stats.ranks.bootstrap import bootstrap, tally
from analysis.stats.ranks.davidson import davidson, half_win, why_undefined

pytestmark = pytest.mark.slow

NAMES = ("guard", "acs", "nucleus", "greedy", "beam")


def chances(strengths, nu):
    """P(win, tie, loss) of each pair in Davidson's words: π_i, ν √(π_i π_j), π_j over their sum."""
    rows = []
    for i, j in combinations(range(len(strengths)), 2):
        one, other = np.exp(strengths[i]), np.exp(strengths[j])
        row = np.array([one, nu * np.sqrt(one * other), other])
        rows.append(row / row.sum())
    return np.array(rows)


def matrices(rows, size):
    wins, ties = np.zeros((2, size, size))
    for (i, j), (won, tied, lost) in zip(combinations(range(size), 2), rows, strict=True):
        wins[i, j], wins[j, i], ties[i, j], ties[j, i] = won, lost, tied, tied
    return wins, ties


def test_two_methods_in_closed_form():
    # Three shares and two parameters: π_1/π_2 = wins/losses = 4, ν = ties/√(wins·losses) = 6/√16 = 3/2.
    found = davidson(*matrices([(8, 6, 2)], 2), NAMES[:2])
    assert found.strengths == pytest.approx((np.log(2), -np.log(2)))
    assert found.log_nu == pytest.approx(np.log(1.5))
    assert found.n == 16
    assert found.shares == pytest.approx((11 / 16, 5 / 16))
    assert found.log_likelihood == pytest.approx(8 * np.log(1 / 2) + 6 * np.log(3 / 8) + 2 * np.log(1 / 8))


def test_half_wins_shrink_as_the_label_says():
    # True difference −1, ν = .584: half wins see log (win + tie/2)/(loss + tie/2), here −.77.
    rows = chances([-0.5, 0.5], 0.584) * 1e6
    shrunk, whole = (model(*matrices(rows, 2), NAMES[:2]) for model in (half_win, davidson))
    won, tied, lost = rows[0]
    assert np.diff(shrunk.strengths)[0] == pytest.approx(-np.log((won + tied / 2) / (lost + tied / 2)))
    assert np.diff(shrunk.strengths)[0] == pytest.approx(0.77, abs=0.005)
    assert np.diff(whole.strengths)[0] == pytest.approx(1.0)
    assert "shrink" in shrunk.warnings[0]
    assert shrunk.log_nu is None


def test_agrees_with_a_general_optimiser():
    rows = [(12, 5, 7), (20, 9, 3), (9, 2, 4), (14, 8, 10), (3, 4, 6), (5, 1, 11)]

    def loss(free):
        strengths = np.array([*free[:3], -free[:3].sum()])
        return -(np.array(rows) * np.log(chances(strengths, np.exp(free[3])))).sum()

    theirs = optimize.minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8})
    ours = davidson(*matrices(rows, 4), NAMES[:4])
    assert ours.strengths[:3] == pytest.approx(theirs.x[:3], abs=1e-6)
    assert ours.log_nu == pytest.approx(theirs.x[3], abs=1e-6)
    assert ours.log_likelihood == pytest.approx(-theirs.fun)


def test_bradley_terry_without_ties():
    """Strengths of 1 : 2 : 4 with wins in just those shares are found again, and ν is 0."""
    found = davidson(*matrices([(20, 0, 40), (12, 0, 48), (20, 0, 40)], 3), NAMES[:3])
    assert found.strengths == pytest.approx((-np.log(2), 0, np.log(2)))
    assert found.log_nu is None
    assert "ν is 0" in found.warnings[0]
    # The first wins 1/3 and 1/5 of its comparisons.
    assert found.shares[0] == pytest.approx(float(Fraction(1, 2) * (Fraction(1, 3) + Fraction(1, 5))))


def test_known_strengths_are_recovered_from_a_million_comparisons():
    rng = np.random.default_rng(11)
    truth = rng.normal(0, 0.7, size=20)
    truth -= truth.mean()
    rows = [rng.multinomial(5263, row) for row in chances(truth, 0.8)]
    found = davidson(*matrices(rows, 20), [f"m{k}" for k in range(20)])
    # A method has 100 000 comparisons, so that the standard error of its strength is about .007.
    assert found.strengths == pytest.approx(truth, abs=0.03)
    assert found.log_nu == pytest.approx(np.log(0.8), abs=0.01)


def test_far_apart_methods_converge_too():
    truth = np.array([-12.0, -4, 0, 4, 12])
    found = davidson(*matrices(chances(truth, 0.3) * 1e6, 5), NAMES)
    assert found.strengths == pytest.approx(truth, abs=1e-5)
    assert found.log_nu == pytest.approx(np.log(0.3), abs=1e-5)


tables = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=6, max_size=6)


@given(tables, st.permutations(range(4)))
@settings(deadline=None)
def test_the_order_of_methods_does_not_matter(rows, order):
    wins, ties = matrices(rows, 4)
    one = davidson(wins, ties, NAMES[:4])
    other = davidson(wins[np.ix_(order, order)], ties[np.ix_(order, order)], [NAMES[k] for k in order])
    assert (one.strengths is None) == (other.strengths is None)
    if one.strengths is None:
        assert one.reason
        return
    assert other.strengths == pytest.approx([one.strengths[k] for k in order], abs=1e-5)
    assert sum(one.strengths) == pytest.approx(0, abs=1e-9)
    assert sum(one.shares) == pytest.approx(2)
    # At the maximum, expected points equal points scored (the likelihood equations).
    expected = chances(one.strengths, np.exp(one.log_nu) if one.log_nu is not None else 0.0)
    n = np.sum(rows, axis=1)
    points = (expected[:, 0] - expected[:, 2]) * n
    scored = np.array([won - lost for won, _, lost in rows])
    for k in range(4):
        sign = np.array([(i == k) - (j == k) for i, j in combinations(range(4), 2)])
        assert (sign * points).sum() == pytest.approx((sign * scored).sum(), abs=1e-4)


def escapes(rows, size):
    """Whether some direction of (strengths, log ν) makes no verdict less likely and one more likely."""
    tied = any(row[1] for row in rows)
    gaps = []
    for (i, j), row in zip(combinations(range(size), 2), rows, strict=True):
        utilities = np.zeros((3, size + 1))
        utilities[0, [i, j]], utilities[1, -1], utilities[2, [i, j]] = (0.5, -0.5), 1, (-0.5, 0.5)
        outcomes = [0, 1, 2] if tied else [0, 2]
        gaps += [utilities[a] - utilities[b] for a in outcomes if row[a] for b in outcomes if a != b]
    found = optimize.linprog(
        -np.sum(gaps, axis=0), A_ub=-np.array(gaps), b_ub=np.zeros(len(gaps)), bounds=(-1, 1)
    )
    return -found.fun > 1e-7


def connected(rows):
    return sum(any(row) for row in rows) >= 2


def test_estimates_exist_just_where_no_direction_escapes():
    """All 3-method tables up to which counts are zero: the graphs' answer is the linear program's."""
    seen = {True: 0, False: 0}
    for rows in product(list(product((0, 1), repeat=3)), repeat=3):
        if not connected(rows):
            continue
        undefined = bool(why_undefined(*matrices(rows, 3), NAMES[:3]))
        assert undefined == escapes(rows, 3), rows
        seen[undefined] += 1
    assert min(seen.values()) > 50


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(5, 0, 0), (4, 0, 0), (3, 1, 3)], "without a loss or tie against the other methods: guard"),
        ([(5, 2, 3), (4, 0, 0), (3, 0, 0)], "without a win or tie against the other methods: nucleus"),
        # Ties both ways and still no maximum: guard never loses to anyone.
        ([(5, 5, 0), (4, 0, 0), (3, 5, 0)], "without a loss: guard; without a win: nucleus; no cycle"),
        ([(0, 5, 0), (0, 4, 0), (0, 3, 0)], "no cycle of comparisons holds more wins than ties"),
        ([(5, 1, 5), (0, 0, 0), (0, 0, 0)], "{guard, acs} and {nucleus} are never compared"),
        ([(0, 0, 0), (0, 0, 0), (0, 0, 0)], "{guard} and {acs} and {nucleus}"),
    ],
)
def test_undefined_says_why(rows, words):
    found = davidson(*matrices(rows, 3), NAMES[:3])
    assert words in found.reason
    assert (found.strengths, found.shares, found.log_nu) == (None, None, None)


def test_an_undefeated_method_may_have_a_finite_strength():
    """Its ties can hold it: guard beats acs, acs beats nucleus, and nucleus ties with guard."""
    found = davidson(*matrices([(1, 0, 0), (0, 1, 0), (1, 0, 0)], 3), NAMES[:3])
    # By symmetry acs is at 0; with x = √π of guard: [x / (x + 1/x + ν)]² · ν / (x² + 1/x² + ν).
    theirs = optimize.minimize(
        lambda f: (
            -2 * (f[0] - np.log(2 * np.cosh(f[0]) + np.exp(f[1])))
            - f[1]
            + np.log(2 * np.cosh(2 * f[0]) + np.exp(f[1]))
        ),
        np.zeros(2),
    )
    assert found.strengths == pytest.approx((2 * theirs.x[0], 0, -2 * theirs.x[0]), abs=1e-3)
    assert found.log_nu == pytest.approx(theirs.x[1], abs=1e-3)


def test_half_wins_exist_where_ties_go_both_ways():
    wins, ties = matrices([(5, 5, 0)], 2)
    assert davidson(wins, ties, NAMES[:2]).strengths is None
    # 7.5 to 2.5.
    assert np.diff(half_win(wins, ties, NAMES[:2]).strengths)[0] == pytest.approx(-np.log(3))


@pytest.mark.parametrize(
    ("wins", "ties", "methods", "words"),
    [
        ([[0, 1], [1, 0]], [[0, 2], [1, 0]], "ab", "tie of both"),
        ([[0, -1], [1, 0]], [[0, 0], [0, 0]], "ab", "not negative"),
        ([[0, np.nan], [1, 0]], [[0, 0], [0, 0]], "ab", "finite"),
        ([[3, 1], [1, 0]], [[0, 0], [0, 0]], "ab", "diagonal of wins"),
        ([[0, 1], [1, 0]], [[0, 0], [0, 0]], "aa", "different methods"),
        ([[0, 1], [1, 0]], [[0, 0], [0, 0]], "abc", "3 × 3"),
        ([[0]], [[0]], "a", "two or more"),
    ],
)
def test_bad_counts_are_named(wins, ties, methods, words):
    with pytest.raises(ValueError, match=words):
        davidson(wins, ties, tuple(methods))


def test_tally_counts_by_hand():
    # Item 0: 0 beats 1; 2 beats 1. Item 1: 2 ties 0; 1 loses to 0. Pairs: 01, 02, 12.
    found = tally([0, 0, 1, 1], [0, 2, 2, 1], [1, 1, 0, 0], [2, 2, 1, 0], items=3, methods=3)
    assert found.tolist() == [
        [[1, 0, 0], [0, 0, 0], [0, 0, 1]],
        [[1, 0, 0], [0, 1, 0], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
    ]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([0], [0], [0], [1]), "compared with itself"),
        (([3], [0], [1], [1]), "item holds integers from 0 to 2"),
        (([0], [0], [1], [3]), "points holds integers from 0 to 2"),
        (([0], [0, 1], [1], [1]), "one first per comparison"),
        (([0], [0.0], [1], [1]), "first holds integers"),
    ],
)
def test_bad_comparisons_are_named(columns, words):
    with pytest.raises(ValueError, match=words):
        tally(*columns, items=3, methods=3)


def clustered(rng, strengths, *, items, raters, spread):
    """Verdicts of `raters` on each pair of an item, whose strengths lie `spread` around the methods'."""
    own = strengths + rng.normal(0, spread, size=(items, len(strengths)))
    return np.array([[rng.multinomial(raters, row) for row in chances(each, 0.7)] for each in own])


@pytest.mark.parametrize(
    ("raters", "spread", "least", "most"), [(1, 0, 0.88, 1.12), (5, 0, 0.88, 1.12), (5, 1.5, 1.3, 3)]
)
def test_the_bootstrap_is_wider_where_verdicts_on_an_item_go_together(raters, spread, least, most):
    rng = np.random.default_rng(4)
    counts = clustered(rng, np.array([0.3, -0.3]), items=300, raters=raters, spread=spread)
    (interval, _) = bootstrap(counts, NAMES[:2], replicates=2000, seed=2).strengths
    won, _, lost = counts.sum(axis=(0, 1))
    # Of independent verdicts log wins/losses has variance 1/wins + 1/losses, and the strength half its error.
    alone = 1.959964 * np.sqrt(1 / won + 1 / lost)
    assert least < (interval.high - interval.low) / alone < most


def test_the_bootstrap_holds_what_it_promises():
    """Studies of 50 items with 3 raters each; truth is what a study of 20 000 items says."""
    rng, strengths = np.random.default_rng(6), np.array([0.4, 0.0, -0.4])
    world = clustered(rng, strengths, items=20_000, raters=3, spread=1.0)
    truth = davidson(*matrices(world.sum(axis=0), 3), NAMES[:3])
    held, ranked = [], []
    for study in range(100):
        counts = world[rng.integers(0, len(world), size=50)]
        found = bootstrap(counts, NAMES[:3], replicates=300, seed=study)
        held += [i.low <= t <= i.high for i, t in zip(found.strengths, truth.strengths, strict=True)]
        held += [i.low <= t <= i.high for i, t in zip(found.shares, truth.shares, strict=True)]
        ranked += [rank.low <= k + 1 <= rank.high for k, rank in enumerate(found.ranks)]
    assert 0.88 <= np.mean(held) <= 0.99
    assert np.mean(ranked) >= 0.95


def test_strata_stay_whole():
    """Two datasets of opposite verdicts: drawn within strata, their shares never change."""
    counts = np.zeros((20, 1, 3), dtype=int)
    counts[:10, 0] = (3, 1, 0)
    counts[10:, 0] = (0, 1, 3)
    strata = ["book"] * 10 + ["news"] * 10
    within = bootstrap(counts, NAMES[:2], strata=strata, replicates=200, seed=1)
    across = bootstrap(counts, NAMES[:2], replicates=200, seed=1)
    assert within.strengths[0].low == pytest.approx(0, abs=1e-9)
    assert within.strengths[0].high == pytest.approx(0, abs=1e-9)
    assert across.strengths[0].high > 0.3
    assert [(rank.low, rank.high) for rank in within.ranks] == [(1, 1), (1, 1)]
    alone = bootstrap(counts, NAMES[:2], strata=["solo", *strata[1:]], replicates=200, seed=1)
    assert "1 strata of one item" in alone.warnings[0]


def test_the_seed_decides_and_the_order_of_items_does_not():
    counts = clustered(np.random.default_rng(8), np.array([0.5, 0.0, -0.5]), items=30, raters=3, spread=1)
    one, again, turned = (bootstrap(table, NAMES[:3], seed=3) for table in (counts, counts, counts[::-1]))
    assert one == again == turned
    assert one.strengths != bootstrap(counts, NAMES[:3], seed=4).strengths


def test_ranks_shares_and_strengths_agree():
    counts = clustered(
        np.random.default_rng(9), np.array([2.0, 0.1, 0.0, -2.0]), items=60, raters=3, spread=0.5
    )
    found = bootstrap(counts, NAMES[:4], seed=3)
    assert found.ranks[0].low == found.ranks[0].high == 1
    assert found.ranks[3].low == found.ranks[3].high == 4
    assert sorted(rank.estimate for rank in found.ranks) == [1, 2, 3, 4]
    assert all(0 < i.low < i.estimate < i.high < 1 for i in found.shares)
    assert all(i.low < i.estimate < i.high for i in found.strengths)


def test_draws_without_strengths_are_counted_and_no_interval_is_given():
    # One loss, on one of 12 items: a draw misses it with probability (11/12)^12 = .352.
    counts = np.tile([[2, 1, 0]], (12, 1, 1))
    counts[0] = (1, 1, 1)
    found = bootstrap(counts, NAMES[:2], replicates=1000, seed=1)
    assert found.undefined / 1000 == pytest.approx(0.352, abs=0.05)
    assert found.strengths[0].estimate == pytest.approx(np.log(23) / 2)
    assert (found.strengths[0].low, found.shares[0].low, found.ranks[0].low) == (None, None, None)
    assert "no finite strengths: no interval" in found.strengths[0].warnings[0]


@pytest.mark.parametrize(
    ("counts", "words"),
    [([[[5, 3, 0]]] * 4, "without a loss: guard"), ([[[5, 3, 1]]], "one item says nothing")],
)
def test_no_interval_where_there_can_be_none(counts, words):
    found = bootstrap(np.array(counts), NAMES[:2], seed=1)
    assert words in found.warnings[0]
    assert (found.replicates, found.undefined) == (0, 0)
    assert all(i.low is None and i.high is None for i in (*found.strengths, *found.shares, *found.ranks))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"counts": np.ones((4, 2, 3), dtype=int)}, r"\[items, 1, 3\]"),
        ({"counts": np.ones((4, 1, 3))}, "non-negative integers"),
        ({"strata": ["a"]}, "one stratum per item"),
        ({"level": 1.0}, "level lies between"),
        ({"replicates": 1}, "two replicates or more"),
    ],
)
def test_bad_settings_are_named(changed, words):
    arguments = {"counts": np.ones((4, 1, 3), dtype=int), "methods": NAMES[:2], "seed": 1, **changed}
    with pytest.raises(ValueError, match=words):
        bootstrap(**arguments)
