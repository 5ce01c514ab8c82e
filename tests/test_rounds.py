"""Comparisons that stop after a round: statistic and p by hand and by another program, and who leaves."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from analysis.sections.results.rounds import estimate_mean_lead, find_critical_value_of_rounds
from guard_eval.records import Contest, RoundPlan
from guard_eval.rounds import compare_couples, compute_first_passage_p, find_stopping_couples

AB, AC, BC = ("a", "b"), ("a", "c"), ("b", "c")


def contest(*rounds, design="rounds", sizes=None, stopped=(), couples=(AB, AC, BC)):
    """Return a contest of rounds, each a list of prompts' scores of the couples, in their order."""
    played = [
        (number, scores)
        for number, scores_of_round in enumerate(rounds, start=1)
        for scores in scores_of_round
    ]
    prompts = [(number, dict(zip(couples, scores, strict=False))) for number, scores in played]
    plan = RoundPlan(design=design, criterion="fluency", alpha=0.05, showings=1)
    sizes = sizes or tuple(len(scores_of_round) for scores_of_round in rounds)
    done, stopped = len(rounds), dict(stopped)
    return Contest(plan=plan, sizes=sizes, couples=couples, done=done, stopped=stopped, prompts=prompts)


def p_by_library(peak, sizes):
    """Return the chance that a random walk leaves the band, as SciPy integrates the normal distribution."""
    times = np.cumsum(sizes) / np.sum(sizes)
    limits = peak * times**0.25
    walk = stats.multivariate_normal(cov=np.minimum.outer(times, times))
    return 1 - walk.cdf(limits, lower_limit=-limits)


# Jennison and Turnbull (2000), Group Sequential Methods, table 2.9: Wang and Tsiatis' test, Δ = .25, α = .05
@pytest.mark.parametrize(("rounds", "constant"), [(1, 1.960), (2, 2.038), (3, 2.083), (4, 2.113), (5, 2.136)])
def test_critical_values_equal_published_constants(rounds, constant):
    assert find_critical_value_of_rounds(0.05, (7,) * rounds) == pytest.approx(constant, abs=6e-4)


@pytest.mark.parametrize("sizes", [(3, 5, 1, 4, 8, 2), (20,) * 10, (0, 4, 0, 4), (9,)])
@pytest.mark.parametrize("peak", [0.8, 2.0, 2.7])
def test_p_of_the_largest_statistic_agrees_with_scipy(sizes, peak):
    filled = [size for size in sizes if size]
    assert compute_first_passage_p(peak, sizes) == pytest.approx(p_by_library(peak, filled), abs=2e-4)


def test_lead_is_the_difference_of_expected_shares():
    """On one prompt a beats b and c, which tie: a's expected share is 1, theirs are 1/4."""
    first, _, last = compare_couples(contest([(1, 1, 0)] * 4))
    assert first.leads.mean() == pytest.approx(1 - 1 / 4)
    assert last.leads.mean() == 0
    assert (first.leader, first.trailing_system, last.leader) == ("a", "b", "")


def test_candidate_design_uses_the_couples_score():
    first, second = compare_couples(contest([(1, 0.5), (1, -0.5)], design="candidate", couples=(AB, AC)))
    assert (first.leads.mean(), second.leads.mean()) == (1, 0)


def test_p_of_a_couple_follows_hand_arithmetic():
    """1, 1, 1, −1: 10 of 2⁴ patterns are as extreme after half of the prompts. Then 14 of 2⁶ are."""
    ones = [(1,), (1,), (1,), (-1,)]
    half = compare_couples(contest(ones, design="candidate", sizes=(4, 4), couples=(AB,)))[0]
    assert half.p == pytest.approx(p_by_library(stats.norm.isf(5 / 2**4) * 0.5**0.25, (4, 4)), abs=2e-4)
    whole = compare_couples(contest(ones, [(1,), (1,)], design="candidate", sizes=(4, 2), couples=(AB,)))[0]
    assert whole.p == pytest.approx(p_by_library(stats.norm.isf(7 / 2**6), (4, 2)), abs=2e-4)
    assert (whole.leads.mean(), len(whole.leads)) == (pytest.approx(4 / 6), 6)


def test_p_is_the_smallest_of_all_rounds():
    """What a round has shown is not unlearned: the later prompts all say the opposite."""
    early = contest([(1,)] * 8, design="candidate", sizes=(8, 8), couples=(AB,))
    late = contest([(1,)] * 8, [(-1,)] * 8, design="candidate", couples=(AB,))
    assert compare_couples(late)[0].p == compare_couples(early)[0].p
    assert compare_couples(late)[0].leader == "a"


