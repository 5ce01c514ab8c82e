"""Rankings: against hand arithmetic, a general optimiser, linear programs, and known strengths."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize

from analysis.reports.notebook import make_evidence
from analysis.sections.results.ranking import rank_methods
from analysis.stats.davidson import compute_expected_shares, fit_strengths, has_finite_strengths

pytestmark = pytest.mark.slow

NAMES = ("guard", "acs", "nucleus", "greedy", "beam")


def chances(strengths, nu):
    """P(win, tie, loss) of each pair in Davidson's words: π_i, ν √(π_i π_j), π_j over their sum."""
    rows = []
    for i, j in combinations(range(len(strengths)), 2):
        strength, other_strength = np.exp(strengths[i]), np.exp(strengths[j])
        row = np.array([strength, nu * np.sqrt(strength * other_strength), other_strength])
        rows.append(row / row.sum())
    return np.array(rows)


def matrices(rows, size):
    wins, ties = np.zeros((2, size, size))
    for (i, j), (won, tied, lost) in zip(combinations(range(size), 2), rows, strict=True):
        wins[i, j], wins[j, i], ties[i, j], ties[j, i] = won, lost, tied, tied
    return wins, ties


def test_two_strengths_agree_with_closed_form():
    # Three shares and two parameters: π_1/π_2 = wins/losses = 4, ν = ties/√(wins·losses) = 6/√16 = 3/2.
    parameters = fit_strengths(*matrices([(8, 6, 2)], 2))
    assert parameters == pytest.approx((np.log(2), -np.log(2), np.log(1.5)))
    assert compute_expected_shares(parameters) == pytest.approx((11 / 16, 5 / 16))


def test_bradley_terry_strengths_follow_hand_arithmetic():
    """Strengths of 1 : 2 : 4 with wins in just those shares are found again, and ν is 0."""
    *strengths, log_nu = fit_strengths(*matrices([(20, 0, 40), (12, 0, 48), (20, 0, 40)], 3))
    assert strengths == pytest.approx((-np.log(2), 0, np.log(2)))
    assert np.isneginf(log_nu)


def test_fit_converges_for_distant_methods():
    truth = np.array([-12.0, -4, 0, 4, 12])
    parameters = fit_strengths(*matrices(chances(truth, 0.3) * 1e6, 5))
    assert parameters == pytest.approx([*truth, np.log(0.3)], abs=1e-5)


tables = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=6, max_size=6)


@given(tables)
@settings(deadline=None)
def test_fitted_points_equal_observed_points(rows):
    counts = matrices(rows, 4)
    assume(has_finite_strengths(*counts))
    parameters = fit_strengths(*counts)
    assert sum(parameters[:-1]) == pytest.approx(0, abs=1e-9)
    assert sum(compute_expected_shares(parameters)) == pytest.approx(2)
    expected = chances(parameters[:-1], np.exp(parameters[-1]))
    points = (expected[:, 0] - expected[:, 2]) * np.sum(rows, axis=1)
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
    result = optimize.linprog(
        -np.sum(gaps, axis=0), A_ub=-np.array(gaps), b_ub=np.zeros(len(gaps)), bounds=(-1, 1)
    )
    return -result.fun > 1e-7


def test_strengths_exist_if_the_likelihood_has_a_maximum():
    """All 3-method tables up to which counts are zero: the graphs' answer is the linear program's."""
    seen = {True: 0, False: 0}
    for rows in product(list(product((0, 1), repeat=3)), repeat=3):
        if sum(any(row) for row in rows) < 2:  # not connected
            continue
        undefined = not has_finite_strengths(*matrices(rows, 3))
        assert undefined == escapes(rows, 3), rows
        seen[undefined] += 1
    assert min(seen.values()) > 50


@pytest.mark.parametrize("raters", ["fixed", "random"])
@pytest.mark.parametrize("tied", [0, 1])
def test_unanimous_verdicts_give_ranks_for_any_raters(raters, tied):
    """Four raters prefer x to y to z on 12 prompts. One tied pair more or less decides nothing."""
    rows = [
        {"prompt_id": f"q{n}", "pair_id": f"{n}{a}{b}", "method_a": a, "method_b": b, "rater": rater}
        | {"verdict": "tie" if tied and (n, a, b) == (0, "x", "y") else a}
        for n in range(12)
        for a, b in (("x", "y"), ("x", "z"), ("y", "z"))
        for rater in "uvwx"
    ]
    frame = pd.DataFrame(rows).assign(criterion="overall")
    ranked = rank_methods(make_evidence(frame, raters=raters, rater_kind="person"))
    assert [(row.method, row.possible_best, row.possible_worst) for row in ranked] == [
        ("x", 1, 1),
        ("y", 2, 2),
        ("z", 3, 3),
    ]
