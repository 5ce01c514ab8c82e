"""Results as files: CSV, Markdown, LaTeX, HTML and JSON, each written whole or not at all.

Names of strategies and datasets, notes and settings are data: every format escapes what its reader would take
for markup, and CSV what a spreadsheet would take for a formula.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from guard_eval.metrics.scores import METRICS, Difference, Results, Score
from guard_eval.metrics.shown import (
    CLOSEST,
    closest_to_human,
    counted,
    figure,
    interval,
    levels,
    metrics_of,
    strategies,
    wide,
)
from guard_eval.reporting.escaping import (
    NOTHING,
    Cell,
    Escaped,
    csv_text,
    escape_html,
    escape_latex,
    escape_markdown,
    one_line,
)
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table, to_markdown
from guard_eval.reporting.words import NO_P, p_value
from guard_eval.reporting.writing import write_whole
from guard_eval.texts.generations import HUMAN

_TEMPLATE = Path(__file__).parent / "metrics.html.j2"
_LONGEST = 80
"""Characters of a name in LaTeX: TeX refuses tables wider than 5.7 m."""
_FIT = (
    r"\ifdim\wd0>\linewidth\ifdefined\resizebox\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi"
    r"\else\usebox0\fi"
)


def write_csv(results: Results, path: Path) -> None:
    """Write a row per dataset and strategy: `dataset`, `strategy`, `texts`, and each metric with its limits.

    Values are not rounded; what is undefined is an empty cell.

    Raises:
        StudyError: The file cannot be written.
    """
    metrics = metrics_of(results)
    names = [name for metric in metrics for name in (metric, f"{metric}_low", f"{metric}_high")]
    rows = []
    for row in wide(results, metrics):
        values: list[Cell] = [row.dataset, row.strategy, row.texts]
        for metric in metrics:
            score = row.scores.get(metric)
            values += [score.value, score.low, score.high] if score else [None, None, None]
        rows.append(values)
    write_whole(path, csv_text([["dataset", "strategy", "texts", *names], *rows]).encode())


def write_scores_csv(results: Results, path: Path) -> None:
    """Write a row per score with every field, its settings as `signature`.

    Raises:
        StudyError: The file cannot be written.
    """
    _write_fields(path, Score, results.scores)


def write_differences_csv(results: Results, path: Path) -> None:
    """Write a row per difference with every field.

    Raises:
        StudyError: The file cannot be written.
    """
    _write_fields(path, Difference, results.differences)


def _write_fields(path: Path, kind: type[Score | Difference], found: Sequence[Score | Difference]) -> None:
    names = [field.name for field in fields(kind)]
    values = ([getattr(one, name) for name in names] for one in found)
    rows = ([counted(cell) if isinstance(cell, Mapping) else cell for cell in row] for row in values)
    write_whole(path, csv_text([names, *rows]).encode())


def write_json(results: Results, path: Path) -> None:
    """Write everything; a value that is no finite number is null.

    Raises:
        StudyError: The file cannot be written.
    """
    whole = {
        "scores": [asdict(score) for score in results.scores],
        "differences": [asdict(difference) for difference in results.differences],
        "closest_to_human": sorted(closest_to_human(results)),
        "settings": dict(results.settings),
        "speed": [
            {"dataset": dataset, "strategy": strategy, "speed": speed}
            for (dataset, strategy), speed in results.speed.items()
        ],
        "warnings": list(results.warnings),
    }
    text = json.dumps(_finite(whole), indent=2, allow_nan=False)
    write_whole(path, f"{text}\n".encode())


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, kw_only=True)
class _ScoreCell:
    """A score: its value, its interval in brackets, and the number of its note."""

    value: str = NOTHING
    interval: str = ""
    closest: bool = False
    note: int | None = None


class _Content:
    """What Markdown, LaTeX and HTML have in common.

    Attributes:
        metrics: The metrics shown.
        heads: Their headings.
        closest: As `closest_to_human` returns it.
        cells: Of each dataset and strategy, one per metric.
        texts: How many texts each of these had.
        notes: What the numbers at cells refer to.
    """

    def __init__(self, results: Results, metrics: Sequence[str] | None = None) -> None:
        self.metrics = tuple(metrics or metrics_of(results))
        self.heads = [_head(metric) for metric in self.metrics]
        self.closest = closest_to_human(results)
        self.notes: list[str] = []
        rows = wide(results, self.metrics)
        self.cells = {
            (row.dataset, row.strategy): [self._cell(row.scores.get(metric)) for metric in self.metrics]
            for row in rows
        }
        self.texts = {(row.dataset, row.strategy): row.texts for row in rows}
        self.datasets = tuple(dict.fromkeys(row.dataset for row in rows))
        self.methods = list(dict.fromkeys(map(_method, results.differences)))
        self.facts = list(_facts(results))
        level = levels(score.level for score in results.scores if score.low is not None)
        self.intervals = f"In brackets: the value's {level} interval." if level else ""

    def _cell(self, score: Score | None) -> _ScoreCell:
        if score is None:
            return _ScoreCell()
        note = ". ".join(filter(None, (score.note.rstrip("."), counted(score.counts))))
        if note and note not in self.notes:
            self.notes.append(note)
        return _ScoreCell(
            value=figure(score.metric, score.value),
            interval=interval(score.metric, score.low, score.high),
            closest=(score.metric, score.dataset, score.strategy) in self.closest,
            note=self.notes.index(note) + 1 if note else None,
        )

    def tables(self, cell: Callable[[_ScoreCell], Escaped]) -> list[Table]:
        """Return a table per dataset; `cell` sets a score in the format's own markup."""
        return [
            Table(
                columns=("Strategy", "Texts", *self.heads),
                rows=tuple(
                    (strategy, self.texts[dataset, strategy], *map(cell, cells))
                    for (where, strategy), cells in self.cells.items()
                    if where == dataset
                ),
                caption=dataset,
            )
            for dataset in self.datasets
        ]


