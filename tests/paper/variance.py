"""The variance of H_glob,t (`eq:hglob`), in units of σ², where covariances are σ² ρ^|i − j|.

Exact on `Fraction`s. With ρ = 0 the entropies are uncorrelated. `python tests/paper/variance.py FILE.svg`
draws the figure of docs/errata.md.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from guard_eval.reporting.drawing import BETWEEN, SIZE, as_svg, described, style
from guard_eval.reporting.writing import write_whole

Number = Fraction | float

DEEP_FIRST, DEEP_SECOND = "#2a6fb0", "#c2640c"
"""The figures' blue and orange, for thin lines and letters on white."""


def weights(t: int, decay: Number) -> list[Number]:
    """Return w_1 … w_t of `eq:hglob`, oldest first.

    >>> weights(3, Fraction(1, 2))
    [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)]
    """
    raw = [decay ** (t - i) for i in range(1, t + 1)]
    total = sum(raw)
    return [weight / total for weight in raw]


def variances(steps: int, decay: Number, correlation: Number = Fraction(0)) -> list[Number]:
    """Return Var(H_glob,t) / σ² for t = 1 … `steps`.

    With S_t = H_t + λ S_{t−1}: Cov(S_t, H_t) = 1 + λρ Cov(S_{t−1}, H_{t−1}) and
    Var(S_t) = 1 + λ² Var(S_{t−1}) + 2 λρ Cov(S_{t−1}, H_{t−1}); the divisor is (Σ λ^i)².

    >>> variances(3, Fraction(1)) == [1, Fraction(1, 2), Fraction(1, 3)]
    True
    """
    result: list[Number] = []
    variance = covariance = divisor = 0 * decay
    for _ in range(steps):
        variance = 1 + decay**2 * variance + 2 * decay * correlation * covariance
        covariance = 1 + decay * correlation * covariance
        divisor = 1 + decay * divisor
        result.append(variance / divisor**2)
    return result


def limit(decay: Number, correlation: Number = Fraction(0)) -> Number:
    """Return what `variances` tend to: (1 − λ)/(1 + λ) · (1 + λρ)/(1 − λρ), and 0 for λ = 1.

    >>> limit(Fraction(19, 20))
    Fraction(1, 39)
    """
    return (1 - decay) / (1 + decay) * (1 + decay * correlation) / (1 - decay * correlation)


def distance_limit(decay: Number) -> Number:
    """Return what E[(H_glob,t − H_t)²] / σ² tends to for uncorrelated entropies: 2λ²/(1 + λ).

    The weight on H_t tends to 1 − λ and Σ w² to (1 − λ)/(1 + λ); (1 − w_t)² + Σ_{i<t} w_i² is then this.

    >>> distance_limit(Fraction(1))
    Fraction(1, 1)
    """
    return 2 * decay**2 / (1 + decay)


def simulated(steps: int, decay: float, correlation: float, *, paths: int, seed: int) -> NDArray[np.float64]:
    """Return the variance of H_glob,t / σ² over simulated texts, t = 1 … `steps`.

    Entropies take two values, 0 and 1, equally often, and stay where they are with chance (1 + ρ)/2: a
    process that is stationary, ergodic, bounded and mixing, with covariances ρ^|i − j| / 4.
    """
    rng = np.random.default_rng(seed)
    entropy = rng.integers(0, 2, paths).astype(np.float64)
    total, divisor = np.zeros(paths), 0.0
    result = np.empty(steps)
    for t in range(steps):
        if t:
            moves = rng.random(paths) >= (1 + correlation) / 2
            entropy = np.where(moves, 1 - entropy, entropy)
        total = entropy + decay * total
        divisor = 1 + decay * divisor
        result[t] = 4 * np.mean((total / divisor - 0.5) ** 2)
    return result


TITLE = "The variance of the global entropy stops falling where λ is below 1"
HEIGHTS = (1, 0.1, 0.01, 0.001)
LINES = (
    (1.0, 0.0, DEEP_FIRST, "-", "λ = 1"),
    (0.99, 0.0, BETWEEN, "-", "λ = 0.99"),
    (0.95, 0.0, DEEP_SECOND, "-", "λ = 0.95"),
    (0.95, 0.5, DEEP_SECOND, ":", "λ = 0.95, ρ = 0.5"),
)
"""λ, the correlation of neighbours, how the line looks, and its name."""


def draw(path: Path, *, steps: int = 1024, paths: int = 4000) -> None:
    """Write the figure as SVG or PNG; the same arguments give the same bytes.

    Args:
        path: The file.
        steps: Tokens.
        paths: Simulated texts behind the dots.
    """
    at = [t for t in (1, 4, 16, 64, 256, 1024) if t <= steps]
    with style(ink="#1c1e21", frame="#5b636b", ground="#ffffff", salt="global-entropy-variance"):
        figure = Figure(figsize=(6.6, 3.7), layout="constrained")
        axes = figure.add_subplot()
        for seed, (decay, correlation, colour, dash, name) in enumerate(LINES):
            exact = [float(value) for value in variances(steps, decay, correlation)]
            axes.plot(range(1, steps + 1), exact, color=colour, linestyle=dash, linewidth=1.6)
            dots = simulated(steps, decay, correlation, paths=paths, seed=seed)[[t - 1 for t in at]]
            axes.plot(at, dots, "o", color=colour, markersize=4)
            label = axes.annotate(name, (steps, exact[-1]), xytext=(7, 0), textcoords="offset points")
            label.set(verticalalignment="center", annotation_clip=False)
        axes.axvline(256, color=BETWEEN, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xscale="log", yscale="log", xlabel="t, tokens generated", ylabel="Var(H_glob,t) / σ²")
        # matplotlib's own labels of powers are formulas, which this program's figures do not parse.
        axes.set_xticks(at, [str(t) for t in at])
        axes.set_yticks(HEIGHTS, [f"{height:g}" for height in HEIGHTS])
        axes.minorticks_off()
        axes.set_title(
            f"{TITLE}\nLines exact, dots simulated; the paper's texts end at 256", loc="left", size=SIZE
        )
        write_whole(path, described(as_svg(figure), TITLE, _description(steps)).encode())


def _description(steps: int) -> str:
    return (
        "Variance of the global entropy, in units of a single entropy's variance, against t from 1 to "
        f"{steps}, both logarithmic; lines exact, dots simulated. For λ = 1 it falls as 1/t. For λ = 0.99 "
        f"and 0.95 it levels off at {limit(0.99):.4f} and {limit(0.95):.4f}; with λ = 0.95 and correlation "
        f"0.5 between neighbours, at {limit(0.95, 0.5):.4f}."
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
