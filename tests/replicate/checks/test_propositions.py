"""The variance of the global entropy: recursion against the double sum, limits, simulation, figure."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.replicate.checks.variance import distance_limit, limit, simulated, variances, weights
from guard_eval.replicate.checks.variance_figure import TITLE, draw

SHIPPED = Path(__file__).parents[3] / "docs" / "images" / "global-entropy-variance.svg"
fractions = st.fractions(0, 1, max_denominator=20)


@given(st.integers(1, 12), fractions, fractions)
def test_the_recursion_is_the_double_sum(t, decay, correlation):
    """Var(Σ w_i H_i) = Σ Σ w_i w_s ρ^|i − s|, the proof's own display."""
    w = weights(t, decay)
    direct = sum(w[i] * w[s] * correlation ** abs(i - s) for i in range(t) for s in range(t))
    assert variances(t, decay, correlation)[-1] == direct


@given(st.integers(1, 40), fractions)
def test_weights_are_a_convex_combination(t, decay):
    assert sum(weights(t, decay)) == 1
    assert min(weights(t, decay)) >= 0


def test_by_hand():
    # t = 2, λ = 1/2: weights 1/3, 2/3; variance 5/9. The limit is (1/2)/(3/2) = 1/3.
    assert variances(2, Fraction(1, 2)) == [1, Fraction(5, 9)]
    assert limit(Fraction(1, 2)) == Fraction(1, 3)
    # (1 − λ)(1 + λ^t) / ((1 + λ)(1 − λ^t)) at λ = 1/2, t = 2: (1/2 · 5/4) / (3/2 · 3/4) = 5/9
    assert Fraction(5, 8) / Fraction(9, 8) == Fraction(5, 9)


@pytest.mark.parametrize(("decay", "correlation"), [(0.91, 0.0), (0.95, 0.5), (0.99, -0.3), (0.5, 0.9)])
def test_the_variance_tends_to_its_limit(decay, correlation):
    assert variances(3000, decay, correlation)[-1] == pytest.approx(limit(decay, correlation), rel=1e-9)
    assert limit(decay, correlation) > 0


def test_without_decay_it_vanishes():
    assert limit(Fraction(1)) == 0
    assert variances(50, Fraction(1)) == [Fraction(1, t) for t in range(1, 51)]


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.95, 1.0])
def test_the_distance_from_the_steps_own_entropy(decay):
    w = weights(4000, decay)
    direct = (1 - w[-1]) ** 2 + sum(weight**2 for weight in w[:-1])
    assert direct == pytest.approx(distance_limit(decay), abs=5e-4)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_simulated_texts_have_this_variance(correlation):
    paths = 4000
    found = simulated(60, 0.9, correlation, paths=paths, seed=11)
    # A variance over n texts has a relative standard error near √(2/n) = .022.
    assert found == pytest.approx(np.array(variances(60, 0.9, correlation)), rel=0.1)


def test_the_figure(tmp_path):
    draw(tmp_path / "a.svg", steps=64, paths=50)
    draw(tmp_path / "b.svg", steps=64, paths=50)
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
    for words in ("λ = 0.95, ρ = 0.5", TITLE, "0.01", 'role="img"'):
        assert words in text
    assert "mathdefault" not in text


def test_the_shipped_figure_is_this_one():
    shipped = SHIPPED.read_text(encoding="utf-8")
    assert TITLE in shipped
    assert f"{limit(0.95):.4f}" in shipped
