"""The figure of Var(H_glob,t) against t: `python -m guard_eval.replicate.checks.variance_figure FILE.svg`."""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from guard_eval.figure_style import BETWEEN, DEEP_FIRST, DEEP_SECOND, SIZE, save, style
from guard_eval.replicate.checks.variance import limit, simulated, variances

STEPS = 1024
MAX_TOKENS = 256
PATHS = 4000
TITLE = "The variance of the global entropy stops falling where λ is below 1"
INK, FRAME = "#1c1e21", "#5b636b"
HEIGHTS = (1, 0.1, 0.01, 0.001)
LINES = (
    (1.0, 0.0, DEEP_FIRST, "-", "λ = 1"),
    (0.99, 0.0, BETWEEN, "-", "λ = 0.99"),
    (0.95, 0.0, DEEP_SECOND, "-", "λ = 0.95"),
    (0.95, 0.5, DEEP_SECOND, ":", "λ = 0.95, ρ = 0.5"),
)
"""λ, the correlation of neighbours, how the line looks, and its name."""


def draw(path: Path, *, steps: int = STEPS, paths: int = PATHS) -> None:
    """Write the figure as SVG or PNG; the same arguments give the same bytes.

    Args:
        path: The file.
        steps: Tokens.
        paths: Simulated texts behind the dots.
    """
    at = [t for t in (1, 4, 16, 64, 256, 1024) if t <= steps]
    with style(ink=INK, frame=FRAME, ground="#ffffff", salt="global-entropy-variance"):
        figure = Figure(figsize=(6.6, 3.7), layout="constrained")
        axes = figure.add_subplot()
        for seed, (decay, correlation, colour, dash, name) in enumerate(LINES):
            exact = [float(value) for value in variances(steps, decay, correlation)]
            axes.plot(range(1, steps + 1), exact, color=colour, linestyle=dash, linewidth=1.6)
            dots = simulated(steps, decay, correlation, paths=paths, seed=seed)[[t - 1 for t in at]]
            axes.plot(at, dots, "o", color=colour, markersize=4)
            label = axes.annotate(name, (steps, exact[-1]), xytext=(7, 0), textcoords="offset points")
            label.set(verticalalignment="center", annotation_clip=False)
        axes.axvline(MAX_TOKENS, color=BETWEEN, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xscale="log", yscale="log", xlabel="t, tokens generated", ylabel="Var(H_glob,t) / σ²")
        # matplotlib's own labels of powers are formulas, which this program's figures do not parse.
        axes.set_xticks(at, [str(t) for t in at])
        axes.set_yticks(HEIGHTS, [f"{height:g}" for height in HEIGHTS])
        axes.minorticks_off()
        axes.set_title(
            f"{TITLE}\nLines exact, dots simulated; the paper's texts end at 256", loc="left", size=SIZE
        )
        save(figure, path, TITLE, _description(steps))


def _description(steps: int) -> str:
    return (
        "Variance of the global entropy, in units of a single entropy's variance, against t from 1 to "
        f"{steps}, both "
        "logarithmic; lines exact, dots simulated. For λ = 1 it falls as 1/t. For λ = 0.99 and 0.95 it "
        "levels off at "
        f"{limit(0.99):.4f} and {limit(0.95):.4f}; with λ = 0.95 and correlation 0.5 between neighbours, at "
        f"{limit(0.95, 0.5):.4f}."
    )


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
