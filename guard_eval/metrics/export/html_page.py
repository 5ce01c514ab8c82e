"""Results as a page that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import jinja2

from guard_eval.errors import StudyError
from guard_eval.escaping import clean
from guard_eval.generations import HUMAN
from guard_eval.metrics.scores import Results
from guard_eval.metrics.view import CLOSEST, DIFFERENCE_HEADS, View
from guard_eval.writing import write_whole

_TEMPLATES = Path(__file__).parents[1] / "templates"


def write_html(
    results: Results, path: Path, *, figures: Mapping[str, Path] | None = None, title: str = "Metrics"
) -> None:
    """Write a page that needs nothing else, light or dark as its reader has it.

    Args:
        results: The results.
        path: The file.
        figures: SVG files by caption; they become part of the page as images, in which no script runs.
        title: The page's heading.

    Raises:
        StudyError: The file cannot be written, or a figure not read.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("metrics.html.j2").render(
        title=title,
        view=View(results),
        warnings=results.warnings,
        difference_heads=DIFFERENCE_HEADS,
        closest=CLOSEST.removeprefix("Bold: "),
        figures={caption: _svg(file) for caption, file in (figures or {}).items()},
        human=HUMAN,
    )
    write_whole(path, page.encode())


def _svg(file: Path) -> str:
    try:
        return base64.b64encode(file.read_bytes()).decode("ascii")
    except OSError as error:
        raise StudyError(f"cannot read the figure {file}: {error.strerror}; draw it again") from error
