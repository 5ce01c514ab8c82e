"""The paper's two propositions on the global entropy (`app:A`), by exact arithmetic."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from variance import compute_distance_limit, compute_limit, compute_variances, compute_weights

pytestmark = pytest.mark.slow

DECAY, CORRELATION = Fraction(19, 20), Fraction(1, 2)
LONGEST = 256
fractions = st.fractions(0, 1, max_denominator=20)


@given(st.integers(1, 12), fractions, fractions)
def test_variance_recursion_equals_the_double_sum(t, decay, correlation):
    """Var(Σ w_i H_i) = Σ Σ w_i w_s ρ^|i − s|, the proof's own display."""
    w = compute_weights(t, decay)
    direct = sum(w[i] * w[s] * correlation ** abs(i - s) for i in range(t) for s in range(t))
    assert compute_variances(t, decay, correlation)[-1] == direct


@pytest.mark.parametrize(("decay", "correlation"), [(0.91, 0.0), (0.95, 0.5), (0.99, -0.3), (0.5, 0.9)])
def test_variance_tends_to_its_limit(decay, correlation):
    assert compute_variances(3000, decay, correlation)[-1] == pytest.approx(
        compute_limit(decay, correlation), rel=1e-9
    )
    assert compute_limit(decay, correlation) > 0


def test_global_entropy_is_unbiased(claim):
    """E[H_glob,t] = E[H(X)_t] for a stationary process (app:A, Proposition 1)"""
    decays = [Fraction(0), Fraction(1, 2), DECAY, Fraction(99, 100), Fraction(1)]
    claim.holds(
        f"the weights are not negative and sum to exactly 1 for λ = {', '.join(map(str, decays))} and t to "
        "64; the rest is linearity"
    )
    for decay in decays:
        for t in range(1, 65):
            assert sum(compute_weights(t, decay)) == 1
            assert min(compute_weights(t, decay)) >= 0


def test_global_entropy_without_decay_is_consistent(claim):
    """Var(H_glob,t) = O(1/t), hence consistency; for λ = 1 (app:A, Proposition 2)"""
    steps = 4 * LONGEST
    tied = compute_variances(steps, 1.0, float(CORRELATION))
    claim.holds(
        f"uncorrelated: t · Var is exactly 1 for every t to {steps}; with covariances "
        f"{float(CORRELATION)}^|i−j| it tends to (1 + ρ)/(1 − ρ) = {(1 + CORRELATION) / (1 - CORRELATION)} "
        f"({steps * tied[-1]:.3f} at {steps})"
    )
    assert compute_variances(steps, Fraction(1)) == [Fraction(1, t) for t in range(1, steps + 1)]
    assert max(t * variance for t, variance in enumerate(tied, 1)) <= 3


def test_global_entropy_with_decay_is_not_consistent(claim):
    """Var(H_glob,t) = O(1/t), and H_glob,t is consistent, “for any λ ∈ (0,1]”; λ = 0.95 is used
    (app:A, Proposition 2)"""
    last, tends = float(compute_variances(LONGEST, DECAY)[-1]), compute_limit(DECAY)
    claim.fails(
        "for λ < 1 the variance does not vanish. Uncorrelated entropies: it tends to σ² (1 − λ)/(1 + λ), for "
        f"λ = 0.95 to σ²/{1 / tends}. Exactly at t = {LONGEST}: {last:.6f} σ², 1/t would be {1 / LONGEST:.6f}"
    )
    assert tends == Fraction(1, 39)
    assert last > 6 / LONGEST


def test_global_entropy_does_not_estimate_a_steps_entropy(claim):
    """H_glob,t is “an unbiased estimator” and “a consistent estimator of H(X)_t”; it “converges in
    probability … to the instantaneous entropy” (subsec:global-entropy)"""
    used, limit_of_one = float(compute_distance_limit(DECAY)), compute_distance_limit(Fraction(1))
    w = compute_weights(LONGEST, float(DECAY))
    at_end = (1 - w[-1]) ** 2 + sum(weight**2 for weight in w[:-1])
    claim.fails(
        "what is proved is convergence to the constant E[H(X)_t]. From the entropy of the step itself "
        "H_glob,t stays away: for uncorrelated entropies E[(H_glob,t − H(X)_t)²] tends to 2λ²/(1 + λ) σ², "
        f"for λ = 0.95 to {used:.3f} σ², for λ = 1 to {limit_of_one} σ²"
    )
    assert limit_of_one == 1
    assert at_end == pytest.approx(used, abs=1e-3)
    assert used > 0.9
