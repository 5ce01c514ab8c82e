"""The test of any difference and the rank sets of strengths: by hand, by enumeration, by simulation."""

from itertools import combinations, product

import numpy as np
import pytest
from verdicts_by_hand import listed

from analysis.results.ranking import ranking_rows
from analysis.stats.ranks import davidson as newton
from analysis.stats.ranks.any_difference import any_difference
from analysis.stats.ranks.bootstrap import tally
from analysis.stats.ranks.davidson import davidson, to_matrices
from analysis.stats.ranks.rank_sets import (
    rank_sets,
    share_influence,
    simultaneous_line,
    strength_influence,
)
from analysis.stats.significance import sign_flip


def test_two_methods_are_the_sign_flip_test_of_their_comparison():
    scores = np.array([2, -1, 3, 3, 1, -2, 4, 1])
    found = any_difference(np.stack([scores, -scores], axis=1).astype(float))
    assert found.p_value == pytest.approx(sign_flip(scores, np.ones_like(scores)).p_value, abs=1e-12)
    assert found.smallest == 1 / 2**7


def test_a_few_units_by_going_through_all_flips():
    nets = np.array([[1.0, -1.0, 0.0], [2.0, 0.0, -2.0], [0.0, 1.0, -1.0], [1.0, 1.0, -2.0]])
    weight = (nets**2).sum(axis=0)

    def statistic(flips):
        return ((np.array(flips) @ nets) ** 2 / weight).sum()

    every = [statistic(flips) for flips in product((1, -1), repeat=4)]
    expected = np.mean([one >= statistic((1, 1, 1, 1)) - 1e-12 for one in every])
    assert any_difference(nets).p_value == pytest.approx(expected)


def test_nothing_to_test_and_units_that_say_nothing():
    assert any_difference(np.zeros((5, 3))).p_value is None
    nets = np.array([[1.0, -1.0, 0.0]] * 6)
    more = np.concatenate([nets, np.zeros((50, 3))])
    assert any_difference(more).p_value == any_difference(nets).p_value == 1 / 2**5


def test_no_name_moves_a_p_that_is_drawn():
    rng = np.random.default_rng(5)
    nets = rng.integers(-3, 4, (40, 3)).astype(float)
    nets[:, 2] = -nets[:, 0] - nets[:, 1]
    p = any_difference(nets).p_value
    for _ in range(5):
        again = nets[rng.permutation(40)][:, rng.permutation(3)]
        assert any_difference(again).p_value == p


def test_few_units_of_a_method_do_not_settle_its_rank():
    """Three methods alike, the third compared in two of twelve prompts; sets erred in .16."""
    rng, wrong = np.random.default_rng(8), 0
    for _ in range(150):
        rows = []
        for prompt in range(12):
            lean = rng.normal(size=3)
            for i, j in combinations(range(3 if prompt < 2 else 2), 2):
                for rater in range(5):
                    gap = lean[i] - lean[j] + rng.normal()
                    side = ("tie", f"m{i}", f"m{j}")[0 if rng.random() < 0.2 else 1 if gap > 0 else 2]
                    rows.append((f"{prompt}-{i}{j}", f"{prompt}", f"m{i}", f"m{j}", f"r{rater}", side))
        verdicts = listed("pair_id prompt_id method_a method_b rater verdict", rows)
        (row,) = ranking_rows(verdicts, replicates=2)
        wrong += any(found != (1, 3) for found in row.sets)
    assert wrong / 150 <= 0.09


def study(rng, quality, prompts, compared, sd=0.6):
    """Verdicts of one rater: unit, first, second, points."""
    pairs = np.array(list(combinations(range(len(quality)), 2)))
    rows = []
    for prompt in range(prompts):
        own = np.asarray(quality) + sd * rng.normal(size=len(quality))
        for i, j in pairs[rng.permutation(len(pairs))[:compared]]:
            gap = own[i] - own[j] + 1.2 * rng.normal()
            rows.append((prompt, i, j, 2 if gap > 0.5 else 0 if gap < -0.5 else 1))
    return np.array(rows).T


