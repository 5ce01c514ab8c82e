"""Figures of metrics: metric against metric, and one metric with its intervals.

Strategies are identified by numbers and words, never by colour alone. Their names come from files and are
text: nothing in them is taken for markup or a formula. The same results give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from guard_eval.errors import StudyError
from guard_eval.metrics.scores import METRICS, OVERALL, Metric, Results, Score, levels, strategies_of
from guard_eval.metrics.scores import figure as rounded
from guard_eval.metrics.trace_figures import behaviour
from guard_eval.reporting.drawing import FIRST, INK, SECOND, WIDTH, Drawing, finished, in_rows, short, style
from guard_eval.reporting.escaping import one_line
from guard_eval.texts.continuations import read_traces
from guard_eval.texts.generations import HUMAN

_LONGEST = 66
"""Characters of a name below a plane, and of a note."""
_GRID: dict[str, Any] = {"visible": True, "color": INK, "alpha": 0.12, "linewidth": 0.6}
_GUIDE: dict[str, Any] = {"color": SECOND, "linewidth": 1.1, "linestyle": (0, (4, 3)), "zorder": 1}


@dataclass(frozen=True)
class _Column:
    """A metric's scores on a dataset, by strategy."""

    name: str
    metric: Metric
    scores: Mapping[str, Score]

    @classmethod
    def of(cls, results: Results, metric: str, dataset: str) -> _Column:
        if metric not in METRICS:
            raise StudyError(f"there is no metric {metric!r}; there are {', '.join(METRICS)}")
        scores = {s.strategy: s for s in results.scores if (s.metric, s.dataset) == (metric, dataset)}
        return cls(metric, METRICS[metric], scores)

    @property
    def label(self) -> str:
        """The label of an axis."""
        return f"{self.metric.title} ({self.metric.unit})" if self.metric.unit else self.metric.title

    @property
    def values(self) -> dict[str, float]:
        """The finite values, by strategy."""
        return {
            name: score.value
            for name, score in self.scores.items()
            if score.value is not None and math.isfinite(score.value)
        }

    def limits(self, strategy: str) -> tuple[float, ...]:
        """Return both limits; nothing where either is missing or no finite number."""
        score = self.scores[strategy]
        ends = tuple(end for end in (score.low, score.high) if end is not None and math.isfinite(end))
        return ends if len(ends) == 2 else ()

    def worded(self, strategy: str, *, limits: bool = False) -> str:
        """Return a value as it is printed, with its limits if `limits` and there are any."""
        if strategy not in self.values:
            return "no value"
        numbers = (self.values[strategy], *(self.limits(strategy) if limits else ()))
        value, *ends = (rounded(self.name, x).replace("-", "\N{MINUS SIGN}") for x in numbers)
        return f"{value} [{', '.join(ends)}]" if ends else value

    def note(self, what: str, names: Iterable[str]) -> str:
        """Return what the intervals are, and how many texts there were."""
        scores = [self.scores[name] for name in names]
        known = levels(score.level for score in scores if self.limits(score.strategy))
        sizes = sorted({score.n for score in scores})
        texts = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        return f"{f'{what}: {known} intervals' if known else 'No intervals'}; {texts} texts per strategy"


def draw_results(
    results: Results, metrics: Sequence[str], traces: Sequence[Path]
) -> Iterator[tuple[str, Drawing]]:
    """Yield the figures by file name: diversity against coherence, intervals of metrics, first traces.

    Where there are several datasets, intervals are drawn of the means over them; tables have each dataset's.
    """
    datasets = list(dict.fromkeys(score.dataset for score in results.scores))
    for index, dataset in enumerate(datasets, start=1):
        name = f"diversity-coherence-{index}"
        if drawing := plane(results, dataset=dataset, name=name):
            yield name, drawing
    for metric in metrics:
        whole = any((score.metric, score.dataset) == (metric, OVERALL) for score in results.scores)
        for index, dataset in enumerate([OVERALL] if whole else datasets, start=1):
            name = metric if whole else f"{metric}-{index}"
            if drawing := intervals(results, metric, dataset=dataset, name=name):
                yield name, drawing
    for index, path in enumerate(traces, start=1):
        strategy = path.name.removesuffix(".trace.jsonl")
        for trace in read_traces([path])[:1]:
            if drawing := behaviour(trace, name=f"trace-{index}", title=f"{strategy}, {trace.prompt_id}"):
                yield f"trace-{strategy}", drawing


