"""Entropies and medians equal hand arithmetic to the last digits."""

import math

import pytest
import torch

from guard_eval.generation.decoding.entropy import (
    compute_clamped_arctanh,
    compute_smoothed_entropy,
    shannon_entropy,
)


def entropy_of(*probabilities):
    return shannon_entropy(torch.tensor([probabilities]).log())[0].item()


def test_entropy_equals_hand_arithmetic():
    assert entropy_of(1 / 4, 1 / 4, 1 / 4, 1 / 4) == pytest.approx(math.log(4), abs=1e-6)
    # 1/2 · ln 2 + 2 · 1/4 · ln 4 = 1.5 ln 2
    assert entropy_of(1 / 2, 1 / 4, 1 / 4) == pytest.approx(1.5 * math.log(2), abs=1e-6)
    assert entropy_of(1, 0, 0) == 0


def test_entropy_ignores_shift_dtype_and_size_of_logits():
    logits = torch.tensor([[1e4, 1e4, -1e4], [30.0, 30.0, -1e4]])
    entropy, log_z = shannon_entropy(logits.bfloat16())
    assert entropy.dtype == log_z.dtype == torch.float64
    assert entropy.tolist() == pytest.approx([math.log(2)] * 2, abs=1e-6)
    # bfloat16 makes 9984 of 10⁴
    assert log_z.tolist() == pytest.approx([9984 + math.log(2), 30 + math.log(2)], abs=1e-6)


def test_smoothed_entropy_equals_hand_arithmetic():
    by_hand = -(0.5 * math.log(0.5 + 1e-5) + 0.5 * math.log(0.25 + 1e-5))
    entropy, log_z = compute_smoothed_entropy(torch.tensor([[0.5, 0.25, 0.25, 0.0]]).log())
    assert entropy.tolist() == pytest.approx([by_hand], abs=1e-7)
    assert log_z.tolist() == pytest.approx([0], abs=1e-7)
    assert compute_smoothed_entropy(torch.tensor([[1.0, 0, 0]]).log())[0].item() == pytest.approx(
        -1e-5, rel=0.01
    )
    # 100 000 equal tokens: p = 1e-5 and −ln 2e-5, ln 2 less than the entropy
    flat = compute_smoothed_entropy(torch.zeros(1, 100_000))[0].item()
    assert flat == pytest.approx(math.log(100_000) - math.log(2), abs=1e-5)


@pytest.mark.parametrize("scale", [0.3, 3, 30])
def test_entropy_of_long_rows_equals_float64(scale):
    logits = torch.randn(3, 50_003, generator=torch.Generator().manual_seed(1)) * scale
    p = logits.double().softmax(-1)
    entropy, log_z = shannon_entropy(logits)
    assert entropy.tolist() == pytest.approx((-torch.xlogy(p, p).sum(-1)).tolist(), abs=1e-6)
    assert log_z.tolist() == pytest.approx(logits.double().logsumexp(-1).tolist(), abs=1e-6)
    smoothed = -(p * (p + 1e-5).log()).sum(-1)
    assert compute_smoothed_entropy(logits)[0].tolist() == pytest.approx(smoothed.tolist(), abs=2e-6)


def test_arctanh_is_finite_outside_its_domain():
    # arctanh(1 − 1e-6) = ½ ln((2 − 1e-6) / 1e-6)
    edge = 0.5 * math.log((2 - 1e-6) / 1e-6)
    values = compute_clamped_arctanh(torch.tensor([0.5, 1.0, -3.0], dtype=torch.float64)).tolist()
    assert values == pytest.approx([0.5 * math.log(3), edge, -edge])
