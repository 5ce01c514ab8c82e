"""Each of GUARD's equations equals hand arithmetic."""

import math

import pytest
import torch
from refusals import expect_refusal

from guard_eval.generation.decoding.entropy import average_entropies
from guard_eval.generation.decoding.guard import equations as guard
from guard_eval.generation.strategies import Guard


def f64(*values):
    return torch.tensor(values, dtype=torch.float64)


def column(*values):
    """Return the values of one text, with a row for each step."""
    return f64(*values)[:, None]


def test_guard_parameters_equal_hand_arithmetic():
    """One step with H_t = 3, H_{t−1} = 2, med(1, ½, 2) = 1, H_glob = 2, ln|V| = 8."""
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

    adapted = guard.adapt_parameters(column(1, 0.5, 2, 3), f64(2), 8.0, Guard())
    assert adapted.k.tolist() == [10]
    assert adapted.q.tolist() == pytest.approx([q])
    assert adapted.log_alpha.exp().tolist() == pytest.approx([alpha])


def test_entropy_averages_equal_hand_arithmetic():
    window = column(4, 1, 3, 8)
    assert average_entropies(window, "median").tolist() == [3.5]
    assert average_entropies(window, "median", lower_median=True).tolist() == [3]
    assert average_entropies(window, "mean").tolist() == [4]
    # in order 1 3 4 8: quantiles at places .3 and 2.7: 1.6 and 6.8, so (1.6 + 3 + 4 + 6.8) / 4
    assert average_entropies(window, "winsorized").tolist() == pytest.approx([3.85])
    for how in ("median", "mean", "winsorized"):
        assert (
            average_entropies(window[:1], how).tolist()
            == average_entropies(window[:1], how, lower_median=True).tolist()
            == [4]
        )
    assert average_entropies(window[:3], "median", lower_median=True).tolist() == [3]


def test_released_formulation_refuses_a_window_of_one():
    with expect_refusal("window = 1 is too small for formulation = 'released'"):
        Guard(window=1, formulation="released")