def plane(
    results: Results, *, dataset: str, name: str, x: str = "diversity", y: str = "coherence"
) -> Drawing | None:
    """Draw metric against metric: a numbered point per strategy, crosses for intervals, guides for people.

    Below, each number is named with both values. A strategy that lacks a value is named there too and has no
    point.

    Args:
        results: What was measured.
        dataset: Which dataset's scores.
        name: The figure's name, unique in a page.
        x: The metric to the right, one of `METRICS`.
        y: The metric upwards.

    Returns:
        The figure; None where no strategy but the references has both values.

    Raises:
        StudyError: If a metric is unknown.
    """
    across, up = (_Column.of(results, metric, dataset) for metric in (x, y))
    scored = [
        strategy
        for strategy in sorted(strategies_of(results.scores, dataset), key=lambda strategy: strategy != HUMAN)
        if strategy in across.scores or strategy in up.scores
    ]
    points = [strategy for strategy in scored if strategy in across.values and strategy in up.values]
    if set(points) <= {HUMAN}:
        return None
    written = [strategy for strategy in points if strategy != HUMAN]
    marks = {strategy: str(index) for index, strategy in enumerate(written, start=1)} | {HUMAN: "◆"}
    listed = [*points, *(strategy for strategy in scored if strategy not in points)]
    lines = [
        f"{marks[strategy] if strategy in points else ''}  {short(_name(strategy), _LONGEST)}: "
        f"{across.worded(strategy)}, {up.worded(strategy)}".strip()
        for strategy in listed
    ]
    heading = f"{across.metric.title} and {up.metric.title} · {dataset}"
    note = across.note("Crosses", points)
    with style(ink=INK, frame=INK, ground="none", salt=name):
        sheet = Figure(figsize=(WIDTH, 4.4 + 0.19 * len(lines)), layout="constrained")
        axes = sheet.add_subplot()
        for strategy in points:
            _cross(axes, across, up, strategy)
            point = across.values[strategy], up.values[strategy]
            mark = "human" if strategy == HUMAN else marks[strategy]
            beside: dict[str, Any] = {"xytext": (5, 4), "textcoords": "offset points", "fontweight": "bold"}
            axes.annotate(mark, point, zorder=4, **beside).set_in_layout(False)
        axes.margins(0.07)
        axes.grid(**_GRID)
        axes.set(xlabel=across.label, ylabel=up.label)
        _head(axes, heading, note)
        nothing = [Line2D([], [], linestyle="none")] * len(lines)
        listing: dict[str, Any] = {"handlelength": 0, "handletextpad": 0, "labelspacing": 0.35}
        sheet.legend(nothing, lines, loc="outside lower left", frameon=False, fontsize=9, **listing)
        values = "; ".join(f"{each}: {across.worded(each)}, {up.worded(each)}" for each in listed)
        return finished(sheet, axes, name=name, heading=heading, description=f"{values}. {note}")


def intervals(results: Results, metric: str, *, dataset: str, name: str) -> Drawing | None:
    """Draw a metric of all strategies, sorted by value: a dot with its interval each, and a line for people.

    A strategy without a value is drawn below the others, with the reason in words.

    Args:
        results: What was measured.
        metric: One of `METRICS`.
        dataset: Which dataset's scores.
        name: The figure's name, unique in a page.

    Returns:
        The figure; None where no strategy but the references has a value.

    Raises:
        StudyError: If the metric is unknown.
    """
    column = _Column.of(results, metric, dataset)
    valued = sorted(column.values, key=lambda strategy: (-column.values[strategy], strategy))
    if set(valued) <= {HUMAN}:
        return None
    rows = [*valued, *(strategy for strategy in column.scores if strategy not in column.values)]
    heading = f"{column.metric.title} · {dataset}"
    note = column.note("Lines", valued)

    def draw(axes: Axes) -> None:
        for index, strategy in enumerate(rows):
            _row(axes, column, strategy, index)
        if HUMAN in column.values:
            axes.axvline(column.values[HUMAN], **_GUIDE)
        axes.grid(axis="x", **_GRID)
        axes.set_xlabel(column.label)
        _head(axes, heading, note)

    values = "; ".join(f"{strategy}: {column.worded(strategy, limits=True)}" for strategy in rows)
    return in_rows(
        draw,
        [_name(strategy) for strategy in rows],
        name=name,
        heading=heading,
        description=f"{values}. {note}",
        strong={rows.index(HUMAN)} if HUMAN in rows else (),
        lines=3,
    )


def _name(strategy: str) -> str:
    return "human (the references)" if strategy == HUMAN else one_line(strategy) or "(no name)"


def _head(axes: Axes, heading: str, note: str) -> None:
    axes.set_title(short(heading, _LONGEST), loc="left", fontweight="bold", fontsize=11, pad=22)
    anchor: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    axes.annotate(note, (0, 1), xytext=(0, 7), **anchor).set_in_layout(False)  # the heading makes room for it


def _row(axes: Axes, column: _Column, strategy: str, y: int) -> None:
    """Draw one strategy of `intervals` at a height."""
    beside: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    if strategy not in column.values:
        note = column.scores[strategy].note
        why = short(f"no value: {note}" if note else "no value", _LONGEST)
        reason = axes.annotate(why, (0, y), xytext=(4, 0), va="center", style="italic", **beside)
        reason.set_in_layout(False)  # it may reach over the places of values, of which this row has none
        return
    marker, colour = ("D", SECOND) if strategy == HUMAN else ("o", FIRST)
    if limits := column.limits(strategy):
        axes.plot(limits, [y, y], color=colour, linewidth=1.4, marker="|", markersize=9)
    axes.plot([column.values[strategy]], [y], marker=marker, markersize=5, color=colour)
    text = column.worded(strategy, limits=True)
    axes.annotate(text, (1, y), xytext=(10, 0), va="center", **beside)


def _cross(axes: Axes, across: _Column, up: _Column, strategy: str) -> None:
    """Draw a strategy's point in a plane, with its intervals; people's with guides to both axes."""
    x, y = across.values[strategy], up.values[strategy]
    marker, size, colour = ("D", 8.0, SECOND) if strategy == HUMAN else ("o", 5.5, FIRST)
    if strategy == HUMAN:
        axes.axvline(x, **_GUIDE)
        axes.axhline(y, **_GUIDE)
    line: dict[str, Any] = {"color": colour, "linewidth": 0.8, "alpha": 0.75, "zorder": 2}
    if limits := across.limits(strategy):
        axes.plot(limits, [y, y], **line)
    if limits := up.limits(strategy):
        axes.plot([x, x], limits, **line)
    axes.plot([x], [y], marker=marker, markersize=size, color=colour, mec="white", mew=0.8, zorder=3)
