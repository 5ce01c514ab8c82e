"""How GUARD adapted as it wrote, as in `fig:decoding_behavior`: entropies left, k_t and α_t right.

A trace may lack a series, since other strategies record others: what it has is drawn, and what it lacks is
named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import MaxNLocator

from guard_eval.estimate import Floats
from guard_eval.records import Trace
from guard_eval.reporting.drawing import BETWEEN, FIRST, INK, SECOND, WIDTH, Drawing, finished, short, style

SERIES = {
    "H": "local entropy Hₜ",
    "H_glob": "global entropy H_glob",
    "k": "candidates kₜ",
    "alpha": "penalty αₜ",
}
"""What is drawn, by its name in a trace."""
_SYMBOLS = {"H": "Hₜ", "H_glob": "H_glob", "k": "kₜ", "alpha": "αₜ"}
_PANELS = {"H": "entropy", "H_glob": "entropy", "k": "k", "alpha": "alpha"}
_AXES = {"entropy": "entropy (nats)", "k": "kₜ (candidates)", "alpha": "αₜ", "running": "texts"}
_LINES: dict[str, dict[str, Any]] = {
    "H": {"color": FIRST, "linewidth": 1.1},
    "H_glob": {"color": SECOND, "linewidth": 2, "linestyle": (0, (4, 2))},
    "k": {"color": INK, "linewidth": 1.2, "drawstyle": "steps-mid"},
    "alpha": {"color": INK, "linewidth": 1.2},
}


def behaviour(traces: Sequence[Trace], *, name: str, title: str) -> Drawing | None:
    """Draw how a strategy adapted (`fig:decoding_behavior`) over the tokens of one text or of many.

    Left local entropy as a solid and global entropy as a dashed line, right k_t as steps and α_t as a line.
    Of many texts these are means per step, with bands from the 10th to the 90th percentile, over the texts
    that were still being written; how many these are is drawn below.

    Args:
        traces: What was recorded.
        name: The figure's name, unique in a page.
        title: The heading.

    Returns:
        The figure; None where no trace has any of `SERIES`.
    """
    series = {key: rows for key in SERIES if (rows := [t.values[key] for t in traces if t.values.get(key)])}
    if not series:
        return None
    lengths = [max(len(trace.values.get(key, [])) for key in series) for trace in traces]
    lengths = [length for length in lengths if length]
    many = len(lengths) > 1
    note = f"One text of {_counted(max(lengths), 'token')}"
    if many:
        note = f"{_counted(len(lengths), 'text')}: mean and 10th to 90th percentile of those still running"
    sentences = [f"{note}.", *_remarks({key: len(rows) for key, rows in series.items()}, len(lengths))]
    bands = {key: summaries(rows) for key, rows in series.items()}
    with style(ink=INK, frame=INK, ground="none", salt=name):
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = _panels(figure, max(lengths), running=many)
        for key, (low, mean, high) in bands.items():
            panel, steps = axes[_PANELS[key]], np.arange(1, len(mean) + 1)
            if (
                many and key == "H_glob"
            ):  # its band lies within the local one's: outlined, so that grey shows both
                for edge in (low, high):
                    panel.plot(steps, edge, color=SECOND, linewidth=1, linestyle=(0, (1, 1.5)))
            elif many:
                fill: dict[str, Any] = {
                    "color": FIRST if key == "H" else BETWEEN,
                    "alpha": 0.25,
                    "linewidth": 0,
                }
                panel.fill_between(steps, low, high, step="mid" if key == "k" else None, **fill)
            marker = "o" if len(mean) == 1 else None
            panel.plot(steps, mean, label=SERIES[key], marker=marker, markersize=4, **_LINES[key])
        if many:
            _running(axes["running"], lengths)
        for panel_name in axes.keys() - {_PANELS[key] for key in series} - {"running"}:
            panel = axes[panel_name]
            panel.text(0.5, 0.5, "not recorded", transform=panel.transAxes, ha="center", va="center")
            panel.set_yticks([])
        axes["entropy"].set_ylim(bottom=0 if "H" in series or "H_glob" in series else None)
        handles, labels = axes["entropy"].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False)
        legend.set_title(short(title, 66), prop=FontProperties(weight="bold", size=11))
        legend.set_alignment("left")
        figure.supxlabel(" ".join(sentences), x=0.01, ha="left", fontsize=9)
        means = "; ".join(f"{SERIES[key]} {_worded(mean)}" for key, (_, mean, _) in bands.items())
        description = " ".join([f"{note}: {means}.", *sentences[1:]])
        heading = f"Entropy, k and α: {title}"
        return finished(figure, axes["entropy"], name=name, heading=heading, description=description)


def summaries(rows: Sequence[Sequence[float]]) -> tuple[Floats, Floats, Floats]:
    """Return 10th percentile, mean and 90th percentile per step over the rows that reach it, `[steps]` each.

    >>> [part.tolist() for part in summaries([[1.0, 2.0], [3.0]])]
    [[1.2, 2.0], [2.0, 2.0], [2.8, 2.0]]
    """
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    low, high = np.nanpercentile(table, (10, 90), axis=0)
    return low, np.nanmean(table, axis=0), high


def _remarks(recorded: dict[str, int], texts: int) -> list[str]:
    """Name what the traces lack, or some of them."""
    missing = [symbol for key, symbol in _SYMBOLS.items() if key not in recorded]
    rarer = [f"{_SYMBOLS[key]} in {_counted(n, 'text')} only" for key, n in recorded.items() if n < texts]
    groups = (("Not recorded", missing), ("Recorded", rarer))
    return [f"{what}: {', '.join(names)}." for what, names in groups if names]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _worded(values: Floats) -> str:
    return (
        f"{values[0]:.3g} at the first token and {values[-1]:.3g} at the last, between {values.min():.3g} "
        f"and {values.max():.3g}"
    )


def _panels(figure: Figure, steps: int, *, running: bool) -> dict[str, Axes]:
    """Return the axes by what they show: entropy to the left, k above α to the right."""
    left = ["entropy"] * 3 + ["running" if running else "entropy"]
    axes = figure.subplot_mosaic([[name, right] for name, right in zip(left, "kkaa", strict=True)])
    axes = {{"a": "alpha"}.get(name, name): panel for name, panel in axes.items()}
    for name, panel in axes.items():
        panel.set_xlim(0.5, steps + 0.5)
        panel.set_ylabel(_AXES[name])
        panel.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        last = name in {"alpha", "running"} or (name == "entropy" and not running)
        panel.tick_params(axis="x", labelbottom=last)
        if last:
            panel.set_xlabel("token t")
    axes["alpha"].set_ylim(-0.04, 1.04)
    axes["k"].yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    return axes


def _running(axes: Axes, lengths: Sequence[int]) -> None:
    t = np.arange(1, max(lengths) + 1)
    running = (np.array(lengths)[:, None] >= t).sum(axis=0)
    axes.stairs(running, np.arange(len(t) + 1) + 0.5, fill=True, color=BETWEEN, alpha=0.6, linewidth=0)
    axes.set_ylim(0, 1.1 * running[0])
    axes.set_yticks([0, int(running[0])])
    words = f"still running: {running[0]} at first, {running[-1]} at last"
    axes.set_title(words, fontsize=9, loc="right", pad=2)
