"""Figures of metrics as SVG and PNG: metric against metric, and one metric with its intervals.

Strategies are told apart by numbers and words, never by colour. Their names come from files and are text:
nothing in them is taken for markup or a formula. The same results give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from guard_eval.errors import StudyError
from guard_eval.metrics.figures.canvas import (
    FAINT,
    INK,
    WIDTH,
    canvas,
    drawing,
    fitted,
    nudged,
    place_axes,
    wrapped,
)
from guard_eval.metrics.scores import METRICS, Metric, Results, Score
from guard_eval.metrics.shown import figure, levels, strategies
from guard_eval.reporting.escaping import one_line
from guard_eval.reporting.figure_style import BETWEEN, save
from guard_eval.reporting.figure_style import DEEP_FIRST as FIRST
from guard_eval.reporting.figure_style import DEEP_SECOND as SECOND
from guard_eval.texts.generations import HUMAN


def metric_of(name: str) -> Metric:
    """Return a metric by its name.

    Raises:
        StudyError: There is none of that name.
    """
    if name not in METRICS:
        raise StudyError(f"there is no metric {name!r}; there are {', '.join(METRICS)}")
    return METRICS[name]


def scores_of(results: Results, metric: str, dataset: str) -> dict[str, Score]:
    """Return a metric's scores on a dataset by strategy."""
    return {s.strategy: s for s in results.scores if (s.metric, s.dataset) == (metric, dataset)}


def there(score: Score | None) -> TypeGuard[Score]:
    """Say whether there is a score with a finite value."""
    return score is not None and score.value is not None and math.isfinite(score.value)


def value_of(score: Score) -> float:
    """Return the value of a score that is `there`."""
    assert score.value is not None
    return score.value


def limits_of(score: Score) -> tuple[float, float] | None:
    """Return both limits; None where either is no finite number."""
    low, high = score.low, score.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def name_of(strategy: str) -> str:
    """Return a strategy's name on one line."""
    return "human (the references)" if strategy == HUMAN else one_line(strategy) or "(no name)"


def with_unit(metric: Metric) -> str:
    """Return what stands beside an axis."""
    return f"{metric.title} ({metric.unit})" if metric.unit else metric.title


def shown(metric: Metric, score: Score | None) -> str:
    """Return a score's value as it is printed."""
    return _number(metric, value_of(score)) if there(score) else "no value"


def with_limits(metric: Metric, score: Score) -> str:
    """Return a score's value with its limits, if it has any."""
    limits = limits_of(score)
    if limits is None or not there(score):
        return shown(metric, score)
    low, high = (_number(metric, limit) for limit in limits)
    return f"{shown(metric, score)} [{low}, {high}]"


def _number(metric: Metric, value: float) -> str:
    return figure(metric.name, value).replace("-", "\N{MINUS SIGN}")


def note_on(scores: Sequence[Score], what: str) -> str:
    """Return the note on what the intervals are, and how many texts there were."""
    said = levels(score.level for score in scores if limits_of(score))
    sizes = sorted({score.n for score in scores})
    texts = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    limits = f"{what}: {said} intervals" if said else "No intervals"
    return f"{limits}; {texts} texts per strategy"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    x: Score
    y: Score


