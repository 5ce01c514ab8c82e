"""Results as a LaTeX table, set like the paper's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from guard_eval.escaping import escape_latex as esc
from guard_eval.escaping import one_line
from guard_eval.generations import HUMAN
from guard_eval.metrics.scores import Results
from guard_eval.metrics.view import CLOSEST, ShownCell, View, metrics_of, strategies
from guard_eval.writing import write_whole

_LONGEST = 80
"""Characters of a name: TeX refuses tables wider than 5.7 m."""

_FIT = (
    r"\ifdim\wd0>\linewidth\ifdefined\resizebox\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi"
    r"\else\usebox0\fi"
)


def write_latex(results: Results, path: Path, *, metrics: Sequence[str] | None = None) -> None:
    r"""Write a `booktabs` table to `\input`: strategies as rows, datasets side by side, no intervals.

    Settings, notes and warnings follow as comments.

    Args:
        results: The results.
        path: The file.
        metrics: Its columns within each dataset; all that were taken if not given.

    Raises:
        StudyError: The file cannot be written.
    """
    view = View(results, tuple(metrics or metrics_of(results)))
    caption = f"Automatic metrics. {CLOSEST if view.closest else ''}".strip()
    lines = [
        r"% \usepackage{booktabs}, and graphicx for a table wider than the page to be shrunk",
        r"\begin{table*}[htbp]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        *_head(view),
        *_body(view, strategies(results)),
        r"\bottomrule",
        r"\end{tabular}}%",
        _FIT,
        rf"\caption{{{esc(caption)}}}",
        r"\end{table*}",
    ]
    lines += [f"% {one_line(text)}" for text in (*results.warnings, *view.notes)]
    lines += [f"% {one_line(name)}: {one_line(value)}" for name, value in view.facts]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def _head(view: View) -> list[str]:
    width, number = len(view.metrics), len(view.datasets)
    names = [rf"\multicolumn{{{width}}}{{c}}{{{_name(dataset.name)}}}" for dataset in view.datasets]
    rules = [rf"\cmidrule(lr){{{2 + place * width}-{1 + (place + 1) * width}}}" for place in range(number)]
    return [
        rf"\sbox0{{\begin{{tabular}}{{l{'r' * width * number}}}",
        r"\toprule",
        rf"Strategy & {' & '.join(names)} \\",
        " ".join(rules),
        rf" & {' & '.join(map(esc, view.heads * number))} \\",
        r"\midrule",
    ]


def _body(view: View, names: Sequence[str]) -> list[str]:
    rows = {(dataset.name, row.strategy): row.cells for dataset in view.datasets for row in dataset.rows}
    lines = []
    shown = [name for name in names if any(name == strategy for _, strategy in rows)]
    for strategy in sorted(shown, key=lambda name: name == HUMAN):  # humans last, as in the paper
        missing = [ShownCell()] * len(view.metrics)
        found = [rows.get((dataset.name, strategy), missing) for dataset in view.datasets]
        lines += [r"\midrule"] if strategy == HUMAN and len(shown) > 1 else []
        lines.append(
            rf"{_name(strategy)} & {' & '.join(_cell(cell) for cells in found for cell in cells)} \\"
        )
    return lines


def _name(text: str) -> str:
    line = one_line(text)
    return esc(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}...")


def _cell(cell: ShownCell) -> str:
    value = esc(cell.value.replace("-", "\N{MINUS SIGN}"))
    return rf"\textbf{{{value}}}" if cell.closest else value