def _differences(results: Results) -> Table:
    heads = ("Metric", "Dataset", "Strategy", "Baseline")
    return Table(
        columns=(*heads, "Difference", "Interval", "p", "p (Holm)", "Prompts"),
        rows=tuple(map(_difference, results.differences)),
        caption="Differences",
        text_columns=len(heads),
    )


def _head(metric: str) -> str:
    shown = METRICS[metric]
    return f"{shown.label} ({shown.unit})" if shown.unit else shown.label


def _difference(one: Difference) -> tuple[str, ...]:
    return (
        _head(one.metric),
        one.dataset,
        one.strategy,
        one.baseline,
        figure(one.metric, one.value, sign="+"),
        interval(one.metric, one.low, one.high) or NOTHING,
        *(p_value(p) if p is not None else NO_P if one.note else NOTHING for p in (one.p_value, one.p_holm)),
        str(one.n),
    )


def _method(one: Difference) -> str:
    tests = f"Holm's correction over {one.family} tests" if one.p_holm is not None else ""
    return "; ".join(filter(None, (one.method, f"{levels([one.level])} intervals", tests, one.note)))


def _facts(results: Results) -> Iterable[tuple[str, str]]:
    yield from ((name, NOTHING if value is None else str(value)) for name, value in results.settings.items())
    for (dataset, strategy), speed in results.speed.items():
        yield f"speed of {strategy} on {dataset}", speed
    for metric, signature in dict.fromkeys((score.metric, score.signature) for score in results.scores):
        if signature:
            yield f"signature of {metric}", signature


def write_markdown(results: Results, path: Path) -> None:
    """Write a table per dataset with intervals, then differences, settings, signatures and warnings.

    Raises:
        StudyError: The file cannot be written.
    """
    content, esc = _Content(results), escape_markdown
    parts = ["# Metrics", *(f"> {esc(text)}" for text in results.warnings)]
    parts += [to_markdown(table, heading=True) for table in content.tables(_markdown_cell)]
    parts += [CLOSEST if content.closest else "", content.intervals]
    if results.differences:
        parts += [to_markdown(_differences(results), heading=True), _items(content.methods)]
    parts += ["## Settings", _items(f"{name}: {value}" for name, value in content.facts)]
    parts += ["\n".join(f"[^{place}]: {esc(note)}" for place, note in enumerate(content.notes, start=1))]
    write_whole(path, ("\n\n".join(filter(None, parts)) + "\n").encode())


