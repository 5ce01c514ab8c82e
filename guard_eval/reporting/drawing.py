"""Draw figures in one style, and save them as SVG for pages, PDF for LaTeX, and PNG.

The same figure has the same bytes every time. Names in figures come from files, so they are never read as
formulas (matplotlib's `parse_math`) or markup, and characters that are invalid in XML are replaced.
"""

import html
import io
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from guard_eval.records import record
from guard_eval.reporting.escaping import Escaped, join_lines

# matplotlib obeys a file `matplotlibrc` in the current folder, which may be anybody's. So it is loaded
# here, in the folder of this package, and other modules import it only for types.
_current = os.open(os.curdir, os.O_PATH)
os.chdir(Path(__file__).parent)
try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter
finally:
    os.fchdir(_current)
    os.close(_current)

FIRST = "#3a86c8"
SECOND = "#d97b1f"
"""`FIRST` and `SECOND` are the blue and the orange of areas. Colour-blind readers can distinguish them."""
_STYLE = mpl.rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
SIZE: float = _STYLE["font.size"]
"""The size of text, in points."""
DPI = 200
"""The resolution of PNG files, in dots per inch."""
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
"""The fonts in SVG files. matplotlib measures texts with DejaVu Sans, the widest of these fonts."""

INK: str = _STYLE["text.color"]
"""The colour of text and axes. In SVG it becomes `currentColor`, which follows the page's theme."""

WIDTH = 6.6
ROW = 0.29
LINE = 0.07
"""Sizes in inches: `WIDTH` of a figure, `ROW` of a row's height, `LINE` of each further line of a label."""
NARROW = 3.35
"""The width in inches of a figure that fits into one column of a page with two columns."""
LONGEST = 34
"""The largest number of characters of a label. A longer name is cut."""
GUIDE: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": (0, (4, 3))}
"""The style of the dashed line that marks a value for comparison, such as 50 %."""
PROGRAM = "guard_eval.reporting.drawing"
"""The name of the program in the metadata of figures, which no other text has by chance."""
_METADATA = {
    "svg": {"Creator": PROGRAM, "Date": None},
    "pdf": {"Creator": PROGRAM, "CreationDate": None, "Producer": None},
    "png": {"Software": PROGRAM},
}
LINES = "stroke-linejoin: round; stroke-linecap: butt"


@record
class Caption:
    """The words of a figure.

    Attributes:
        name: The file name without ending, unique in a report.
        heading: The title, in one line.
        description: The content in words, for readers who cannot see the figure.
        simulated: Add the word SIMULATED, because the data are simulated.
    """

    name: str
    heading: str
    description: str
    simulated: bool = False


@record
class Drawing:
    """A figure.

    Attributes:
        name: The file name without ending, unique in a report.
        svg: The image for a page: inline, with `currentColor`, role="img" and the text alternative.
        figure: The matplotlib figure, for programs that add to it.
    """

    name: str
    svg: Escaped
    figure: Figure = field(compare=False, repr=False)

    def encode(self, file_format: str) -> bytes:
        """Return the figure as a `png`, `svg` or `pdf` file. Only a PDF file has no white background."""
        background = "auto" if file_format == "pdf" else "white"
        return _render_figure_file(self.figure, file_format, self.name, background=background)


def label_axis_in_percent(axes: Axes) -> None:
    """Label the x-axis of shares in percent, without the sign."""
    axes.xaxis.set_major_formatter(PercentFormatter(1, symbol=""))


def make_row_figure(
    draw: Callable[[Axes], None],
    labels: Sequence[str],
    caption: Caption,
    *,
    strong: Collection[int] = (),
    lines: int = 1,
    width: float = WIDTH,
) -> Drawing:
    """Return a figure with labelled rows, the first at the top.

    Args:
        draw: A function that draws on the axes. The rows are at 0, 1, …
        labels: A label for each row.
        caption: The words of the figure.
        strong: The rows whose labels are bold.
        lines: The number of lines into which a long label may break.
        width: The width in inches.
    """
    names = [_break_label(label, lines) for label in labels]
    row = ROW + LINE * max((name.count("\n") for name in names), default=0)

    def draw_rows(axes: Axes) -> None:
        draw(axes)
        axes.set_yticks(range(len(names)), names)
        for index, tick in enumerate(axes.get_yticklabels()):
            tick.set_fontweight("bold" if index in strong else "normal")
            tick.set_fontsize(8.5 if "\n" in names[index] else SIZE)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", color=INK, alpha=0.12, linewidth=0.6)

    return draw_figure(draw_rows, caption, height=row * len(names) + 0.9, width=width)