def ranked(rows, methods, prompts):
    unit, first, second, points = rows
    table = tally(np.zeros_like(unit), first, second, points, items=1, methods=methods)[0].astype(float)
    found = davidson(*to_matrices(table, methods), [str(one) for one in range(methods)])
    parameters = np.array([*found.strengths, found.log_nu])
    strata = np.zeros(prompts, dtype=int)
    return parameters, strength_influence(parameters, unit, first, second, points, strata=strata)


def test_the_influence_is_what_leaving_a_unit_out_does():
    rows = study(np.random.default_rng(3), (0.5, 0.0, 0.0, -0.5), 400, 6)
    parameters, influence = ranked(rows, 4, 400)
    assert influence.sum(axis=0) == pytest.approx(0, abs=1e-9)
    assert influence[:, :-1].sum(axis=1) == pytest.approx(0, abs=1e-9)
    assert share_influence(parameters, influence).sum(axis=1) == pytest.approx(0, abs=1e-9)
    for unit in (0, 7, 200):
        without, _ = ranked(rows[:, rows[0] != unit], 4, 400)
        assert parameters - without == pytest.approx(influence[unit], abs=4e-4)
        moved = newton.shares(parameters) - newton.shares(without)
        assert moved == pytest.approx(share_influence(parameters, influence)[unit], abs=1e-4)
        assert np.abs(influence[unit]).max() > 1e-3


def test_the_line_of_one_difference_is_students_and_of_many_is_between_it_and_bonferronis():
    from scipy import stats

    rng = np.random.default_rng(1)
    one = rng.normal(size=(40, 1))
    line = simultaneous_line(np.hstack([one, -one]), freedom=39)
    assert line == pytest.approx(stats.t.isf(0.025, 39), abs=0.05)
    many = rng.normal(size=(40, 6))
    line = simultaneous_line(many - many.mean(axis=1, keepdims=True), freedom=39)
    assert stats.t.isf(0.025, 39) + 0.5 < line < stats.t.isf(0.025 / 15, 39)
    # Tukey's studentised range, for equal variances without correlation
    equal = np.tile(np.eye(6) - 1 / 6, (200, 1)) * rng.normal(size=(1200, 1))
    assert simultaneous_line(equal, freedom=1199) * np.sqrt(2) == pytest.approx(
        stats.studentized_range.isf(0.05, 6, 1199), abs=0.1
    )
    # of a difference that six of forty units know of: enough for the tails of six
    few = np.zeros((40, 1))
    few[:6] = 1.0
    line = simultaneous_line(np.hstack([few, -few]), freedom=39)
    t5 = float(stats.t.isf(0.025, 5))
    share = 6 * t5**2 / (5 + t5**2)  # (Σx)² / Σx², from t of six
    assert line >= np.sqrt(share / (1 - share / 40) * 39 / 40)
    assert simultaneous_line(np.zeros((4, 3)), freedom=3) == 0


@pytest.mark.slow
@pytest.mark.parametrize("quality", [(0.0,) * 5, (0.4, 0.4, 0.0, -0.4, -0.4)])
def test_all_ranks_are_right_at_once_and_the_test_holds(quality):
    rng, truth = np.random.default_rng(5), np.asarray(quality)
    least = 1 + (truth > truth[:, None]).sum(axis=1)
    greatest = 5 - (truth < truth[:, None]).sum(axis=1)
    right, rejected, studies = 0, 0, 150
    for _ in range(studies):
        rows = study(rng, quality, 40, 6)
        parameters, influence = ranked(rows, 5, 40)
        influence = share_influence(parameters, influence)
        line = simultaneous_line(influence, freedom=39)
        sets = rank_sets(newton.shares(parameters), influence, freedom=39, line=line)
        right += all(low <= a and b <= high for (low, high), a, b in zip(sets, least, greatest, strict=True))
        nets = np.zeros((40, 5))
        np.add.at(nets, (rows[0], rows[1]), rows[3] - 1.0)
        np.add.at(nets, (rows[0], rows[2]), 1.0 - rows[3])
        rejected += any_difference(nets).p_value <= 0.05
    assert right >= 0.95 * studies - 3 * np.sqrt(studies * 0.05 * 0.95)
    if len(set(quality)) == 1:
        assert rejected <= 0.05 * studies + 3 * np.sqrt(studies * 0.05 * 0.95)
    else:
        assert rejected > 0.8 * studies