def _items(texts: Iterable[str]) -> str:
    return "\n".join(f"- {escape_markdown(text)}" for text in texts)


def _markdown_cell(cell: _ScoreCell) -> Escaped:
    value = f"**{cell.value}**" if cell.closest else cell.value
    note = f"[^{cell.note}]" if cell.note else ""
    return Escaped(" ".join(filter(None, (f"{value}{note}", escape_markdown(cell.interval)))))


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
    content = _Content(results)
    page = render(
        _TEMPLATE,
        title=title,
        content=content,
        warnings=results.warnings,
        tables=content.tables(_html_cell),
        differences=_differences(results) if results.differences else None,
        meanings=[(METRICS[name].label, METRICS[name].meaning) for name in content.metrics],
        closest=CLOSEST.removeprefix("Bold: "),
        figures=figures or {},
    )
    write_whole(path, page.encode())


def _html_cell(cell: _ScoreCell) -> Escaped:
    value = f'<strong class="closest">{cell.value}</strong>' if cell.closest else cell.value
    note = f' <sup><a href="#note-{cell.note}">{cell.note}</a></sup>' if cell.note else ""
    limits = f' <span class="interval">{escape_html(cell.interval)}</span>' if cell.interval else ""
    return Escaped(f"{value}{note}{limits}")


def write_latex(results: Results, path: Path, *, metrics: Sequence[str] | None = None) -> None:
    r"""Write a `booktabs` table to `\input`: strategies as rows, datasets side by side, no intervals.

    It is set like the paper's own. Settings, notes, warnings and how differences were tested follow as
    comments.

    Args:
        results: The results.
        path: The file.
        metrics: Its columns within each dataset; all that were taken if not given.

    Raises:
        StudyError: The file cannot be written.
    """
    content = _Content(results, metrics)
    width, number = len(content.metrics), len(content.datasets)
    names = [rf"\multicolumn{{{width}}}{{c}}{{{_latex_name(dataset)}}}" for dataset in content.datasets]
    rules = [rf"\cmidrule(lr){{{2 + place * width}-{1 + (place + 1) * width}}}" for place in range(number)]
    caption = f"Automatic metrics. {CLOSEST if content.closest else ''}".strip()
    lines = [
        r"% \usepackage{booktabs}, and graphicx for a table wider than the page to be shrunk",
        r"\begin{table*}[htbp]",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\sbox0{{\begin{{tabular}}{{l{'r' * width * number}}}",
        r"\toprule",
        rf"Strategy & {' & '.join(names)} \\",
        " ".join(rules),
        rf" & {' & '.join(map(escape_latex, content.heads * number))} \\",
        r"\midrule",
        *_latex_rows(content, strategies(results)),
        r"\bottomrule",
        r"\end{tabular}}%",
        _FIT,
        rf"\caption{{{escape_latex(caption)}}}",
        r"\end{table*}",
    ]
    lines += [f"% {one_line(text)}" for text in (*results.warnings, *content.notes, *content.methods)]
    lines += [f"% {one_line(name)}: {one_line(value)}" for name, value in content.facts]
    write_whole(path, ("\n".join(lines) + "\n").encode())


def _latex_rows(content: _Content, names: Sequence[str]) -> Iterable[str]:
    shown = [name for name in names if any(name == strategy for _, strategy in content.cells)]
    missing = [_ScoreCell()] * len(content.metrics)
    for strategy in sorted(shown, key=lambda name: name == HUMAN):  # humans last, as in the paper
        if strategy == HUMAN and len(shown) > 1:
            yield r"\midrule"
        cells = (
            cell for dataset in content.datasets for cell in content.cells.get((dataset, strategy), missing)
        )
        yield rf"{_latex_name(strategy)} & {' & '.join(map(_latex_cell, cells))} \\"


def _latex_name(text: str) -> str:
    line = one_line(text)
    return escape_latex(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}...")


def _latex_cell(cell: _ScoreCell) -> str:
    value = escape_latex(cell.value.replace("-", "\N{MINUS SIGN}"))
    return rf"\textbf{{{value}}}" if cell.closest else value