def plane(results: Results, *, dataset: str, path: Path, x: str = "diversity", y: str = "coherence") -> bool:
    """Draw metric against metric: a numbered point per strategy, crosses for intervals, guides for people.

    Below stands a table that names each number, with both values. A strategy that lacks a value is in the
    table and not among the points.

    Args:
        results: What was measured.
        dataset: Which dataset's scores.
        path: The file to write; its ending says whether SVG or PNG.
        x: The metric to the right, one of `METRICS`.
        y: The metric upwards.

    Returns:
        Whether there is a figure: False, and nothing is written, where no strategy but the references has
        both values.

    Raises:
        StudyError: A metric is unknown, `path` ends otherwise, or it cannot be written.
    """
    across, up = metric_of(x), metric_of(y)
    columns, rows = scores_of(results, x, dataset), scores_of(results, y, dataset)
    points = [
        _Point(x=columns[name], y=rows[name])
        for name in strategies(results, dataset)
        if there(columns.get(name)) and there(rows.get(name))
    ]
    people = [point for point in points if point.x.strategy == HUMAN]
    numbered = [*people, *(point for point in points if point.x.strategy != HUMAN)]
    marks = [HUMAN] * len(people) + [str(number + 1) for number in range(len(points) - len(people))]
    if len(numbered) == len(people):
        return False
    rest = [
        name
        for name in strategies(results, dataset)
        if (name in columns or name in rows) and name not in {point.x.strategy for point in points}
    ]
    signs = [mark.replace(HUMAN, "◆") for mark in marks] + [""] * len(rest)
    names = [*(point.x.strategy for point in numbered), *rest]
    lines = [
        (sign, name_of(name), shown(across, columns.get(name)), shown(up, rows.get(name)))
        for sign, name in zip(signs, names, strict=True)
    ]
    heading = f"{across.title} and {up.title} · {dataset}"
    note = note_on([score for point in points for score in (point.x, point.y)], "Crosses")
    told = "; ".join(f"{name}: {first}, {second}" for _, name, first, second in lines)
    with drawing():
        figure = canvas(5.3 + 0.22 * (len(lines) + 1), heading, note)
        axes = place_axes(figure, left=0.75, top=0.62, width=WIDTH - 1.0, height=3.9)
        _draw_points(axes, numbered)
        axes.set(xlabel=with_unit(across), ylabel=with_unit(up))
        _number_points(axes, numbered, marks)
        _table(figure, lines, ("", "strategy", across.title, up.title), top=5.15)
        save(figure, path, heading, f"{told}. {note}")
    return True


