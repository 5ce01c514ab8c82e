"""Results as a folder of files: CSV, JSON, Markdown, LaTeX, HTML and figures, each written atomically.

Names of strategies and datasets, notes and settings are data: every format escapes what its reader would take
for markup, and CSV what a spreadsheet would take for a formula.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from guard_eval.metrics.scores import (
    METRICS,
    OVERALL,
    Difference,
    Results,
    Score,
    closest_to_human,
    counted,
    figure,
    interval,
    levels,
    strategies_of,
)
from guard_eval.reporting.escaping import NOTHING, Cell, Escaped, csv_text, one_line
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import NO_P, p_value
from guard_eval.reporting.writing import write_whole

_TEMPLATES = Path(__file__).parent / "templates"
MAX_NAME = 80
"""Characters of a name in a table: TeX refuses tables wider than 5.7 m."""
COMPARED = ("diversity", "mauve", "coherence", "bertscore")
"""Metrics that have figures."""
CLOSEST = "* closest to the human value of its dataset, as shown (rounded)."


def write_results(results: Results, folder: Path, *, traces: Sequence[Path] = ()) -> None:
    r"""Write everything that was measured into a folder, which exists.

    `scores.csv` and `differences.csv` have a row for each score and difference with every field, not rounded.
    `metrics.json` has all of it. `metrics.md`, `.html` and `.tex` (`booktabs` tables to `\input`) are to be
    read. Figures are SVG files, and in the page.

    Args:
        results: The results.
        folder: Where they go; `differences.csv` of an earlier run is removed if there are no differences.
        traces: Files of traces to draw.

    Raises:
        StudyError: If a file cannot be written.
    """
    from guard_eval.metrics.score_figures import draw_results  # noqa: PLC0415 (matplotlib, for files alone)
    from guard_eval.reporting.drawing import standalone  # noqa: PLC0415

    drawings = dict(draw_results(results, COMPARED, traces))
    files = {
        "scores.csv": _fields_csv(Score, results.scores),
        "differences.csv": _fields_csv(Difference, results.differences),
        "metrics.json": results_json(results),
        "metrics.md": metrics_page(results, ".md"),
        "metrics.tex": metrics_page(results, ".tex"),
        "metrics.html": metrics_page(results, ".html", [drawing.svg for drawing in drawings.values()]),
    }
    files |= {f"figures/{name}.svg": standalone(drawing) for name, drawing in drawings.items()}
    if not results.differences:  # an earlier run's would not belong to these scores
        del files["differences.csv"]
        (folder / "differences.csv").unlink(missing_ok=True)
    for name, text in files.items():
        write_whole(folder / name, text.encode(), make_folder=True)


def _fields_csv(kind: type[Score | Difference], records: Sequence[Score | Difference]) -> str:
    names = [field.name for field in fields(kind)]
    values = ([getattr(row, name) for name in names] for row in records)
    rows = ([counted(cell) if isinstance(cell, Mapping) else cell for cell in row] for row in values)
    return csv_text([names, *rows])


def results_json(results: Results) -> str:
    """Return everything as JSON; a value that is no finite number is null."""
    whole = {
        "scores": [asdict(score) for score in results.scores],
        "differences": [asdict(difference) for difference in results.differences],
        "closest_to_human": sorted(closest_to_human(results.scores)),
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


def score_table(
    scores: Sequence[Score],
    *,
    datasets: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
    intervals: bool = False,
) -> Table:
    """Return the scores as one table: a row for each dataset and strategy, a column for each metric.

    Args:
        scores: The scores.
        datasets: Only these; a single one is the table's caption.
        metrics: Only these.
        intervals: Whether a cell has the interval, too.
    """
    names = metrics or list(dict.fromkeys(score.metric for score in scores))
    shown = datasets or list(dict.fromkeys(score.dataset for score in scores))
    by_key = {(score.metric, score.dataset, score.strategy): score for score in scores}
    closest = closest_to_human(scores)

    def cell(key: tuple[str, str, str]) -> str:
        if (score := by_key.get(key)) is None:
            return NOTHING
        value = figure(score.metric, score.value) + ("*" if key in closest else "")
        limits = interval(score.metric, score.low, score.high) if intervals else ""
        return f"{value} {limits}".strip().replace("-", "\N{MINUS SIGN}")

    single = len(shown) == 1
    rows: list[tuple[Cell, ...]] = []
    for dataset in shown:
        for strategy in strategies_of(scores, dataset):
            texts = max(score.n for score in scores if (score.dataset, score.strategy) == (dataset, strategy))
            row = (_name(strategy),) if single else (_name(dataset), _name(strategy))
            rows.append((*row, texts, *(cell((name, dataset, strategy)) for name in names)))
    level = levels(score.level for score in scores if score.low is not None) if intervals else ""
    notes = [CLOSEST] if any(key[0] in names and key[1] in shown for key in closest) else []
    notes += [f"In brackets: the {level} interval."] if level else []
    return Table(
        columns=(
            *(() if single else ("Dataset",)),
            "Strategy",
            "Texts",
            *(METRICS[name].heading for name in names),
        ),
        rows=tuple(rows),
        caption=_name(shown[0]) if single else "Scores",
        note=" ".join(notes),
        text_columns=1 if single else 2,
    )


def difference_table(differences: Sequence[Difference]) -> Table:
    """Return the differences from the baseline as a table."""
    heads = ("Metric", "Dataset", "Strategy", "Baseline")
    return Table(
        columns=(*heads, "Difference", "Interval", "p", "p (Holm)", "Prompts"),
        rows=tuple(
            (
                METRICS[row.metric].heading,
                *map(_name, (row.dataset, row.strategy, row.baseline)),
                figure(row.metric, row.value, sign="+"),
                interval(row.metric, row.low, row.high) or NOTHING,
                *(_p(row, p) for p in (row.p_value, row.p_holm)),
                str(row.n),
            )
            for row in differences
        ),
        caption="Differences",
        note="Strategy less baseline, prompt by prompt.",
        text_columns=len(heads),
    )


def _p(row: Difference, p: float | None) -> str:
    return p_value(p) if p is not None else NO_P if row.note else NOTHING


def _name(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= MAX_NAME else f"{line[: MAX_NAME - 1]}…"


def metrics_page(results: Results, ending: str, figures: Sequence[Escaped] = ()) -> str:
    """Return the results as a page: `.html`, `.md` or `.tex`, the last without intervals."""
    datasets = dict.fromkeys(score.dataset for score in results.scores)
    methods = list(dict.fromkeys(map(_method, results.differences)))
    notes = list(score_notes(results.scores))
    return render(
        _TEMPLATES / f"metrics{ending}.j2",
        title="Metrics",
        warnings=results.warnings,
        tables=[
            score_table(results.scores, datasets=[name], intervals=ending != ".tex") for name in datasets
        ],
        differences=difference_table(results.differences) if results.differences else None,
        methods=methods,
        notes=notes,
        comments=[*results.warnings, *methods, *notes],
        meanings=[
            (METRICS[name].label, METRICS[name].meaning)
            for name in dict.fromkeys(score.metric for score in results.scores)
        ],
        facts=list(_facts(results)),
        figures=figures,
        line=lambda text: Escaped(one_line(text)),
    )


def score_notes(scores: Sequence[Score]) -> Iterable[str]:
    """Yield what a reader must know of scores: notes and counts, each once, with what they are about."""
    by_place: dict[tuple[str, str, str], list[str]] = {}
    for score in scores:
        counts = counted(score.counts)
        for note in (score.note.rstrip("."), counts):
            if note:
                by_place.setdefault((note, score.dataset, score.strategy), []).append(
                    METRICS[score.metric].label
                )
    places: dict[tuple[str, str], list[str]] = {}
    for (note, dataset, strategy), labels in by_place.items():
        label = strategy if dataset == OVERALL else f"{dataset}, {strategy}"
        places.setdefault((note, ", ".join(labels)), []).append(label)
    for (note, metrics), where in places.items():
        yield f"{metrics} ({'; '.join(where)}): {note}"


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
