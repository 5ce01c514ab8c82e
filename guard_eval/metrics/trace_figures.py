"""How GUARD adapted as it wrote a text, as in `fig:decoding_behavior`: entropies left, k_t and α_t right.

A trace may lack a series, since other strategies record others: what it has is drawn, and what it lacks is
named.
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import MaxNLocator

from guard_eval.records import Trace
from guard_eval.reporting.drawing import FIRST, INK, SECOND, WIDTH, Drawing, finished, short, style

SERIES = {
    "H": "local entropy Hₜ",
    "H_glob": "global entropy H_glob",
    "k": "candidates kₜ",
    "alpha": "penalty αₜ",
}
"""What is drawn, by its name in a trace."""
_PANELS = {"H": "entropy", "H_glob": "entropy", "k": "k", "alpha": "alpha"}
_AXES = {"entropy": "entropy (nats)", "k": "kₜ (candidates)", "alpha": "αₜ"}
_LINES: dict[str, dict[str, Any]] = {
    "H": {"color": FIRST, "linewidth": 1.1},
    "H_glob": {"color": SECOND, "linewidth": 2, "linestyle": (0, (4, 2))},
    "k": {"color": INK, "linewidth": 1.2, "drawstyle": "steps-mid"},
    "alpha": {"color": INK, "linewidth": 1.2},
}


def behaviour(trace: Trace, *, name: str, title: str) -> Drawing | None:
    """Draw how a strategy adapted (`fig:decoding_behavior`) over the tokens of a text.

    Left local entropy is a solid and global entropy a dashed line, right k_t are steps and α_t is a line.

    Args:
        trace: What was recorded.
        name: The figure's name, unique in a page.
        title: The heading.

    Returns:
        The figure; None where the trace has none of `SERIES`.
    """
    series = {key: trace.values[key] for key in SERIES if trace.values.get(key)}
    if not series:
        return None
    tokens = max(map(len, series.values()))
    missing = [label for key, label in SERIES.items() if key not in series]
    note = f"One text of {tokens} token{'' if tokens == 1 else 's'}."
    note += f" Not recorded: {', '.join(missing)}." if missing else ""
    with style(ink=INK, frame=INK, ground="none", salt=name):
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = _panels(figure, tokens)
        for key, values in series.items():
            marker = "o" if len(values) == 1 else None
            steps = range(1, len(values) + 1)
            axes[_PANELS[key]].plot(
                steps, values, label=SERIES[key], marker=marker, markersize=4, **_LINES[key]
            )
        for panel_name in axes.keys() - {_PANELS[key] for key in series}:
            panel = axes[panel_name]
            panel.text(0.5, 0.5, "not recorded", transform=panel.transAxes, ha="center", va="center")
            panel.set_yticks([])
        axes["entropy"].set_ylim(bottom=0 if "H" in series or "H_glob" in series else None)
        handles, labels = axes["entropy"].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)
        legend.set_title(short(title, 66), prop=FontProperties(weight="bold", size=11))
        legend.set_alignment("left")
        figure.supxlabel(note, x=0.01, ha="left", fontsize=9)
        ends = (
            f"{SERIES[key]} {values[0]:.3g} at the first token and {values[-1]:.3g} at the last, "
            f"between {min(values):.3g} and {max(values):.3g}"
            for key, values in series.items()
        )
        heading, words = f"Entropy, k and α: {title}", f"{note} {'; '.join(ends)}."
        return finished(figure, axes["entropy"], name=name, heading=heading, description=words)


def _panels(figure: Figure, tokens: int) -> dict[str, Axes]:
    """Return the axes by what they show: entropy to the left, k above α to the right."""
    axes: dict[str, Axes] = figure.subplot_mosaic([["entropy", "k"], ["entropy", "alpha"]])
    for name, panel in axes.items():
        panel.set_xlim(0.5, tokens + 0.5)
        panel.set_ylabel(_AXES[name])
        panel.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        panel.tick_params(axis="x", labelbottom=name != "k")
        panel.set_xlabel("" if name == "k" else "token t")
    axes["alpha"].set_ylim(-0.04, 1.04)
    axes["k"].yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    return axes
