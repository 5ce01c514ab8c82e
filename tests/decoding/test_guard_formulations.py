"""Where Algorithm 1 and the released program depart from the equations, against numbers worked by hand."""

import math

import pytest
import torch
from torch import Tensor

from guard_eval.decoding.guard import algorithm1, released
from guard_eval.errors import StudyError
from guard_eval.strategies import Guard


def f64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def column(*values: float) -> Tensor:
    return f64(*values)[:, None]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_algorithm1_before_the_window_is_full():
    """With w = 4 and three entropies 1, 2, 6, the last the current: med 2, δ_glob = arctanh((6 − 2)/8)."""
    adapted = algorithm1.adapt(column(1, 2, 6), f64(99), 8.0, Guard(window=4))
    # e^x = √3: σ = .634, k = ⌊11.34⌋ = 11; α = σ(ln(3)/2 · ln 11)
    assert (adapted.k.tolist(), adapted.q.tolist()) == ([11], [1])
    alpha = sigmoid(math.log(3) / 2 * math.log(11))
    assert adapted.log_alpha.exp().tolist() == pytest.approx([alpha])


def test_algorithm1_with_a_full_window():
    """With w = 3: H = 5, 1, 2, 6 and the window 1, 2, 6: med 2, before 2, H_glob = 4, ln|V| = 8."""
    q = 1 + 4 / 2.000001 + 2 / 4.000001
    d_loc, d_glob = q * math.atanh(4 / 8), q * math.atanh(-2 / 8)
    lam = d_loc / (d_loc - d_glob + 1e-6)
    x = lam * d_loc + (1 - lam) * d_glob
    k = math.floor(10 * sigmoid(x) + 5)
    assert k == 12  # q ≈ 3.5, δ ≈ 1.92 and −.89, λ ≈ .68, x ≈ 1.03, σ ≈ .737
    adapted = algorithm1.adapt(column(5, 1, 2, 6), f64(4), 8.0, Guard(window=3))
    assert adapted.k.tolist() == [12]
    assert adapted.q.tolist() == pytest.approx([q])
    assert adapted.log_alpha.exp().tolist() == pytest.approx([sigmoid(x * math.log(12))])


def test_released_before_the_window_is_full():
    """With w = 5 and 1, 2, 4, 3: the lower median of all is 2, r_change = 1/(4 + 1e-4), and δ_glob = 0."""
    q = 1 + 0.1 / 4.0001
    d_loc = q * math.atanh(1 / 8)
    x = d_loc * d_loc / (d_loc + 1e-4)  # λ δ_loc
    k = 10 * sigmoid(x) + 5
    d_loc = q * math.atanh(1 / math.log(k + 1e-4))
    alpha = sigmoid(d_loc * d_loc / (d_loc + 1e-4))
    adapted = released.adapt(column(1, 2, 4, 3), f64(99), 8.0, Guard(window=5, formulation="released"))
    assert adapted.k.tolist() == [10]  # d_loc ≈ .129, σ ≈ .532, k ≈ 10.3
    assert adapted.q.tolist() == pytest.approx([q])
    assert adapted.log_alpha.exp().tolist() == pytest.approx([alpha])


def test_released_with_a_full_window():
    """With w = 3: 9, 1, 2, 6: windows 1, 2, 6 and 2, 6, whose lower medians are 2; H_glob = 3, ln|V| = 8."""
    q = 0.9 + 0.1 * (1 + 1 + 1 / 2.0001)  # r_change = 4/2, held at 1; r_diff = 1/2

    def mixed(size: float) -> float:
        d_loc, d_glob = q * math.atanh(min(4 / size, 1 - 1e-4)), q * math.atanh(-1 / size)
        lam = d_loc / (d_loc - d_glob + 1e-4)
        return lam * d_loc + (1 - lam) * d_glob

    k = 10 * sigmoid(mixed(8)) + 5
    strategy = Guard(window=3, formulation="released")
    adapted = released.adapt(column(9, 1, 2, 6), f64(3), 8.0, strategy)
    assert adapted.k.tolist() == [math.floor(k)]
    assert adapted.q.tolist() == pytest.approx([q])
    assert adapted.log_alpha.exp().tolist() == pytest.approx([sigmoid(mixed(math.log(k + 1e-4)))])


def test_the_released_program_has_no_window_of_one_step():
    with pytest.raises(StudyError, match="window = 1 does not go with formulation = 'released'"):
        Guard(window=1, formulation="released")
