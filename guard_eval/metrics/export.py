"""Results as a folder of files: CSV, JSON, Markdown, LaTeX, HTML and figures, each written atomically.

Names of strategies and datasets, notes and settings are data: every format escapes what its reader would take
for markup, and CSV what a spreadsheet would take for a formula.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path

from guard_eval.metrics.scores import (
    CLOSEST,
    METRICS,
    Difference,
    Results,
    Score,
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
from guard_eval.reporting.drawing import Drawing, write_drawing
from guard_eval.reporting.escaping import (
    NOTHING,
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
MAX_LATEX_NAME = 80
"""Characters of a name in LaTeX: TeX refuses tables wider than 5.7 m."""
SHOWN = ("diversity", "mauve", "coherence", "bertscore", "rep_4", "words", "tokens_per_second")
"""Metrics on the terminal; tables in files have all."""
COMPARED = ("diversity", "mauve", "coherence", "bertscore")
"""Metrics whose differences are on the terminal, and that have figures."""


def write_results(results: Results, folder: Path, *, traces: Sequence[Path] = ()) -> None:
    r"""Write everything that was found into a folder, which exists.

    `scores.csv` and `differences.csv` have a row for each score and difference with every field, not rounded.
    `metrics.json` has all of it. `metrics.md`, `.html` and `.tex` (a `booktabs` table to `\input`, set like
    the paper's own) are to be read. Figures are SVG and PNG, and in the page.

    Args:
        results: The results.
        folder: Where they go; `differences.csv` of an earlier run is removed if there are no differences.
        traces: Files of traces to draw.

    Raises:
        StudyError: A file cannot be written.
    """
    from guard_eval.metrics.score_figures import draw_results  # noqa: PLC0415 (matplotlib, for files alone)

    drawings = dict(draw_results(results, COMPARED, traces))
    for name, drawing in drawings.items():
        write_drawing(drawing, folder / "figures" / name)
    files = {
        "scores.csv": _fields_csv(Score, results.scores),
        "differences.csv": _fields_csv(Difference, results.differences),
        "metrics.json": results_json(results),
        "metrics.md": _page(results, ".md", _markdown_cell),
        "metrics.tex": metrics_latex(results),
        "metrics.html": _page(results, ".html", _html_cell, figures=list(drawings.values())),
    }
    if not results.differences:  # an earlier run's would not belong to these scores
        del files["differences.csv"]
        (folder / "differences.csv").unlink(missing_ok=True)
    for name, text in files.items():
        write_whole(folder / name, text.encode())


def _fields_csv(kind: type[Score | Difference], found: Sequence[Score | Difference]) -> str:
    names = [field.name for field in fields(kind)]
    values = ([getattr(row, name) for name in names] for row in found)
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


def score_tables(results: Results) -> Iterator[Table]:
    """Yield what the terminal shows: scores of each dataset, spread over runs, and differences."""
    metrics = [name for name in SHOWN if name in metrics_of(results)] or list(metrics_of(results))
    heads = ("Strategy", *(METRICS[name].label for name in metrics))
    closest, rows = closest_to_human(results), by_strategy(results)
    for dataset in dict.fromkeys(dataset for dataset, _ in rows):
        scores = {strategy: found for (where, strategy), found in rows.items() if where == dataset}
        most = max(text_count(found) for found in scores.values())
        yield Table(
            columns=heads,
            rows=tuple(
                (
                    strategy,
                    *(
                        figure(name, found[name].value)
                        + ("*" if (name, dataset, strategy) in closest else "")
                        if name in found
                        else ""
                        for name in metrics
                    ),
                )
                for strategy, found in scores.items()
            ),
            caption=f"{dataset}, up to {most} texts each",
            note="* nearest to the human references" if closest else "",
        )
        several = {
            strategy: found
            for strategy, found in scores.items()
            if any(score.run_sd is not None for score in found.values())
        }
        if several:
            yield Table(
                columns=heads,
                rows=tuple(
                    (name, *(figure(m, found[m].run_sd) if m in found else "" for m in metrics))
                    for name, found in several.items()
                ),
                caption=f"{dataset}: standard deviation from run to run (the intervals contain it)",
            )
    compared = [one for one in results.differences if one.metric in COMPARED and one.value is not None]
    if compared:
        yield _differences(results, compared)


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
        cells: The cells of each dataset and strategy, one for each metric.
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
        """Return a table for each dataset; `cell` sets a score in the format's own markup."""
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


def _differences(results: Results, shown: Sequence[Difference] | None = None) -> Table:
    rows = results.differences if shown is None else shown
    heads = ("Metric", "Dataset", "Strategy", "Baseline")
    return Table(
        columns=(*heads, "Difference", "Interval", "p", "p (Holm)", "Prompts"),
        rows=tuple(map(_difference, rows)),
        caption="Differences" if shown is None else f"Differences from {rows[0].baseline}",
        text_columns=len(heads),
    )


def _head(metric: str) -> str:
    shown = METRICS[metric]
    return f"{shown.label} ({shown.unit})" if shown.unit else shown.label


def _difference(row: Difference) -> tuple[str, ...]:
    return (
        _head(row.metric),
        row.dataset,
        row.strategy,
        row.baseline,
        figure(row.metric, row.value, sign="+"),
        interval(row.metric, row.low, row.high) or NOTHING,
        *(p_value(p) if p is not None else NO_P if row.note else NOTHING for p in (row.p_value, row.p_holm)),
        str(row.n),
    )


def _method(row: Difference) -> str:
    tests = f"Holm's correction over {row.family} tests" if row.p_holm is not None else ""
    return "; ".join(filter(None, (row.method, f"{levels([row.level])} intervals", tests, row.note)))


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
    return escape_latex(line if len(line) <= MAX_LATEX_NAME else f"{line[: MAX_LATEX_NAME - 3]}...")


def _latex_cell(cell: _ScoreCell) -> str:
    value = escape_latex(cell.value.replace("-", "\N{MINUS SIGN}"))
    return rf"\textbf{{{value}}}" if cell.closest else value
