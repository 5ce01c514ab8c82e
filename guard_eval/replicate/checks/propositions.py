"""The paper's two propositions on the global entropy (`app:A`), by exact arithmetic and by simulation."""

from __future__ import annotations

from fractions import Fraction

from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.variance import distance_limit, limit, simulated, variances, weights

SUBJECT = "propositions"
DECAY = Fraction(19, 20)
"""λ = 0.95, the paper's."""
LONGEST = 256
"""Tokens of a continuation."""
CORRELATION = Fraction(1, 2)
PATHS = 4000
IN_FIGURE = "docs/images/global-entropy-variance.svg shows the variance against t."


def unbiased() -> Check:
    """Check that the weights are a convex combination, which with a constant mean is all there is to show."""
    decays = [Fraction(0), Fraction(1, 2), DECAY, Fraction(99, 100), Fraction(1)]
    wrong = [
        (decay, t)
        for decay in decays
        for t in range(1, 65)
        if sum(weights(t, decay)) != 1 or min(weights(t, decay)) < 0
    ]
    return Check(
        name="entropy-unbiased",
        subject=SUBJECT,
        where="app:A, Proposition 1",
        claim="E[H_glob,t] = E[H(X)_t] for a stationary process",
        found=f"the weights are not negative and sum to exactly 1 for λ = {', '.join(map(str, decays))} and "
        "t to 64; "
        "the rest is linearity",
        holds=not wrong,
        source="exact fractions",
        detail=(
            (
                "The method takes λ from (0, 1], the proposition from [0, 1): both ends hold, λ = 0 being "
                "H(X)_t "
                "itself."
            ),
            (
                "A constant mean is needed, stationarity is more than that. The paper discusses that texts "
                "may "
                "not be."
            ),
        ),
    )


def plain_average(*, paths: int = PATHS) -> Check:
    """Check the variance's order for λ = 1."""
    one, steps = Fraction(1), 4 * LONGEST
    exact = variances(steps, one)
    tied = variances(steps, float(one), float(CORRELATION))
    drawn = simulated(LONGEST, 1.0, float(CORRELATION), paths=paths, seed=7)
    return Check(
        name="entropy-consistent-average",
        subject=SUBJECT,
        where="app:A, Proposition 2",
        claim="Var(H_glob,t) = O(1/t), hence consistency; for λ = 1",
        found=f"uncorrelated: t · Var is exactly 1 for every t to {steps}; with covariances "
        f"{float(CORRELATION)}^|i−j| it "
        f"tends to (1 + ρ)/(1 − ρ) = {(1 + CORRELATION) / (1 - CORRELATION)} ({steps * tied[-1]:.3f} at "
        f"{steps}; "
        f"simulated at {LONGEST}: {LONGEST * drawn[-1]:.2f})",
        holds=all(t * value == 1 for t, value in enumerate(exact, 1))
        and max(t * value for t, value in enumerate(tied, 1)) <= 3,
        source=f"exact fractions; {paths} simulated texts of a two-valued Markov chain",
    )


def with_decay(*, paths: int = PATHS, steps: int = 4 * LONGEST) -> Check:
    """Check the variance's order for λ = 0.95, where weights do not spread out as t grows."""
    exact = variances(LONGEST, DECAY)
    tends, tied = limit(DECAY), limit(DECAY, CORRELATION)
    drawn = simulated(steps, float(DECAY), 0.0, paths=paths, seed=8)
    drawn_tied = simulated(steps, float(DECAY), float(CORRELATION), paths=paths, seed=9)
    last = float(exact[-1])
    return Check(
        name="entropy-consistent-decay",
        subject=SUBJECT,
        where="app:A, Proposition 2",
        claim="Var(H_glob,t) = O(1/t), and H_glob,t is consistent, “for any λ ∈ (0,1]”; λ = 0.95 is used",
        found="for λ < 1 the variance does not vanish. Uncorrelated entropies: it tends to σ² (1 − λ)/(1 + "
        "λ), for "
        f"λ = 0.95 to σ²/{1 / tends}. Exactly at t = 256: {last:.6f} σ², 1/t would be {1 / LONGEST:.6f}; "
        "simulated at "
        f"t = {steps}: {drawn[-1]:.4f}",
        holds=LONGEST * last < 2 and last < float(tends),
        source=f"exact fractions; {paths} simulated texts of a process that meets all three assumptions",
        detail=(
            (
                f"Covariances ρ^|i−j| multiply it by (1 + λρ)/(1 − λρ): for ρ = 0.5 to {float(tied):.4f} σ² "
                "(simulated: "
                f"{drawn_tied[-1]:.4f})."
            ),
            (
                "Why: the newest step keeps the weight 1 − λ however long the text. The proof bounds the "
                "double "
                "sum of "
                "covariances “under standard mixing conditions”, which give 1/t for weights of 1/t, and not "
                "for "
                "these; its "
                "other steps, Chebyshev's inequality among them, are right."
            ),
            (
                f"λ = 0.95 averages over about (1 + λ)/(1 − λ) = {1 / tends} tokens: a smoothing that text "
                "length does not "
                "improve. With λ = 1, or λ rising with t so that t(1 − λ) stays bounded, the proposition "
                "holds."
            ),
            IN_FIGURE,
        ),
    )


def instantaneous() -> Check:
    """Check what H_glob,t is near to: the mean entropy, or the entropy of the step."""
    one = distance_limit(Fraction(1))
    used = distance_limit(DECAY)
    direct = weights(LONGEST, float(DECAY))
    at_end = (1 - direct[-1]) ** 2 + sum(weight**2 for weight in direct[:-1])
    return Check(
        name="entropy-instantaneous",
        subject=SUBJECT,
        where="subsec:global-entropy",
        claim="H_glob,t is “an unbiased estimator” and “a consistent estimator of H(X)_t”; it “converges in "
        "probability … to "
        "the instantaneous entropy”",
        found="what is proved is convergence to the constant E[H(X)_t]. From the entropy of the step itself "
        "H_glob,t stays "
        f"away: for uncorrelated entropies E[(H_glob,t − H(X)_t)²] tends to 2λ²/(1 + λ) σ², for λ = 0.95 to "
        f"{float(used):.3f} σ², for λ = 1 to {one} σ²",
        holds=float(used) < 0.01,
        source=f"exact fractions; by the weights at t = {LONGEST}: {float(at_end):.3f}",
        detail=(
            (
                "For a random H(X)_t both cannot be. In the method H_glob,t serves as the long-term level "
                "that a "
                "step is "
                "compared with, which is what it is near to."
            ),
        ),
    )
