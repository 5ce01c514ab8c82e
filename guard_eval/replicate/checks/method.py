"""What the paper says of its own formulas, against the formulas (`subsec:efficiency`, `app:C`)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from guard_eval.replicate.checks.equations import Step, step
from guard_eval.replicate.checks.records import Check

SUBJECT = "method"
WHERE = "subsec:efficiency"
VOCABULARY = 152_064
"""Of Qwen2.5-7B."""
HISTORIES = 20_000


def histories(number: int, *, seed: int) -> Iterator[list[float]]:
    """Yield histories of 2 to 40 entropies that jump: gamma-distributed, mean 2.5 nats, below ln|V|."""
    rng = np.random.default_rng(seed)
    highest = math.log(VOCABULARY)
    for _ in range(number):
        drawn = rng.gamma(rng.uniform(0.3, 3), 2.5, size=rng.integers(2, 41))
        scaled = drawn * (2.5 / drawn.mean())
        yield [float(value) for value in np.minimum(scaled, 0.999 * highest)]


@functools.cache
def searched(number: int = HISTORIES) -> list[Step]:
    """Return the steps after so many histories; those without a value are left out."""
    found = []
    for history in histories(number, seed=3):
        try:
            found.append(step(history, VOCABULARY))
        except ValueError:
            continue
    return found


def ranges() -> Check:
    """Look for a counterexample to the ranges of k_t, α_t and q."""
    steps = searched()
    ks = [each.k for each in steps]
    alphas = [each.alpha for each in steps if each.alpha is not None]
    qs = [each.q for each in steps]
    return Check(
        name="method-ranges",
        subject=SUBJECT,
        where="eq:kt, eq:q, eq:alphat",
        claim="“the constants 10 and 5 … define an effective range”: 5 ≤ k_t ≤ 15, 0 ≤ α_t ≤ 1; q ≥ 1",
        found=f"no counterexample in {len(steps)} histories: k_t {min(ks):.2f} to {max(ks):.2f}, α_t "
        f"{min(alphas):.2g} "
        f"to {max(alphas):.2g}, q {min(qs):.2f} to {max(qs):.3g}; 1 − 1/(exp(x) + 1) lies between 0 and 1 "
        "for every x",
        holds=5 <= min(ks) <= max(ks) <= 15 and 0 <= min(alphas) <= max(alphas) <= 1 and min(qs) >= 1,
        source="a second implementation of the equations; entropies that jump, mean 2.5 nats",
        detail=(
            (
                "q has no upper bound: after a step of entropy near 0, r_change divides by ε = 1e-6. The "
                "released program holds "
                "it within 1 and 1.2."
            ),
            "How k_t becomes a whole number is not said: rounded down it is 5 to 14, to the nearest 5 to 15.",
        ),
    )


def penalty() -> Check:
    """Check the direction in which α_t acts."""
    p, half = Fraction(1, 10), Fraction(1, 2)
    low, high = Fraction(1, 4), Fraction(3, 4)
    steps = [each for each in searched() if each.alpha is not None]
    together = sum((each.k > 10) == (each.alpha > half) for each in steps if each.alpha is not None)
    return Check(
        name="method-penalty",
        subject=SUBJECT,
        where=WHERE,
        claim="“also α_t increases, amplifying the degradation penalty”; “when V^(k_t) is small, each "
        "repetitive token … "
        "will receive a very light penalty, and vice versa”",
        found="the other way round: scores are p · α_t^count with α_t below 1, so a larger α_t is a lighter "
        "penalty. "
        f"p = {p} seen twice scores {p * low**2} with α_t = {low} and {p * high**2} with α_t = {high}",
        holds=p * high**2 < p * low**2,
        source="eq:acs in exact fractions",
        detail=(
            (
                f"k_t is above 10 exactly where α_t is above 1/2 in {together} of {len(steps)} histories: "
                "where "
                "the set is "
                "small, a repetition is punished most. The sentence fits contrastive search, whose penalty "
                "is "
                "α times a similarity."
            ),
            "At α_t = 1/2 a token seen 12 times is multiplied by 1/4096.",
        ),
    )


def at_rest() -> Check:
    """Check what k_t is where entropy does not change."""
    calm = step([2.0] * 20, VOCABULARY)
    fall, rise = step([5.0] * 20 + [0.2], VOCABULARY), step([0.5] * 20 + [4.0], VOCABULARY)
    return Check(
        name="method-at-rest",
        subject=SUBJECT,
        where=WHERE,
        claim="“When pronounced uncertainty variations occur … we should select a larger k_t”; “when "
        "variations are minimal, "
        "a smaller k_t value suffices”",
        found=f"without any variation k_t = {calm.k:.0f}, the middle of its range, and α_t = "
        f"{calm.alpha:.1f}; after a fall "
        f"of entropy from 5 to 0.2 nats, k_t = {fall.k:.2f}; after a rise from 0.5 to 4, {rise.k:.2f}: k_t "
        "follows the "
        "sign of the change, not its size",
        holds=calm.k < min(fall.k, rise.k),
        source="eq:hglob to eq:alphat, a second implementation",
        detail=(
            "For the same reason C_sum, which is 1 at rest and less after a fall, is no kind of perplexity.",
        ),
    )


def arctanh_domain() -> Check:
    """Check whether α_t always has a value."""
    example = [0.1] * 10 + [4.0]
    steps = searched()
    missing = sum(each.alpha is None for each in steps)
    found = step(example, VOCABULARY)
    return Check(
        name="method-arctanh",
        subject=SUBJECT,
        where="eq:alphat",
        claim="α_t is eq:kt's core, “replacing |V| with k_t” in eq:deltaloc and eq:deltaglob",
        found=f"ln k_t is at most ln 15 = {math.log(15):.2f} while entropies differ by up to ln|V| = "
        f"{math.log(VOCABULARY):.1f}: arctanh then has no value. After ten entropies of 0.1 one of 4.0 is "
        "enough (k_t = "
        f"{found.k:.1f}, 3.9 / ln {math.floor(found.k)} = {3.9 / math.log(math.floor(found.k)):.2f})",
        holds=missing == 0 and found.alpha is not None,
        source="eq:alphat, a second implementation",
        detail=(
            (
                f"So it is in {100 * missing / len(steps):.0f} % of {len(steps)} histories of entropies that "
                "jump (mean 2.5 "
                "nats). The paper is silent on it; the released program holds the argument at ±(1 − 1e-4). "
                "Algorithm 1 multiplies by ln k_t instead, and has no such gap."
            ),
        ),
    )


NUMBERED = (
    "eq:hglob", "ex", "et", "", "ex2", "eq:kt", "eq:deltaloc", "eq:deltaglob", "eq:lanbda", "eq:q",
    "eq:rchange", "eq:rdiff", "eq:acs", "eq:alphat",
)  # fmt: skip
"""The numbered displays of the main text in order; one has no label."""
COMMENTS = {
    "H_loc": ("Eq. 2", "not numbered"),
    "δ_global": ("Eq. 9", "eq:deltaglob"),
    "H_glob": ("Eq. 1", "eq:hglob"),
    "δ_loc": ("Eq. 8", "eq:deltaloc"),
    "λ_k": ("Eq. 10", "eq:lanbda"),
    "k_t": ("Eq. 7", "eq:kt"),
    "α_t": ("Eq. 12", "eq:alphat"),
    "scores": ("Eq. 11", "eq:acs"),
    "q": ("Appendix B", "eq:q"),
}
"""What Algorithm 1's comments refer to, and the equation that is meant."""


def equation_numbers() -> Check:
    """Check the numbers in Algorithm 1's comments."""
    right = [
        name
        for name, (said, meant) in COMMENTS.items()
        if meant in NUMBERED and said == f"Eq. {NUMBERED.index(meant) + 1}"
    ]
    return Check(
        name="method-equation-numbers",
        subject=SUBJECT,
        where="app:C",
        claim="Algorithm 1's comments name the equation of each line",
        found=f"{len(right)} of {len(COMMENTS)} names is right ({', '.join(right)})",
        holds=len(right) == len(COMMENTS),
        source="the order of the numbered displays in the TeX",
        detail=(
            "Appendix B, named for q, holds tables of settings and nothing on q.",
            (
                "Other slips of notation: eq:acs has p(v | x_<k_t), for x_<t; λ_α is named and never "
                "defined; "
                "med(H_glob,t) is the "
                "median of one number; the proof of Proposition 2 once writes Σ w_i H(X)_t, for H(X)_i."
            ),
        ),
    )
