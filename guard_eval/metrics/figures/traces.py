"""How GUARD adapted as it wrote, as in `fig:decoding_behavior`: entropies left, k_t and α_t right.

A trace may lack a series, for other strategies keep others: what is there is drawn, and what is not is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from guard_eval.metrics.figures.canvas import FAINT, INK, MARGIN, WIDTH, canvas, drawing, place_axes
from guard_eval.records import Trace
from guard_eval.reporting.figure_style import BETWEEN, save
from guard_eval.reporting.figure_style import DEEP_FIRST as FIRST
from guard_eval.reporting.figure_style import DEEP_SECOND as SECOND

SERIES = {
    "H": "local entropy Hₜ",
    "H_glob": "global entropy H_glob",
    "k": "candidates kₜ",
    "alpha": "penalty αₜ",
}
"""What is drawn, by its name in a trace."""
_SYMBOLS = {"H": "Hₜ", "H_glob": "H_glob", "k": "kₜ", "alpha": "αₜ"}
_AXES = {"entropy": "entropy (nats)", "k": "kₜ (candidates)", "alpha": "αₜ", "running": "texts"}
_HEIGHT = 4.6


def behaviour(trace: Trace, path: Path, *, title: str) -> bool:
    """Draw how a strategy adapted in one text (`fig:decoding_behavior`).

    Left local entropy as a solid and global entropy as a dashed line, right k_t as steps and α_t as a line,
    all over the text's tokens.

    Args:
        trace: What was recorded.
        path: The file to write; its ending says whether SVG or PNG.
        title: The heading.

    Returns:
        Whether there is a figure: False, and nothing is written, where the trace has none of `SERIES`.

    Raises:
        StudyError: `path` ends otherwise, or it cannot be written.
    """
    series = {name: np.array(trace.values[name]) for name in SERIES if trace.values.get(name)}
    if not series:
        return False
    steps = max(len(values) for values in series.values())
    with drawing():
        remark = _remark(series)
        figure = _canvas(title, note := f"One text of {_counted(steps, 'token')}", remark)
        axes = _panels(figure, steps, running=False)
        for name, values in series.items():
            _line(axes[_panel(name)], name, values)
        _finish(axes, series)
        told = "; ".join(
            f"{SERIES[name]} between {values.min():.3g} and {values.max():.3g}, mean {values.mean():.3g}"
            for name, values in series.items()
        )
        save(figure, path, title, " ".join(filter(None, (f"{note}: {told}.", remark))))
    return True


def behaviours(traces: Sequence[Trace], path: Path, *, title: str) -> bool:
    """Draw how a strategy adapted in many texts: means per step, with bands from the 10th to 90th percentile.

    At each step the texts that were still being written count; how many these are is drawn below.

    Args:
        traces: What was recorded.
        path: The file to write; its ending says whether SVG or PNG.
        title: The heading.

    Returns:
        Whether there is a figure: False, and nothing is written, where no trace has any of `SERIES`.

    Raises:
        StudyError: `path` ends otherwise, or it cannot be written.
    """
    series = {
        name: rows for name in SERIES if (rows := [t.values[name] for t in traces if t.values.get(name)])
    }
    if not series:
        return False
    lengths = [max(len(trace.values.get(name, [])) for name in series) for trace in traces]
    texts, steps = sum(length > 0 for length in lengths), max(lengths)
    with drawing():
        remark = _remark(series, {name: len(rows) for name, rows in series.items() if len(rows) < texts})
        note = f"{_counted(texts, 'text')}: mean and 10th to 90th percentile of those still running"
        figure = _canvas(title, note, remark)
        axes = _panels(figure, steps, running=True)
        means: dict[str, NDArray[np.float64]] = {}
        for name, rows in series.items():
            low, means[name], high = summaries(rows)
            _band(axes[_panel(name)], name, low, high)
            _line(axes[_panel(name)], name, means[name])
        _running(axes["running"], lengths)
        _finish(axes, series)
        told = "; ".join(
            f"{SERIES[name]} {mean[0]:.3g} at the first token and {mean[-1]:.3g} at the last"
            for name, mean in means.items()
        )
        save(figure, path, title, " ".join(filter(None, (f"{note}. Means: {told}.", remark))))
    return True


def summaries(rows: Sequence[Sequence[float]]) -> tuple[NDArray[np.float64], ...]:
    """Return 10th percentile, mean and 90th percentile per step over the rows that reach it, `[steps]` each.

    >>> [part.tolist() for part in summaries([[1.0, 2.0], [3.0]])]
    [[1.2, 2.0], [2.0, 2.0], [2.8, 2.0]]
    """
    table = np.full((len(rows), max(map(len, rows))), np.nan)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    low, high = np.nanpercentile(table, (10, 90), axis=0)
    return low, np.nanmean(table, axis=0), high


def _remark(series: Mapping[str, Any], fewer: Mapping[str, int] | None = None) -> str:
    """Say what is not in the traces, or not in all of them."""
    missing = [symbol for name, symbol in _SYMBOLS.items() if name not in series]
    rarer = [f"{_SYMBOLS[name]} in {_counted(texts, 'text')} only" for name, texts in (fewer or {}).items()]
    said = [f"Not recorded: {', '.join(missing)}."] if missing else []
    return " ".join([*said, *([f"Recorded: {', '.join(rarer)}."] if rarer else [])])


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _canvas(title: str, note: str, remark: str) -> Figure:
    """Return the figure, with the remark below what is drawn if there is one."""
    height = _HEIGHT + (0.3 if remark else 0)
    figure = canvas(height, title, note)
    figure.text(MARGIN / WIDTH, 0.17 / height, remark, color=FAINT, va="center")
    return figure


def _panel(name: str) -> str:
    return "entropy" if name in {"H", "H_glob"} else name


def _panels(figure: Figure, steps: int, *, running: bool) -> dict[str, Axes]:
    """Return the axes by what they show: entropy to the left, k above α to the right."""
    tall = 2.6 if running else 3.4
    axes = {
        "entropy": place_axes(figure, left=0.6, top=0.75, width=3.2, height=tall),
        "k": place_axes(figure, left=4.6, top=0.75, width=3.2, height=1.6),
        "alpha": place_axes(figure, left=4.6, top=2.55, width=3.2, height=1.6),
    }
    if running:
        axes["running"] = place_axes(figure, left=0.6, top=3.6, width=3.2, height=0.55)
    for name, panel in axes.items():
        panel.set_xlim(0.5, steps + 0.5)
        panel.yaxis.set_label_coords(-0.4 / 3.2, 0.5)
        panel.set_ylabel(_AXES[name])
        panel.grid(visible=True, color=BETWEEN, alpha=0.3, linewidth=0.6)
        panel.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        last = name in {"alpha", "running"} or (name == "entropy" and not running)
        panel.tick_params(axis="x", labelbottom=last)
        if last:
            panel.set_xlabel("token t")
    axes["alpha"].set_ylim(-0.04, 1.04)
    axes["k"].yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    return axes


def _line(axes: Axes, name: str, values: NDArray[np.float64]) -> None:
    t = np.arange(1, len(values) + 1)
    style: dict[str, Any] = {
        "label": SERIES[name],
        "marker": "o" if len(values) == 1 else None,
        "markersize": 4,
    }
    match name:
        case "H":
            axes.plot(t, values, color=FIRST, linewidth=1.1, **style)
        case "H_glob":
            axes.plot(t, values, color=SECOND, linewidth=2, linestyle=(0, (4, 2)), **style)
        case "k":
            axes.plot(t, values, color=INK, linewidth=1.2, drawstyle="steps-mid", **style)
        case _:
            axes.plot(t, values, color=INK, linewidth=1.2, **style)


def _band(axes: Axes, name: str, low: NDArray[np.float64], high: NDArray[np.float64]) -> None:
    t = np.arange(1, len(low) + 1)
    if name == "H_glob":  # its band lies within the local one's: outlined, so that grey shows both
        for edge in (low, high):
            axes.plot(t, edge, color=SECOND, linewidth=1, linestyle=(0, (1, 1.5)))
        return
    colour = FIRST if name == "H" else FAINT
    axes.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0, step="mid" if name == "k" else None)


def _running(axes: Axes, lengths: Sequence[int]) -> None:
    t = np.arange(1, max(lengths) + 1)
    running = (np.array(lengths)[:, None] >= t).sum(axis=0)
    axes.stairs(running, np.arange(len(t) + 1) + 0.5, fill=True, color=BETWEEN, alpha=0.6, linewidth=0)
    axes.set_ylim(0, 1.1 * running[0])
    axes.set_yticks([0, int(running[0])])
    axes.set_title(
        f"still running: {running[0]} at first, {running[-1]} at last", fontsize=9, loc="right", pad=2
    )


def _finish(axes: Mapping[str, Axes], series: Mapping[str, Any]) -> None:
    """Add the legend, and say in a panel that it has nothing to show."""
    for name, panel in axes.items():
        if name == "running" or any(_panel(drawn) == name for drawn in series):
            continue
        panel.text(0.5, 0.5, "not recorded", transform=panel.transAxes, ha="center", va="center", color=FAINT)
        panel.set_yticks([])
    if any(_panel(name) == "entropy" for name in series):
        axes["entropy"].set_ylim(bottom=0)
        side: dict[str, Any] = {
            "loc": "lower left",
            "bbox_to_anchor": (0, 1.0),
            "borderpad": 0,
            "borderaxespad": 0.3,
        }
        axes["entropy"].legend(ncols=2, frameon=False, handlelength=2.2, columnspacing=1.4, **side)
