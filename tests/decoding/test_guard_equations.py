"""Each of GUARD's equations against numbers worked by hand."""

import math

import pytest
import torch
from stepping import Follower
from torch import Tensor

from guard_eval.decoding.entropy import aggregate, apply_mapping, winsorized_mean
from guard_eval.decoding.guard import equations as guard
from guard_eval.strategies import Guard


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def column(*values: float) -> Tensor:
    """One row's values, a step per line."""
    return f64(*values)[:, None]


def test_relative_change():
    # |3 − 2| / (2 + 1e-6), and from nothing: |1 − 0| / 1e-6
    assert guard.relative_change(f64(3, 1), f64(2, 0)).tolist() == pytest.approx([1 / 2.000001, 1e6])


def test_relative_difference_divides_by_the_window():
    # |4 − 1| / (4 + 1e-6); divided by the other it would be 3
    assert guard.relative_difference(f64(4), f64(1)).tolist() == pytest.approx([3 / 4.000001])


def test_amplification_has_no_bound():
    assert guard.amplification(f64(0, 0.5, 30), f64(0, 0.25, 12)).tolist() == [1, 1.75, 43]


def test_deltas():
    # arctanh(1/2) = ln(3)/2; ln|V| = 4, H = 5, med = 3, H_glob = 1, q = 2: δ_loc = δ_glob = 2 · arctanh(2/4)
    apart = guard.differences(f64(5), f64(3), f64(1))
    assert apart.tolist() == [[2], [2]]
    assert guard.deltas(f64(2), apart, 4.0).flatten().tolist() == pytest.approx([math.log(3)] * 2)
    # the signs: an entropy below the window's and a window below the trend
    apart = guard.differences(f64(1), f64(3), f64(4))
    assert apart.tolist() == [[-2], [-1]]
    expected = [-math.log(3) / 2, -math.log(5 / 3) / 2]  # arctanh(1/4) = ½ ln(5/3)
    assert guard.deltas(f64(1), apart, 4.0).flatten().tolist() == pytest.approx(expected)
    assert guard.deltas(f64(1), apart, f64(4)).flatten().tolist() == pytest.approx(expected)


def test_local_weight():
    # |−3| / (3 + 1 + 1e-6); 0 where nothing moves
    deltas = torch.stack([f64(-3, 0), f64(1, 0)])
    assert guard.local_weight(deltas).tolist() == pytest.approx([3 / 4.000001, 0])


def test_combine_deltas_is_the_weighted_mean():
    assert guard.combine_deltas(f64(0.25), torch.stack([f64(4), f64(-2)])).tolist() == [0.25 * 4 - 0.75 * 2]


def test_candidate_number_lies_within_5_and_15():
    # 10 (1 − 1/(e^x + 1)) + 5: x = 0 → 10; x = ln 3 → 12.5; x = −ln 3 → 7.5; the ends
    numbers = guard.candidate_number(f64(0, math.log(3), -math.log(3), -1e8, 1e8)).tolist()
    assert numbers == pytest.approx([10, 12.5, 7.5, 5, 15])


def test_log_penalty():
    # α = 1 − 1/(e^x + 1): x = ln 3 → 3/4; far below, ln α ≈ x stays a number
    values = guard.log_penalty(f64(0, math.log(3), -2000)).tolist()
    assert values == pytest.approx([math.log(1 / 2), math.log(3 / 4), -2000])


def test_adapt_at_the_first_step():
    # All differences are 0: k = ⌊10 · ½ + 5⌋ = 10, α = ½
    adapted = guard.adapt(column(2.5), f64(2.5), math.log(100), Guard())
    assert (adapted.k.tolist(), adapted.q.tolist()) == ([10], [1])
    assert adapted.log_alpha.exp().tolist() == [0.5]


