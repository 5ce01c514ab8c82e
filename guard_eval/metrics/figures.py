"""Figures of metrics: all strategies with their intervals, and how GUARD adapted in a text.

Strategies are identified by words, never by colour alone. Their names come from files and are text: nothing
in them is taken for markup or a formula. The same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from guard_eval.metrics.scores import (
    METRICS,
    format_interval,
    format_level,
    format_value,
    is_finite,
    rows_of,
)
from guard_eval.records import Trace
from guard_eval.reporting.drawing import (
    FIRST,
    INK,
    SECOND,
    WIDTH,
    Drawing,
    finished,
    in_rows,
    interval_line,
    short,
    style,
)
from guard_eval.texts.continuations import read_traces
from guard_eval.texts.generations import HUMAN

COMPARED = ("diversity", "mauve", "coherence", "bertscore")
"""Metrics that have figures."""
SERIES = {
    "H": "local entropy Hₜ",
    "H_glob": "global entropy H_glob",
    "k": "candidates kₜ",
    "alpha": "penalty αₜ",
}
"""What is drawn of a trace, by its name there."""
PANELS = {"entropy (nats)": ("H", "H_glob"), "kₜ (candidates)": ("k",), "αₜ": ("alpha",)}
TITLE_CHARACTERS = 66
LINES: dict[str, dict[str, Any]] = {
    "H": {"color": FIRST, "linewidth": 1.1},
    "H_glob": {"color": SECOND, "linewidth": 2, "linestyle": (0, (4, 2))},
    "k": {"color": INK, "linewidth": 1.2, "drawstyle": "steps-mid"},
    "alpha": {"color": INK, "linewidth": 1.2},
}


def draw_results(scores: pd.DataFrame, traces: Sequence[Path]) -> Iterator[tuple[str, Drawing]]:
    """Yield the figures by file name: the compared metrics of all datasets, and the first of each trace.

    Where there are several datasets, a figure has the means over them; tables have each dataset's.
    """
    for metric in COMPARED:
        rows = rows_of(scores[scores["metric"] == metric])
        if drawing := draw_metric([row for row in rows if row.dataset == rows[-1].dataset]):
            yield metric, drawing
    for index, path in enumerate(traces, start=1):
        strategy = path.name.removesuffix(".trace.jsonl")
        for trace in read_traces([path])[:1]:
            title = f"{strategy}, {trace.prompt_id}"
            if drawing := draw_trace(trace, name=f"trace-{index}", title=title):
                yield f"trace-{strategy}", drawing


def draw_metric(rows: Sequence[Any]) -> Drawing | None:
    """Draw the scores of a metric, the highest on top: a dot with its interval each, and a line for people.

    Args:
        rows: The scores of a metric on one dataset.

    Returns:
        The figure; None where no strategy but the references has a value.
    """
    valued = sorted((row for row in rows if is_finite(row.value)), key=lambda row: (-row.value, row.strategy))
    strategies = [row.strategy for row in valued]
    if set(strategies) <= {HUMAN}:
        return None
    name, metric = valued[0].metric, METRICS[valued[0].metric]
    labels = [
        f"{row.strategy}: {format_value(name, row.value)} {format_interval(name, row.low, row.high)}".strip()
        for row in valued
    ]
    heading = f"{metric.title} · {valued[0].dataset}"
    note = f"In brackets: {format_level(valued[0].level)} intervals."

    def draw(axes: Axes) -> None:
        for y, row in enumerate(valued):
            color, marker = (SECOND, "D") if row.strategy == HUMAN else (FIRST, "o")
            interval_line(axes, row.low, row.high, y, color=color, width=1.4)
            axes.plot([row.value], [y], marker=marker, markersize=5, color=color)
            if row.strategy == HUMAN:
                axes.axvline(row.value, color=SECOND, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlabel(metric.axis)
        axes.set_title(f"{short(heading, TITLE_CHARACTERS)}\n{note}", loc="left", fontsize=10)

    strong = {strategies.index(HUMAN)} if HUMAN in strategies else set()
    words = f"{'; '.join(labels)}. {note}"
    return in_rows(draw, labels, name=name, heading=heading, description=words, strong=strong, lines=3)


def draw_trace(trace: Trace, *, name: str, title: str) -> Drawing | None:
    """Draw how a strategy adapted (`fig:decoding_behavior`) over the tokens of a text.

    Local entropy is a solid and global entropy a dashed line, k_t are steps and α_t is a line. A trace may
    lack a series, since other strategies record others: what it has is drawn, and what it lacks is named.

    Args:
        trace: What was recorded.
        name: The figure's name, unique in a page.
        title: The heading.

    Returns:
        The figure; None where the trace has none of `SERIES`.
    """
    recorded = trace.values  # noqa: PD011 (no data frame)
    series = {key: recorded[key] for key in SERIES if recorded.get(key)}
    if not series:
        return None
    tokens = max(map(len, series.values()))
    missing = [label for key, label in SERIES.items() if key not in series]
    note = f"One text of {tokens} token{'' if tokens == 1 else 's'}."
    note += f" Not recorded: {', '.join(missing)}." if missing else ""
    panels = {label: series.keys() & keys for label, keys in PANELS.items() if series.keys() & keys}
    with style(name):
        figure = Figure(figsize=(WIDTH, 1.2 + 1.5 * len(panels)), layout="constrained")
        every = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axes, (label, keys) in zip(every, panels.items(), strict=True):
            for key in sorted(keys):
                marker = {"marker": "o", "markersize": 4} if len(series[key]) == 1 else {}
                steps = range(1, len(series[key]) + 1)
                axes.plot(steps, series[key], label=SERIES[key], **LINES[key], **marker)
            axes.set_ylabel(label)
            axes.grid(visible=True, color=INK, alpha=0.12, linewidth=0.6)
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
        every[-1].set_xlabel("token t")
        figure.suptitle(f"{short(title, TITLE_CHARACTERS)}\n{note}", x=0.01, ha="left", fontsize=10)
        figure.legend(loc="outside lower left", ncols=4, frameon=False, fontsize=9)
        words = "; ".join(
            f"{SERIES[key]} {values[0]:.3g} at the first token and {values[-1]:.3g} at the last, "
            f"between {min(values):.3g} and {max(values):.3g}"
            for key, values in series.items()
        )
        heading = f"Entropy, k and α: {title}"
        return finished(figure, every[0], name=name, heading=heading, description=f"{note} {words}.")
