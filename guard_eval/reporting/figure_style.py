"""How figures look and are saved: text stays text, and the same figure has the same bytes every time.

Names in figures come from files: nothing in them is taken for a formula (matplotlib's `parse_math`) or for
markup, and what XML cannot hold is replaced.
"""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from guard_eval.reporting.escaping import one_line

FIRST, SECOND, BETWEEN = "#3a86c8", "#d97b1f", "#9aa1a9"
"""Blue, orange and grey, distinct to colour-blind readers: areas under dark letters, on light and dark."""
SIZE = 9.5
"""Points of text."""
DPI = 200
"""Of files of pixels."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
"""What SVG asks its reader for; matplotlib measures with DejaVu Sans, which is wider than any of them."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.family": ["DejaVu Sans"],
    "font.size": SIZE,
    "text.parse_math": False,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
}


@contextmanager
def style(*, ink: str, frame: str, ground: str, salt: str) -> Iterator[None]:
    """Set the look of figures for what is drawn and saved inside.

    Args:
        ink: Colour of text.
        frame: Colour of the axes' lines.
        ground: Colour of the paper, or `none`.
        salt: What the ids within an SVG are made from.
    """
    colours: dict[Any, Any] = {
        "axes.edgecolor": frame,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), ink),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), ground),
        "svg.hashsalt": salt,
    }
    with mpl.rc_context(_STYLE | colours), warnings.catch_warnings():
        # Letters that the measuring font lacks are there in the reader's browser.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def as_svg(figure: Figure) -> str:
    """Return the figure as an SVG file in the reader's own font, within `style`."""
    data = io.BytesIO()
    figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
    measured = re.compile(r"""(<text style="[^"]*font-family: )'DejaVu Sans'""")
    return measured.sub(rf"\1{FONT}", data.getvalue().decode())


def as_pdf(figure: Figure) -> bytes:
    """Return the figure as a PDF file, within `style`."""
    data = io.BytesIO()
    figure.savefig(data, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return data.getvalue()


def as_png(figure: Figure, *, ground: str = "auto") -> bytes:
    """Return the figure as a PNG file on `ground`, within `style`."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI, facecolor=ground, metadata={"Software": None})
    return data.getvalue()


def described(svg: str, title: str, description: str, *, name: str = "figure") -> str:
    """Return an SVG as an image with a text alternative; the ids of that begin with `name`."""
    end = svg.index(">", svg.index("<svg"))
    label = f'role="img" aria-labelledby="{name}-title {name}-desc"'
    texts = f'<title id="{name}-title">{html.escape(one_line(title))}</title>'
    texts += f'<desc id="{name}-desc">{html.escape(one_line(description))}</desc>'
    return f"{svg[:end]} {label}>{texts}{svg[end + 1 :]}"