def draw_figure(
    draw: Callable[[Axes], None], caption: Caption, *, height: float, width: float = WIDTH
) -> Drawing:
    """Return a figure with one pair of axes, `height` by `width` inches, and a caption."""
    with use_figure_style(caption.name):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if caption.simulated:
            mark = axes.text(0.5, 0.5, "SIMULATED", transform=axes.transAxes, fontsize=30, fontweight="bold")
            mark.set(alpha=0.16, horizontalalignment="center", verticalalignment="center", zorder=5)
        return Drawing(name=caption.name, svg=_make_inline_svg(figure, caption), figure=figure)


def draw_interval(
    axes: Axes, low: float | None, high: float | None, y: float, *, color: str, width: float
) -> None:
    """Draw an interval in a row, if both limits exist."""
    if low is not None and high is not None:
        axes.plot([low, high], [y, y], color=color, linewidth=width, solid_capstyle="butt")


def shorten_label(text: str, longest: int = LONGEST) -> str:
    """Return a label in one line, cut if it is too long."""
    line = join_lines(text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _break_label(label: str, lines: int) -> str:
    """Return `label` in up to `lines` lines, broken at spaces if possible."""
    if lines == 1:
        return shorten_label(label)
    return "\n".join(textwrap.wrap(join_lines(label), LONGEST, max_lines=lines, placeholder="…"))


def _make_inline_svg(figure: Figure, caption: Caption) -> Escaped:
    """Convert matplotlib's SVG to an image for a page, with its colours, a description and unique ids."""
    name = caption.name
    svg = _render_figure_file(figure, "svg", name).decode()
    body = svg[svg.index("<svg") :]
    body = re.sub(r"""(<text style="[^"]*font-family: )'DejaVu Sans'""", rf"\1{FONT}", body)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = body.replace(INK, "currentColor")
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    # matplotlib sets a style for `*`, which would change the whole page if inline.
    body = re.sub(r"<style.*?</style>", "", body, count=1, flags=re.DOTALL)
    opening, content = body.split(">", 1)
    size = re.search(r'viewBox="[^"]+"', opening)
    assert size is not None
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    label = f'role="img" aria-labelledby="{name}-title {name}-desc"'
    texts = f'<title id="{name}-title">{html.escape(join_lines(caption.heading))}</title>'
    texts += f'<desc id="{name}-desc">{html.escape(join_lines(caption.description))}</desc>'
    return Escaped(f'<svg {spaces} {size[0]} style="{LINES}" {label}>{texts}{content.strip()}')


def make_standalone_svg(drawing: Drawing) -> str:
    """Return the SVG as a complete file whose colours follow the viewer's theme."""
    style = "<style>svg{color:#1c1e21}@media (prefers-color-scheme:dark){svg{color:#e6e6e3}}</style>"
    head, content = drawing.svg.split(">", 1)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{head}>{style}{content}\n'


@contextmanager
def use_figure_style(id_salt: str) -> Iterator[None]:
    """Set the style of figures inside the block. Ids within an SVG are made from `id_salt`."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": id_salt}), warnings.catch_warnings():
        # The reader's browser has the letters that the measuring font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _render_figure_file(figure: Figure, file_format: str, name: str, *, background: str = "auto") -> bytes:
    """Return the figure as a file with the name of the program, and without the date."""
    data = io.BytesIO()
    with use_figure_style(name):
        figure.savefig(
            data,
            format=file_format,
            dpi=DPI,
            facecolor=background,
            metadata=_METADATA[file_format],
        )
    return data.getvalue()