def intervals(results: Results, metric: str, *, dataset: str, path: Path) -> bool:
    """Draw a metric of all strategies, sorted by value: a dot with its interval each, and a line for people.

    A strategy without a value stands below the others, and in words why.

    Args:
        results: What was measured.
        metric: One of `METRICS`.
        dataset: Which dataset's scores.
        path: The file to write; its ending says whether SVG or PNG.

    Returns:
        Whether there is a figure: False, and nothing is written, where no strategy but the references has a
        value.

    Raises:
        StudyError: The metric is unknown, `path` ends otherwise, or it cannot be written.
    """
    drawn, scores = metric_of(metric), scores_of(results, metric, dataset)
    valued = sorted((s for s in scores.values() if there(s)), key=lambda s: (-value_of(s), s.strategy))
    if all(score.strategy == HUMAN for score in valued):
        return False
    rows = [*valued, *(score for score in scores.values() if not there(score))]
    heading = f"{drawn.title} · {dataset}"
    note = note_on(valued, "Lines")
    with drawing():
        names = [wrapped(name_of(score.strategy), 3.0) for score in rows]
        heights = [0.14 + 0.17 * len(lines) for lines in names]
        figure = canvas(1.4 + sum(heights), heading, note)
        axes = place_axes(figure, left=3.3, top=0.62, width=2.95, height=sum(heights))
        ends = np.cumsum(heights)
        for score, lines, end, height in zip(rows, names, ends, heights, strict=True):
            place = float(end - height / 2)
            _row(axes, score, place, drawn)
            _name_row(axes, lines, place, bold=score.strategy == HUMAN)
        if there(people := scores.get(HUMAN)):
            axes.axvline(value_of(people), color=SECOND, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
        axes.set_ylim(float(ends[-1]), 0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", color=BETWEEN, alpha=0.35, linewidth=0.6)
        axes.set_xlabel(with_unit(drawn))
        told = "; ".join(f"{score.strategy}: {with_limits(drawn, score)}" for score in rows)
        save(figure, path, heading, f"{told}. {note}")
    return True


def _name_row(axes: Axes, lines: Sequence[str], place: float, *, bold: bool) -> None:
    for number, line in enumerate(lines):
        axes.annotate(  # each line by itself: together they would be flush in the measuring font alone
            line,
            (0, place),
            xycoords=axes.get_yaxis_transform(),
            xytext=(-10, 12 * ((len(lines) - 1) / 2 - number)),
            textcoords="offset points",
            ha="right",
            va="center",
            fontweight="bold" if bold else "normal",
        )


def _row(axes: Axes, score: Score, place: float, metric: Metric) -> None:
    """Draw one strategy of `intervals` at a height."""
    human = score.strategy == HUMAN
    beside: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
    if not there(score):
        why = fitted(f"no value: {one_line(score.note)}" if score.note else "no value", 4.5)
        cover = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.annotate(
            why, (0, place), xytext=(4, 0), va="center", style="italic", color=FAINT, bbox=cover, **beside
        )
        return
    colour = SECOND if human else FIRST
    if (limits := limits_of(score)) is not None:
        axes.plot(limits, [place, place], color=colour, linewidth=1.4, marker="|", markersize=9)
    axes.plot([value_of(score)], [place], marker="D" if human else "o", markersize=5, color=colour)
    axes.annotate(with_limits(metric, score), (1, place), xytext=(10, 0), va="center", **beside)


def _draw_points(axes: Axes, points: Sequence[_Point]) -> None:
    for point in points:
        human = point.x.strategy == HUMAN
        x, y, colour = value_of(point.x), value_of(point.y), SECOND if human else FIRST
        if human:
            axes.axvline(x, color=colour, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
            axes.axhline(y, color=colour, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
        if (limits := limits_of(point.x)) is not None:
            axes.plot(limits, [y, y], color=colour, linewidth=0.8, alpha=0.75, zorder=2)
        if (limits := limits_of(point.y)) is not None:
            axes.plot([x, x], limits, color=colour, linewidth=0.8, alpha=0.75, zorder=2)
        look: dict[str, Any] = {"marker": "D", "markersize": 8, "zorder": 2.8} if human else {"marker": "o"}
        axes.plot([x], [y], color=colour, mec="white", mew=0.8, **{"markersize": 5.5, "zorder": 3} | look)
    axes.margins(0.07)
    axes.grid(visible=True, color=BETWEEN, alpha=0.3, linewidth=0.6)


def _number_points(axes: Axes, points: Sequence[_Point], marks: Sequence[str]) -> None:
    """Write each point's mark beside it, where it covers nothing if there is such a place."""
    axes.autoscale_view()
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    data = [(value_of(point.x), value_of(point.y)) for point in points]
    places = axes.transData.transform(data)
    sizes = np.array([(7.5 * len(mark) + 5, 14.0) for mark in marks])
    bounds = axes.get_window_extent()
    moves = nudged(places, sizes, np.array([[bounds.x0, bounds.y0], [bounds.x1, bounds.y1]]))
    for here, (mark, move) in enumerate(zip(marks, moves, strict=True)):
        gaps = np.linalg.norm(places - places[here] - move, axis=1)
        # Where another point is about as near, or the own one is far, a line says whose mark it is.
        doubtful = int((gaps < gaps[here] + 6).sum()) > 1 or gaps[here] > 24
        line = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            mark,
            data[here],
            xytext=move * 72 / axes.figure.dpi,
            textcoords="offset points",
            ha="center",
            va="center",
            fontweight="bold",
            color=SECOND if mark == HUMAN else INK,
            zorder=2.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.85},
            arrowprops=line if doubtful else None,
        )


def _table(
    figure: Figure, lines: Sequence[tuple[str, str, str, str]], head: tuple[str, ...], top: float
) -> None:
    """Write the table under a plane: number, strategy and two values."""
    high = figure.get_figheight()
    columns = ((0.42, "right"), (0.55, "left"), (6.85, "right"), (7.85, "right"))
    for place, line in enumerate((head, *lines)):
        weight = "bold" if place == 0 or line[1] == name_of(HUMAN) else "normal"
        for (left, side), cell in zip(columns, line, strict=True):
            figure.text(
                left / WIDTH,
                1 - (top + 0.22 * place) / high,
                fitted(cell, 5.2),
                ha=side,
                va="center",
                fontweight=weight,
                color=SECOND if cell == "◆" else INK,
            )
