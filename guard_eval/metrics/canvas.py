"""The sheet on which metrics are drawn: white, 8 inches wide, a heading, a note and text that fits."""

from __future__ import annotations

import bisect
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from guard_eval.escaping import one_line
from guard_eval.figure_style import SIZE, style

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
