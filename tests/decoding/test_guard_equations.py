"""Each of GUARD's equations against numbers worked by hand."""

import math

import pytest
import torch
from torch import Tensor

from guard_eval.decoding import guard


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


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
    assert guard.delta_local(f64(2), f64(5), f64(3), 4.0).tolist() == pytest.approx([math.log(3)])
    assert guard.delta_global(f64(2), f64(3), f64(1), 4.0).tolist() == pytest.approx([math.log(3)])
    # the signs: an entropy below the window's and a window below the trend
    assert guard.delta_local(f64(1), f64(1), f64(3), 4.0).tolist() == pytest.approx([-math.log(3) / 2])
    assert guard.delta_global(f64(1), f64(1), f64(3), 4.0).tolist() == pytest.approx([-math.log(3) / 2])


def test_local_weight():
    # |−3| / (3 + 1 + 1e-6); 0 where nothing moves
    assert guard.local_weight(f64(-3, 0), f64(1, 0)).tolist() == pytest.approx([3 / 4.000001, 0])


def test_glocal_is_the_weighted_mean():
    assert guard.glocal(f64(0.25), f64(4), f64(-2)).tolist() == [0.25 * 4 - 0.75 * 2]


def test_candidate_count_is_rounded_down_within_5_and_15():
    # 10 (1 − 1/(e^x + 1)) + 5: x = 0 → 10; x = ln 3 → 12.5; x = −ln 3 → 7.5; the ends
    assert guard.candidate_count(f64(0, math.log(3), -math.log(3), -1e8, 1e8)).tolist() == [10, 12, 7, 5, 15]


def test_log_penalty():
    # α = 1 − 1/(e^x + 1): x = ln 3 → 3/4; far below, ln α ≈ x stays a number
    values = guard.log_penalty(f64(0, math.log(3), -2000)).tolist()
    assert values == pytest.approx([math.log(1 / 2), math.log(3 / 4), -2000])


def test_token_counts():
    ids = torch.tensor([[7, 8, 9], [7, 8, 9]])
    history = torch.tensor([[7, 7, 9, 7], [1, 2, 3, 8]])
    assert guard.token_counts(ids, history).tolist() == [[3, 0, 1], [0, 1, 0]]
    assert guard.token_counts(ids, history[:, :0]).tolist() == [[0, 0, 0]] * 2


def test_penalised():
    # ln(0.5 · 0.25²) = ln(1/32), ln(0.25 · 0.25⁰) = ln(1/4)
    scores = guard.penalised(f64(0.5, 0.25).log()[None], torch.tensor([[2, 0]]), f64(0.25).log())
    assert scores.exp().tolist()[0] == pytest.approx([1 / 32, 1 / 4])


def test_adapt_at_the_first_step():
    # All differences are 0: k = ⌊10 · ½ + 5⌋ = 10, α = ½
    h = f64(2.5)
    k, log_alpha = guard.adapt(h, h, h, h, math.log(100))
    assert k.tolist() == [10]
    assert log_alpha.exp().tolist() == [0.5]


def test_adapt_by_hand():
    """Walk through one step: H_t = 3, H_{t−1} = 2, med = 1, H_glob = 2, ln|V| = 8."""
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

    k, log_alpha = guard.adapt(f64(3), f64(2), f64(1), f64(2), 8.0)
    assert k.tolist() == [10]
    assert log_alpha.exp().tolist() == pytest.approx([alpha])


def test_adapt_where_the_difference_exceeds_ln_k():
    # q = 1 + 9/.5 + .1/.5 = 19.2, 19.2 arctanh(9/10.8) ≈ 23, so k = ⌊15 − 1e-9⌋ = 14. H − med = 9 is above
    # ln 14 = 2.6: arctanh is held, and α is 1 to many digits rather than no number.
    k, log_alpha = guard.adapt(f64(9.5), f64(0.5), f64(0.5), f64(0.6), math.log(50_000))
    assert k.tolist() == [14]
    assert log_alpha.tolist() == pytest.approx([0], abs=1e-6)


def test_the_window_leaves_the_current_step_out_and_grows_at_the_start():
    state = guard.GuardState.new(1, 6, torch.device("cpu"))
    entropies = [4.0, 1.0, 2.0, 8.0, 5.0]
    seen = [guard.observe(f64(h), state, step, window=3, decay=1.0) for step, h in enumerate(entropies)]
    before, local, overall = ([round(x.item(), 9) for x in column] for column in zip(*seen, strict=True))
    assert before == [4, 4, 1, 2, 8]
    assert local == [4, 4, 2.5, 2, 2]  # ·, [4], [4 1], [4 1 2], [1 2 8]
    assert overall == [4, 2.5, round(7 / 3, 9), 3.75, 4]  # plain means, since λ = 1
