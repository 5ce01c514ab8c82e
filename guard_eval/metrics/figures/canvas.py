"""The sheet on which metrics are drawn: white, 8 inches wide, a heading, a note and text that fits."""

from __future__ import annotations

import bisect
import itertools
import math
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from numpy.typing import NDArray

from guard_eval.reporting.escaping import one_line
from guard_eval.reporting.figure_style import SIZE, style

INK, FAINT = "#1c1e21", "#6b7177"
WIDTH = 8.0
"""Inches; 800 pixels where a page shows an inch as 100."""
MARGIN = 0.12


@contextmanager
def drawing() -> Iterator[None]:
    """Set the look that all figures here share, for what is drawn and saved inside."""
    with style(ink=INK, frame=FAINT, ground="white", salt="guard-eval"):
        yield


def canvas(height: float, heading: str, note: str) -> Figure:
    """Return a figure of `WIDTH` and `height` inches with a heading and a note below it."""
    figure = Figure(figsize=(WIDTH, height))
    heading = fitted(heading, WIDTH - 2 * MARGIN, size=11.5)
    figure.text(MARGIN / WIDTH, 1 - 0.2 / height, heading, fontsize=11.5, fontweight="bold", va="center")
    note = fitted(note, WIDTH - 2 * MARGIN)
    figure.text(MARGIN / WIDTH, 1 - 0.42 / height, note, color=FAINT, va="center")
    return figure


def place_axes(figure: Figure, *, left: float, top: float, width: float, height: float) -> Axes:
    """Return axes at a place in inches from the figure's left and top."""
    high = figure.get_figheight()
    return figure.add_axes((left / WIDTH, 1 - (top + height) / high, width / WIDTH, height / high))


def _inches(text: str, size: float) -> float:
    # The measuring font lacks the wide letters of East Asia; they are as wide as a W.
    text = "".join("W" if unicodedata.east_asian_width(letter) in {"W", "F"} else letter for letter in text)
    width: float = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[
        0
    ]
    return width / 72


def fitted(text: str, inches: float, *, size: float = SIZE) -> str:
    """Return `text` on one line, cut where it would be wider than `inches`."""
    text = one_line(text)
    if _inches(text, size) <= inches:
        return text
    longest = bisect.bisect_right(range(len(text)), inches, key=lambda end: _inches(f"{text[:end]}…", size))
    return f"{text[: max(0, longest - 1)]}…"


def wrapped(text: str, inches: float) -> list[str]:
    """Return `text` in up to three lines of `inches`, broken at spaces; what is still left is cut."""
    words, lines = text.split(), [""]
    while words:
        longer = f"{lines[-1]} {words[0]}".strip()
        if lines[-1] and _inches(longer, SIZE * 1.1) > inches:
            if len(lines) == 3:
                return [*lines[:-1], fitted(f"{lines[-1]} {' '.join(words)}", inches, size=SIZE * 1.1)]
            lines.append("")
            continue
        lines[-1] = longer
        words.pop(0)
    return [fitted(line, inches, size=SIZE * 1.1) for line in lines]


Pixels = NDArray[np.float64]


def nudged(places: Pixels, sizes: Pixels, bounds: Pixels) -> Pixels:
    """Return for each point how far right of and above it the middle of its label stands, `[points, 2]`.

    Label by label the cheapest of the places around the point is taken, three times over, so that the first
    make room for the last.

    Args:
        places: The points, in pixels, `[points, 2]`.
        sizes: Width and height of their labels, `[points, 2]`.
        bounds: Lower left and upper right corner of the axes, `[2, 2]`.
    """
    angles = math.pi / 4 + np.arange(16) * math.pi / 8
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    reaches = np.repeat((6, 11, 18, 27, 38, 52, 70), len(around))
    moves = np.full(places.shape, np.nan)
    for _, here in itertools.product(range(3), range(len(places))):
        others = np.arange(len(places)) != here
        choices = np.tile(around, (7, 1)) * (reaches[:, None] + sizes[here] / 2)
        boxes = _boxes(places[here] + choices, sizes[here])
        outside = np.maximum(0, bounds[0] - boxes[:, 0]) + np.maximum(0, boxes[:, 1] - bounds[1])
        hidden = _covered(boxes, _boxes((places + moves)[others], sizes[others]))
        costs = _confusion(places[here], choices, boxes, places[others])
        moves[here] = choices[int(np.argmin(costs + 100 * hidden + 50 * outside.sum(1) + 2 * reaches))]
    return moves


def _confusion(place: Pixels, moves: Pixels, boxes: Pixels, others: Pixels) -> Pixels:
    """Return how much a label in each place hides other points, or is taken for theirs, `[moves]`."""
    way = place + moves[:, None] * np.linspace(0, 1, 9)[:, None]
    crossed = (np.linalg.norm(way[:, :, None] - others, axis=-1) < 5).sum((1, 2))
    gaps = np.linalg.norm(others - place - moves[:, None], axis=-1)
    nearer = np.maximum(0, np.linalg.norm(moves, axis=-1)[:, None] + 12 - gaps).sum(1)
    hidden = _covered(boxes, _boxes(others, np.full(others.shape, 10.0)))
    return np.asarray(10 * hidden + 40 * crossed + 2 * nearer)


def _boxes(middles: Pixels, sizes: Pixels) -> Pixels:
    """Return lower left and upper right corners, `[…, 2, 2]`."""
    return np.stack([middles - sizes / 2, middles + sizes / 2], axis=-2)


def _covered(boxes: Pixels, others: Pixels) -> Pixels:
    """Return the areas `[m]` that boxes `[m, 2, 2]` share with others `[n, 2, 2]`; unplaced ones are NaN."""
    sides = np.minimum(boxes[:, None, 1], others[:, 1]) - np.maximum(boxes[:, None, 0], others[:, 0])
    return np.asarray(np.nan_to_num(np.maximum(0, sides)).prod(axis=-1).sum(axis=-1))