def test_adapt_by_hand():
    """Walk through one step: H_t = 3, H_{t−1} = 2, med(1, ½, 2) = 1, H_glob = 2, ln|V| = 8."""
    q = 1 + 1 / 2.000001 + 1 / 1.000001  # r_change = |3 − 2|/2, r_diff = |1 − 2|/1
    d_loc = q * 0.5 * math.log((1 + 2 / 8) / (1 - 2 / 8))  # arctanh x = ½ ln((1 + x)/(1 − x))
    d_glob = -q * 0.5 * math.log((1 + 1 / 8) / (1 - 1 / 8))
    lam = d_loc / (d_loc - d_glob + 1e-6)
    exponent = lam * d_loc + (1 - lam) * d_glob
    # q ≈ 2.5: δ_loc ≈ .6385, δ_glob ≈ −.3141, λ_k ≈ .6703, exponent ≈ .3244, so k = ⌊10 · .5804 + 5⌋ = 10
    assert exponent == pytest.approx(0.3244, abs=1e-4)
    ln_k = math.log(10)
    # for α: ln 10 = 2.3026 for 8, the same λ: arctanh(.8686) = 1.3272, arctanh(.4343) = .4652
    exponent = lam * q * math.atanh(2 / ln_k) - (1 - lam) * q * math.atanh(1 / ln_k)
    alpha = 1 - 1 / (math.exp(exponent) + 1)
    assert alpha == pytest.approx(0.863, abs=1e-3)

    adapted = guard.adapt(column(1, 0.5, 2, 3), f64(2), 8.0, Guard())
    assert adapted.k.tolist() == [10]
    assert adapted.q.tolist() == pytest.approx([q])
    assert adapted.log_alpha.exp().tolist() == pytest.approx([alpha])


def test_adapt_where_the_difference_exceeds_ln_k():
    # q = 1 + 9/.5 + .1/.5 = 19.2, 19.2 arctanh(9/10.8) ≈ 23, so k = ⌊15 − 1e-9⌋ = 14. H − med = 9 is above
    # ln 14 = 2.6: arctanh is held, and α is 1 to many digits rather than no number.
    adapted = guard.adapt(column(0.5, 9.5), f64(0.6), math.log(50_000), Guard())
    assert adapted.k.tolist() == [14]
    assert adapted.log_alpha.tolist() == pytest.approx([0], abs=1e-6)


def test_aggregates_by_hand():
    window = column(4, 1, 3, 8)
    assert aggregate(window, "median").tolist() == [3.5]
    assert aggregate(window, "median", lower=True).tolist() == [3]
    assert aggregate(window, "mean").tolist() == [4]
    # in order 1 3 4 8: quantiles at places .3 and 2.7: 1.6 and 6.8, so (1.6 + 3 + 4 + 6.8) / 4
    assert aggregate(window, "winsorized").tolist() == pytest.approx([3.85])
    for how in ("median", "mean", "winsorized"):
        assert aggregate(window[:1], how).tolist() == aggregate(window[:1], how, lower=True).tolist() == [4]
    assert aggregate(window[:3], "median", lower=True).tolist() == [3]


def test_winsorized_mean_of_eleven_draws_in_one_at_either_end():
    # places 1 and 9 of 0 … 10: 0 becomes 1, and 100 becomes 9: (1 + 1 + 2 + … + 9 + 9) / 11
    assert winsorized_mean(column(*range(10), 100)).tolist() == pytest.approx([55 / 11])


def test_the_logarithmic_map_keeps_the_sign():
    x = f64(math.e - 1, 1 - math.e, 0)
    assert apply_mapping(x, "log", 0.5).tolist() == pytest.approx([1, -1, 0])
    assert apply_mapping(x, "arctanh", 0.5).tolist() == pytest.approx([math.log(3) / 2, -math.log(3) / 2, 0])


def test_the_window_leaves_the_current_step_out_and_grows_at_the_start():
    """Follow q, which shows H_{t−1}, the window's median and H_glob,t, over flat distributions."""
    sizes = [8, 2, 4, 32, 16]
    entropies = [math.log(size) for size in sizes]
    choose = Follower(Guard(window=3, decay=1.0), torch.zeros(1).long())
    for size in sizes:
        logits = torch.full((1, 40), -torch.inf)
        logits[0, :size] = 0
        choose(logits)
    trace = choose.trace
    assert trace["H"][0].tolist() == pytest.approx(entropies)
    means = [sum(entropies[: t + 1]) / (t + 1) for t in range(5)]  # λ = 1
    assert trace["H_glob"][0].tolist() == pytest.approx(means)
    ln2 = math.log(2)
    medians = [3 * ln2, 3 * ln2, 2 * ln2, 2 * ln2, 2 * ln2]  # ·, [3], [3 1], [3 1 2], [1 2 5] times ln 2
    q = [1.0]
    for t in range(1, 5):
        change = abs(entropies[t] - entropies[t - 1]) / entropies[t - 1]
        q.append(1 + change + abs(medians[t] - means[t]) / medians[t])
    assert trace["q"][0].tolist() == pytest.approx(q, rel=1e-5)