@pytest.mark.parametrize(
    ("leads", "patterns"),
    [([1] * 5, 2), ([1] * 13, 2), ([1.0, 0.9, 0.8, 0.95, 0.85], 2), ([1] * 6 + [0.75, -1], 18)],
)
def test_one_round_has_the_exact_p_of_the_sign_test(leads, patterns):
    """In the last row, 18 of 2⁸ patterns have a sum of 5.75 or more: all signs, or one sign is flipped."""
    played = contest([(lead,) for lead in leads], design="candidate", couples=(AB,))
    assert compare_couples(played)[0].p == pytest.approx(patterns / 2 ** len(leads), rel=1e-3)


@pytest.mark.parametrize("sizes", [(14,), (4, 4), (2, 2, 2, 2), (3, 3, 3), (2, 12)])
def test_few_prompts_give_few_wrong_claims(sizes):
    """If no system is better, all patterns of wins and losses are equally likely. .05 of them may claim."""
    claims = []
    for pattern in product((1, -1), repeat=sum(sizes)):
        scores = iter(pattern)
        rounds = [[(next(scores),) for _ in range(size)] for size in sizes]
        claims.append(compare_couples(contest(*rounds, design="candidate", couples=(AB,)))[0].p <= 0.05)
    assert 0 < np.mean(claims) <= 0.05


def test_intervals_of_couples_are_simultaneous():
    """Three couples in one round: t with 7 degrees of freedom where the normal one has .05/3."""
    scores = [1, 1, 0, 1, -1, 1, 0, 1]
    played = contest([(row, 0, 0) for row in scores], design="candidate")
    lead = estimate_mean_lead(compare_couples(played)[0], played)
    half = stats.t.ppf(1 - 0.05 / 6, 7) * np.std(scores, ddof=1) / 8**0.5
    assert (lead.low, lead.high) == pytest.approx((0.5 - half, min(1, 0.5 + half)))


def test_equal_leads_have_no_interval():
    played = contest([(1,)] * 12, design="candidate", couples=(AB,))
    lead = estimate_mean_lead(compare_couples(played)[0], played)
    assert (lead.value, lead.low, lead.high) == (1, None, None)
    assert lead.note == "all prompts have the same value, so there is no interval"


def test_holms_correction_runs_over_all_couples():
    first, second, third = compare_couples(contest([(1, 1, 0)] * 9, design="candidate"))
    assert first.p_adjusted == second.p_adjusted == pytest.approx(3 * 2 / 2**9)
    assert third.p_adjusted == 1


ALL_WINS = [(1, 1, 0)] * 20
CIRCLE = [(1, -1, 1)] * 20  # a beats b, b beats c, c beats a
STOPPING = {
    "a beats both, and is alone": (contest(ALL_WINS), [AB, AC, BC]),
    "c loses to both": (contest([(0, 1, 1)] * 20), [AC, BC]),
    "all tie": (contest([(0, 0, 0)] * 20), []),
    "a circle": (contest(CIRCLE), []),
    "too few prompts": (contest([(1, 1, 0)] * 5), []),
    "incomplete prompts say nothing": (contest([(1, 1)] * 20), []),
    "complete ones beside incomplete ones": (contest([(1, 1)] * 20 + ALL_WINS), [AB, AC, BC]),
    "no prompt at all": (contest([]), []),
    "the last prompt of a round is not needed": (contest([*ALL_WINS, ()], sizes=(21,)), [AB, AC, BC]),
    "c has left: its scores are not needed": (
        contest([(0, 1, 1)] * 20, [(1,)] * 30, stopped={AC: 1, BC: 1}),
        [AB],
    ),
    "c has left: later scores change nothing": (
        contest([(0, 0, 0)] * 20, [(0, 1, 1)] * 20, stopped={AC: 1, BC: 1}),
        [],
    ),
    "only decided couples of a candidate stop": (contest([(1, 0, 0)] * 20, design="candidate"), [AB]),
    "one that has stopped does not stop again": (
        contest([(1, 0, 0)] * 20, [(1, 1, 0)] * 20, design="candidate", stopped={AB: 1}),
        [AC],
    ),
    "a candidate that loses stops, too": (contest([(-1, 0, 0)] * 20, design="candidate"), [AB]),
}


@pytest.mark.parametrize(("played", "expected"), STOPPING.values(), ids=STOPPING)
def test_decided_comparisons_stop(played, expected):
    played = played if any(played.sizes) else contest([], sizes=(20,))
    assert find_stopping_couples(played, compare_couples(played)) == expected


def test_systems_that_beat_each_other_in_a_circle_continue():
    """What the rounds say together may be a circle, as each couple has its own strongest round."""
    played = contest(ALL_WINS)
    decided = [
        compare_couples(contest([(1,)] * 20, design="candidate", couples=(couple,)))[0]
        for couple in (AB, BC, ("c", "a"))
    ]
    assert [row.trailing_system for row in decided] == ["b", "c", "a"]
    assert find_stopping_couples(played, decided) == []
