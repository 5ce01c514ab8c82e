"""Entropies and medians against numbers worked by hand."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.decoding.entropy import arctanh, discounted_sum, global_entropy, median, shannon_entropy


def entropy_of(*probabilities: float) -> float:
    return shannon_entropy(torch.tensor([probabilities]).log())[0].item()


def test_entropy_by_hand():
    assert entropy_of(1 / 4, 1 / 4, 1 / 4, 1 / 4) == pytest.approx(math.log(4), abs=1e-6)
    # 1/2 · ln 2 + 2 · 1/4 · ln 4 = 1.5 ln 2
    assert entropy_of(1 / 2, 1 / 4, 1 / 4) == pytest.approx(1.5 * math.log(2), abs=1e-6)


def test_a_token_that_cannot_come_adds_nothing():
    assert entropy_of(1 / 2, 0, 1 / 2) == pytest.approx(math.log(2), abs=1e-6)
    assert entropy_of(1, 0, 0) == 0


def test_entropy_does_not_depend_on_a_shift_or_the_dtype_and_survives_large_logits():
    logits = torch.tensor([[1e4, 1e4, -1e4], [30.0, 30.0, -1e4]])
    entropy, log_p = shannon_entropy(logits.bfloat16())
    assert entropy.dtype == torch.float64
    assert log_p.dtype == torch.float32
    assert entropy.tolist() == pytest.approx([math.log(2)] * 2, abs=1e-6)


def test_global_entropy_by_hand():
    # (λ² · 1 + λ · 2 + 3) / (λ² + λ + 1) with λ = 1/2: (0.25 + 1 + 3) / 1.75
    total = torch.zeros(1, dtype=torch.float64)
    for entropy in (1.0, 2.0, 3.0):
        total = discounted_sum(torch.tensor([entropy], dtype=torch.float64), total, 0.5)
    assert global_entropy(total, 3, 0.5).item() == pytest.approx(4.25 / 1.75)


@given(st.lists(st.floats(0, 12), min_size=1, max_size=60), st.floats(0.01, 1))
def test_the_running_sum_is_the_definition(entropies: list[float], decay: float):
    total = torch.zeros(1, dtype=torch.float64)
    for entropy in entropies:
        total = discounted_sum(torch.tensor([entropy], dtype=torch.float64), total, decay)
    t = len(entropies)
    weights = [decay ** (t - i) for i in range(1, t + 1)]
    direct = sum(w * h for w, h in zip(weights, entropies, strict=True)) / sum(weights)
    assert global_entropy(total, t, decay).item() == pytest.approx(direct, rel=1e-9, abs=1e-9)


def test_median_of_an_even_count_is_the_mean_of_the_middle_two():
    assert median(torch.tensor([[4.0, 1.0, 3.0, 8.0]])).tolist() == [3.5]
    assert median(torch.tensor([[4.0, 1.0, 3.0], [0.0, 9.0, 2.0]])).tolist() == [3.0, 2.0]
    assert median(torch.tensor([[7.0]])).tolist() == [7.0]


def test_arctanh_is_finite_beyond_its_domain():
    # arctanh(1 − 1e-6) = ½ ln((2 − 1e-6) / 1e-6)
    edge = 0.5 * math.log((2 - 1e-6) / 1e-6)
    values = arctanh(torch.tensor([0.5, 1.0, -3.0], dtype=torch.float64)).tolist()
    assert values == pytest.approx([0.5 * math.log(3), edge, -edge])
