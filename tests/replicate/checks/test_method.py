"""The second implementation of the equations against the first, and the checks on them by hand."""

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.decoding import guard_equations
from guard_eval.replicate.checks.equations import sigmoid, step
from guard_eval.replicate.checks.formulations import FORMULATIONS, chosen, logits
from guard_eval.strategies import Guard

VOCABULARY = 1000


def first_implementation(entropies, *, window=7, decay=0.95):
    raw = [decay**age for age in range(len(entropies))]
    overall = sum(w * h for w, h in zip(raw, reversed(entropies), strict=True)) / sum(raw)
    column = torch.tensor(entropies[-window - 1 :], dtype=torch.float64)[:, None]
    strategy = Guard(window=window, decay=decay)
    return guard_equations.adapt(
        column, torch.tensor([overall], dtype=torch.float64), math.log(VOCABULARY), strategy
    )


@given(st.lists(st.floats(0.05, 6.5), min_size=2, max_size=20))
def test_both_implementations_agree(entropies):
    ours = step(entropies, VOCABULARY)
    adapted = first_implementation(entropies)
    assert float(adapted.q) == pytest.approx(ours.q, rel=1e-9)
    if abs(ours.k - round(ours.k)) > 1e-6:
        assert int(adapted.k) == math.floor(ours.k)
        if ours.alpha is not None:
            assert float(adapted.log_alpha.exp()) == pytest.approx(ours.alpha, rel=1e-6, abs=1e-12)


def test_a_step_by_hand():
    # H = 1, 3; the window is {1}; H_glob = (3 + .95)/1.95
    found = step([1.0, 3.0], VOCABULARY)
    overall = 3.95 / 1.95
    q = 1 + 2 / (1 + 1e-6) + (overall - 1) / (1 + 1e-6)
    local, trend = (q * math.atanh(x / math.log(VOCABULARY)) for x in (2, 1 - overall))
    weight = local / (local - trend + 1e-6)
    assert found.q == pytest.approx(q)
    assert found.k == pytest.approx(5 + 10 / (1 + math.exp(-(weight * local + (1 - weight) * trend))))


def test_at_rest_everything_is_in_the_middle():
    found = step([2.0] * 9, VOCABULARY)
    assert (found.k, found.alpha, found.q) == pytest.approx((10, 0.5, 1))


def test_arctanh_has_no_value_beyond_ln_k():
    assert step([0.1] * 10 + [4.0], VOCABULARY).alpha is None
    with pytest.raises(ValueError, match=r"math domain error|expected a number"):
        step([0.0, 7.0], VOCABULARY)  # ln 1000 = 6.9


@given(st.floats(-800, 800))
def test_the_sigmoid_is_the_papers(x):
    assert 0 <= sigmoid(x) <= 1
    if abs(x) < 30:
        assert sigmoid(x) == pytest.approx(1 - 1 / (math.exp(x) + 1), abs=1e-12)


def test_the_formulations_part_and_one_is_itself():
    given_ = logits(3, 30, 200, seed=1)
    texts = [chosen(name, given_) for name in FORMULATIONS]
    assert all(
        torch.equal(chosen(name, given_), text) for name, text in zip(FORMULATIONS, texts, strict=True)
    )
    assert not torch.equal(texts[0], texts[1])
    assert not torch.equal(texts[0], texts[2])
    assert not torch.equal(texts[1], texts[2])


def test_the_first_token_is_the_likeliest_in_each():
    given_ = logits(4, 1, 50, seed=2)
    for name in FORMULATIONS:
        assert torch.equal(chosen(name, given_)[:, 0], given_[0].argmax(-1))


def test_lower_medians_are_lower_where_the_count_is_even():
    """What makes the zigzag: of w − 1 values, an even number where w is odd."""
    values = [1.0, 2.0, 3.0, 4.0]
    assert statistics.median_low(values) < statistics.median(values)
    assert statistics.median_low(values[:3]) == statistics.median(values[:3])
