"""Results as a folder of files: CSV, JSON, Markdown, LaTeX, HTML and figures, each written whole or not.

Names of strategies and datasets, notes and settings are data: every format escapes what its reader would take
for markup, and CSV what a spreadsheet would take for a formula.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path

from guard_eval.metrics.rounding import (
    CLOSEST,
    by_strategy,
    closest_to_human,
    counted,
    figure,
    interval,
    levels,
    metrics_of,
    strategies_of,
    text_count,
)
from guard_eval.metrics.scores import METRICS, Difference, Results, Score
from guard_eval.reporting.drawing import Drawing, write_drawing
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
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import NO_P, p_value
from guard_eval.reporting.writing import write_whole
from guard_eval.texts.generations import HUMAN

_TEMPLATES = Path(__file__).parent / "templates"
_LONGEST = 80
"""Characters of a name in LaTeX: TeX refuses tables wider than 5.7 m."""


def write_results(results: Results, folder: Path, figures: Mapping[str, Drawing] | None = None) -> None:
    r"""Write everything that was found into `folder`, which exists.

    `metrics.csv` has a row per dataset and strategy, `scores.csv` and `differences.csv` a row per score and
    difference with every field; none of them is rounded. `metrics.json` has all of it. `metrics.md`, `.html`
    and `.tex` (a `booktabs` table to `\input`, set like the paper's own) are to be read.

    Args:
        results: The results.
        folder: Where to; `differences.csv` of an earlier run is removed if there are no differences.
        figures: By the name of their files, which lie in `figures/` as SVG, PDF and PNG, and in the page.

    Raises:
        StudyError: A file cannot be written.
    """
    drawn = figures or {}
    for name, drawing in drawn.items():
        write_drawing(drawing, folder / "figures" / name)
    files = {
        "metrics.csv": metrics_csv(results),
        "scores.csv": _fields_csv(Score, results.scores),
        "differences.csv": _fields_csv(Difference, results.differences),
        "metrics.json": results_json(results),
        "metrics.md": _page(results, ".md", _markdown_cell),
        "metrics.tex": metrics_latex(results),
        "metrics.html": _page(results, ".html", _html_cell, figures=list(drawn.values())),
    }
    if not results.differences:  # an earlier run's would not belong to these scores
        del files["differences.csv"]
        (folder / "differences.csv").unlink(missing_ok=True)
    for name, text in files.items():
        write_whole(folder / name, text.encode())


def metrics_csv(results: Results) -> str:
    """Return a row per dataset and strategy: `dataset`, `strategy`, `texts`, and each metric with its limits.

    Values are not rounded; what is undefined is an empty cell.
    """
    metrics = metrics_of(results)
    names = [name for metric in metrics for name in (metric, f"{metric}_low", f"{metric}_high")]
    rows = []
    for (dataset, strategy), scores in by_strategy(results).items():
        values: list[Cell] = [dataset, strategy, text_count(scores)]
        for metric in metrics:
            score = scores.get(metric)
            values += [score.value, score.low, score.high] if score else [None, None, None]
        rows.append(values)
    return csv_text([["dataset", "strategy", "texts", *names], *rows])


def _fields_csv(kind: type[Score | Difference], found: Sequence[Score | Difference]) -> str:
    names = [field.name for field in fields(kind)]
    values = ([getattr(one, name) for name in names] for one in found)
    rows = ([counted(cell) if isinstance(cell, Mapping) else cell for cell in row] for row in values)
    return csv_text([names, *rows])


def results_json(results: Results) -> str:
    """Return everything; a value that is no finite number is null."""
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
    return json.dumps(_finite(whole), indent=2, allow_nan=False) + "\n"


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
        cells: Of each dataset and strategy, one per metric.
        texts: How many texts each of these had.
        notes: What the numbers at cells refer to.
        closest: What bold figures mean; empty where there are none.
        intervals: What brackets mean; empty where there are none.
        methods: How differences were tested.
        facts: Settings, speeds and signatures by name.
    """

    def __init__(self, results: Results) -> None:
        self.metrics = metrics_of(results)
        self.heads = [_head(metric) for metric in self.metrics]
        self._closest = closest_to_human(results)
        self.notes: list[str] = []
        rows = by_strategy(results)
        self.cells = {
            place: [self._cell(scores.get(metric)) for metric in self.metrics]
            for place, scores in rows.items()
        }
        self.texts = {place: text_count(scores) for place, scores in rows.items()}
        self.datasets = tuple(dict.fromkeys(dataset for dataset, _ in rows))
        self.closest = CLOSEST if self._closest else ""
        level = levels(score.level for score in results.scores if score.low is not None)
        self.intervals = f"In brackets: the value's {level} interval." if level else ""
        self.methods = list(dict.fromkeys(map(_method, results.differences)))
        self.facts = list(_facts(results))

    def _cell(self, score: Score | None) -> _ScoreCell:
        if score is None:
            return _ScoreCell()
        note = ". ".join(filter(None, (score.note.rstrip("."), counted(score.counts))))
        if note and note not in self.notes:
            self.notes.append(note)
        return _ScoreCell(
            value=figure(score.metric, score.value),
            interval=interval(score.metric, score.low, score.high),
            closest=(score.metric, score.dataset, score.strategy) in self._closest,
            note=self.notes.index(note) + 1 if note else None,
        )

    def tables(self, cell: Callable[[_ScoreCell], Escaped]) -> list[Table]:
        """Return a table per dataset; `cell` sets a score in the format's own markup."""
        return [
            Table(
                columns=("Strategy", "Texts", *self.heads),
                rows=tuple(
                    (strategy, self.texts[where, strategy], *map(cell, cells))
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


def _page(
    results: Results, ending: str, cell: Callable[[_ScoreCell], Escaped], figures: Sequence[Drawing] = ()
) -> str:
    content = _Content(results)
    return render(
        _TEMPLATES / f"metrics{ending}.j2",
        title="Metrics",
        content=content,
        warnings=results.warnings,
        tables=content.tables(cell),
        differences=_differences(results) if results.differences else None,
        meanings=[(METRICS[name].label, METRICS[name].meaning) for name in content.metrics],
        figures=figures,
    )


def _markdown_cell(cell: _ScoreCell) -> Escaped:
    value = f"**{cell.value}**" if cell.closest else cell.value
    note = f"[^{cell.note}]" if cell.note else ""
    return Escaped(" ".join(filter(None, (f"{value}{note}", escape_markdown(cell.interval)))))


def _html_cell(cell: _ScoreCell) -> Escaped:
    value = f'<strong class="closest">{cell.value}</strong>' if cell.closest else cell.value
    note = f' <sup><a href="#note-{cell.note}">{cell.note}</a></sup>' if cell.note else ""
    limits = f' <span class="interval">{escape_html(cell.interval)}</span>' if cell.interval else ""
    return Escaped(f"{value}{note}{limits}")


def metrics_latex(results: Results) -> str:
    r"""Return a `booktabs` table to `\input`: strategies as rows, datasets side by side, no intervals.

    It is set like the paper's own, people last. Settings, notes, warnings and how differences were tested
    follow as comments.
    """
    content = _Content(results)
    width, missing = len(content.metrics), [_ScoreCell()] * len(content.metrics)
    rows = []
    for strategy in sorted(strategies_of(results), key=lambda name: name == HUMAN):
        cells = [content.cells.get((dataset, strategy), missing) for dataset in content.datasets]
        rows.append(
            (strategy == HUMAN, _latex_row([_latex_name(strategy), *map(_latex_cell, chain(*cells))]))
        )
    comments = [*results.warnings, *content.notes, *content.methods]
    comments += [f"{one_line(name)}: {one_line(value)}" for name, value in content.facts]
    return render(
        _TEMPLATES / "metrics.tex.j2",
        width=width,
        datasets=len(content.datasets),
        groups=_latex_row(
            [rf"\multicolumn{{{width}}}{{c}}{{{_latex_name(one)}}}" for one in content.datasets]
        ),
        heads=_latex_row(map(escape_latex, content.heads * len(content.datasets))),
        rows=rows,
        closest=content.closest,
        comments=[Escaped(one_line(text)) for text in comments],
    )


def _latex_row(cells: Iterable[str]) -> Escaped:
    return Escaped(" & ".join(cells))


def _latex_name(text: str) -> str:
    line = one_line(text)
    return escape_latex(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}...")


def _latex_cell(cell: _ScoreCell) -> str:
    value = escape_latex(cell.value.replace("-", "\N{MINUS SIGN}"))
    return rf"\textbf{{{value}}}" if cell.closest else value
