"""Max-T against enumeration by hand, and weights by precision against hand arithmetic."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from verdicts_by_hand import evidence, listed

from analysis.scores.scores import score_items, score_raters
from analysis.scores.win_share import weigh_items_by_precision
from analysis.sections.results.sensitivity import FIXED, PRECISION, run_alternative_analyses
from analysis.sections.results.shares import measure_total_shares
from analysis.verdicts.checks import unify_method_order
from guard_eval.joint_flips import compute_max_t_p
from guard_eval.sign_flip import sign_flip


def enumerated(scores):
    """Return step-down p-values from all patterns of signs (Westfall and Young 1993, algorithm 2.8)."""
    size = np.sqrt((scores**2).sum(axis=0))
    observed = np.abs(scores.sum(axis=0)) / size
    flips = [np.abs(np.array(signs) @ scores) / size for signs in product((1, -1), repeat=len(scores))]
    order, p = np.argsort(-observed), np.zeros(len(size))
    for rank, result in enumerate(order):
        others = order[rank:]
        reached = np.mean([flip[others].max() >= observed[result] - 1e-12 for flip in flips])
        p[result] = max([reached, *p[order[:rank]]])
    return p


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 9), st.integers(1, 4))
@example(2116, 7, 3)  # a sum that is 0 apart from rounding has p = 1
def test_max_t_of_few_units_agrees_with_enumeration(seed, units, results):
    scores = np.random.default_rng(seed).integers(-2, 4, (units, results)).astype(float)
    scores[0] = 1.0
    assert compute_max_t_p(scores) == pytest.approx(enumerated(scores))


def test_max_t_corrects_no_repeated_results():
    rng = np.random.default_rng(2)
    common = rng.choice([-1.0, 0, 1], 300, p=[0.27, 0.37, 0.36])
    alone = sign_flip(common).p
    # One and the same result six times: no correction at all.
    assert compute_max_t_p(np.tile(common[:, None], 6)) == pytest.approx([alone] * 6, abs=0.006)


def test_max_t_corrects_the_family_of_a_report():
    rng = np.random.default_rng(5)
    felt = rng.normal(0.5, size=60)[:, None, None] + 0.4 * rng.normal(size=(60, 3, 2))
    drawn = [
        (str(pair), "cde"[criterion], f"r{rater}", "x" if level > 0.3 else "y" if level < -0.3 else "tie")
        for (pair, criterion, rater), level in np.ndenumerate(felt)
    ]
    table = listed("pair_id criterion rater verdict", drawn)
    corrected = [
        measure_total_shares(evidence(table, correction=correction)) for correction in ("holm", "max-t")
    ]
    rows = list(zip(*corrected, strict=True))
    assert {row.correction for _, row in rows} == {"max-T"}
    assert all(row.p <= row.p_adjusted <= holm.p_adjusted for holm, row in rows)
    assert max(row.p_adjusted for _, row in rows) < max(holm.p_adjusted for holm, _ in rows)


def rated(rows):
    """Return scores of a table of one comparison: pair, rater, verdict."""
    return score_raters(unify_method_order(listed("pair_id rater verdict", rows)))


def test_precision_weights_follow_hand_arithmetic():
    """One pair has two ratings and one has three; four of the five scores are 1, and one is 0."""
    scores = rated([("1", "a", "x"), ("1", "b", "x"), ("2", "a", "x"), ("2", "b", "tie"), ("2", "c", "x")])
    weighed = weigh_items_by_precision(score_items(scores), scores)
    # Products of two ratings of a pair: 1; and 0, 1, 0. τ² = 2/4, σ² = 4/5 − 1/2.
    first, second = 1 / (0.5 + 0.3 / 2), 1 / (0.5 + 0.3 / 3)
    mean = (first + second) / 2
    assert list(weighed["weight"]) == pytest.approx([first / mean, second / mean])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_sign_flips_do_not_change_weights(seed):
    rng = np.random.default_rng(seed)
    rows = [
        (str(pair), str(rater), rng.choice(["x", "tie", "y"]))
        for pair in range(8)
        for rater in range(pair + 1)
    ]
    scores = rated(rows)
    flip = rng.choice([-1, 1], 8)
    flipped = scores.assign(net=scores["net"] * flip[scores["item"]])
    weights = [weigh_items_by_precision(score_items(table), table)["weight"] for table in (scores, flipped)]
    assert list(weights[0]) == pytest.approx(list(weights[1]))


def test_report_shows_result_with_precision_weights():
    rng = np.random.default_rng(1)
    rows = [
        (str(pair), f"r{rater}", rng.choice(["x", "tie", "y"], p=[0.5, 0.3, 0.2]))
        for pair in range(40)
        for rater in range(1 if pair % 2 else 6)
    ]
    table = listed("pair_id rater verdict", rows)
    plain, weighed = evidence(table), evidence(table, weights="precision")
    (equal,), (precise,) = measure_total_shares(plain), measure_total_shares(weighed)
    shares = {row.analysis: row.win_share.value for row in run_alternative_analyses(plain)}
    assert precise.win_share.value == shares[PRECISION] != equal.win_share.value
    assert precise.win_share.high - precise.win_share.low < equal.win_share.high - equal.win_share.low
    assert "a pair weighs by its precision" in precise.note
    default = {row.analysis: row.default for row in run_alternative_analyses(weighed)}
    assert default[PRECISION]
    assert not default[FIXED]
