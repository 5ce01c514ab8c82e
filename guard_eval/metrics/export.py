"""Write results as files: CSV, JSON, Markdown, LaTeX, HTML and figures. Each file is written atomically.

Names of strategies and datasets, notes and settings are data: every format escapes text that could be read as
markup, and CSV escapes text that a spreadsheet could read as a formula.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from guard_eval.metrics.scores import (
    METRICS,
    OVERALL,
    Difference,
    MeasurementResult,
    Score,
    find_scores_closest_to_human,
    format_counts,
    format_interval,
    format_level,
    format_value,
)
from guard_eval.reporting.data import make_csv_from_records, to_json
from guard_eval.reporting.escaping import NOTHING, Cell, Escaped, join_lines
from guard_eval.reporting.rendering import render
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import NO_P, format_p
from guard_eval.reporting.writing import write_folder

BRIEF_METRICS = 2
"""A terminal shows differences for at most this number of metrics."""
MAX_NAME = 80
"""The largest number of characters of a name in a table. TeX refuses tables wider than 5.7 m."""
CLOSEST = "* closest to the human value of its dataset, as shown (rounded)."


def write_results(measured: MeasurementResult, folder: Path) -> None:
    r"""Write all results into an existing folder.

    `scores.csv` and `differences.csv` have a row for each score and difference with every field, not rounded.
    `metrics.json` has all scores and differences, with the settings and warnings. `metrics.md`, `.html` and
    `.tex` (`booktabs` tables for `\input`) have tables for readers. The figures are SVG files and also parts
    of the HTML page.

    Args:
        measured: The results.
        folder: The folder.

    Raises:
        StudyError: A file cannot be written.
    """
    from guard_eval.metrics.figures import draw_metric_figures  # noqa: PLC0415 (matplotlib, used only for files)
    from guard_eval.reporting.drawing import make_standalone_svg  # noqa: PLC0415

    drawings = list(draw_metric_figures(measured.scores))
    facts = {
        "scores": measured.scores,
        "differences": measured.differences,
        "settings": measured.settings,
        "warnings": measured.warnings,
    }
    files: dict[str, bytes | str] = {
        "scores.csv": make_csv_from_records(Score, measured.scores),
        "differences.csv": make_csv_from_records(Difference, measured.differences),
        "metrics.json": to_json(facts),
        "metrics.md": render_metrics_page(measured, ".md"),
        "metrics.tex": render_metrics_page(measured, ".tex"),
        "metrics.html": render_metrics_page(measured, ".html", [drawing.svg for drawing in drawings]),
    }
    files |= {f"figures/{drawing.name}.svg": make_standalone_svg(drawing) for drawing in drawings}
    write_folder(folder, files)


def make_score_tables(scores: Sequence[Score], *, intervals: bool = False) -> list[Table]:
    """Return a table for each dataset, the mean over datasets first: a row for each strategy.

    Args:
        scores: The scores. Each metric has a column.
        intervals: Whether cells also show the intervals.
    """
    datasets = dict.fromkeys(row.dataset for row in scores)
    ordered = sorted(datasets, key=lambda name: name != OVERALL)
    return [
        _make_score_table([row for row in scores if row.dataset == name], intervals=intervals)
        for name in ordered
    ]


def _make_score_table(rows: Sequence[Score], *, intervals: bool) -> Table:
    """Return the table of the scores on one dataset."""
    closest = find_scores_closest_to_human(rows)
    metrics = dict.fromkeys(row.metric for row in rows)
    cells: dict[tuple[str, str], str] = {}
    sizes: dict[str, int] = {}
    for row in rows:
        cell = format_value(row.metric, row.value)
        if (row.metric, row.dataset, row.strategy) in closest:
            cell += "*"
        if intervals:
            cell += f" {format_interval(row.metric, row.low, row.high)}"
        cells[row.strategy, row.metric] = cell.strip()
        sizes[row.strategy] = max(sizes.get(row.strategy, 0), row.n)
    notes = [CLOSEST] if closest else []
    if intervals and any(row.low is not None for row in rows):
        notes.append(f"In brackets: the {format_level(rows[0].level)} interval.")
    return Table(
        columns=("Strategy", "Texts", *(METRICS[metric].heading for metric in metrics)),
        rows=tuple(
            (
                _shorten_table_name(strategy),
                size,
                *(cells.get((strategy, metric), NOTHING) for metric in metrics),
            )
            for strategy, size in sizes.items()
        ),
        caption=_shorten_table_name(rows[0].dataset),
        note=" ".join(notes),
    )


def make_terminal_tables(measured: MeasurementResult) -> list[Table]:
    """Return the tables for a terminal: scores over all datasets, and differences for a few metrics."""
    tables = make_score_tables(measured.scores)
    if any(row.dataset == OVERALL for row in measured.scores):
        tables = tables[:1]
    names = list(dict.fromkeys(row.metric for row in measured.differences))[:BRIEF_METRICS]
    tested = [row for row in measured.differences if row.metric in names]
    overall = [row for row in tested if row.dataset == OVERALL] or tested
    return [*tables, make_difference_table(overall)] if overall else tables


def make_all_tables(measured: MeasurementResult) -> list[Table]:
    """Return all scores and differences, for results that are not saved in files."""
    tables = make_score_tables(measured.scores)
    return [*tables, make_difference_table(measured.differences)] if measured.differences else tables


def make_difference_table(rows: Sequence[Difference]) -> Table:
    """Return a table of the differences from the baseline. The note below the table names the tests."""
    methods = dict.fromkeys(
        f"{format_level(row.level)} {row.method}" for row in rows if row.p_value is not None
    )
    tested = f"Prompt by prompt; {'; '.join(methods)}." if methods else "No difference could be tested."
    table_rows = [
        (
            METRICS[row.metric].heading,
            _shorten_table_name(row.dataset),
            _shorten_table_name(row.strategy),
            format_value(row.metric, row.value, sign="+"),
            format_interval(row.metric, row.low, row.high) or NOTHING,
            _format_p(row.p_value, row.note),
            _format_p(row.p_holm, row.note),
            row.n,
        )
        for row in rows
    ]
    return Table(
        columns=("Metric", "Dataset", "Strategy", "Difference", "Interval", "p", "p (Holm)", "Prompts"),
        rows=tuple(table_rows),
        caption=f"Differences from {_shorten_table_name(rows[0].baseline)}",
        note=f"{tested} p (Holm) is for all tests of a metric.",
        text_columns=3,
    )


def _format_p(p: float | None, note: str) -> str:
    if p is None:
        return NO_P if note else NOTHING
    return format_p(p)


def _shorten_table_name(text: str) -> str:
    line = join_lines(text)
    return line if len(line) <= MAX_NAME else f"{line[: MAX_NAME - 1]}…"


def render_metrics_page(measured: MeasurementResult, ending: str, figures: Sequence[Escaped] = ()) -> str:
    """Return the results as a page. `ending` is `.html`, `.md` or `.tex`. LaTeX has no intervals."""
    scores = measured.scores
    differences = measured.differences
    signatures = dict.fromkeys((row.metric, row.signature) for row in scores if row.signature)
    settings = {name: NOTHING if value is None else value for name, value in measured.settings.items()}
    metrics = dict.fromkeys(METRICS[row.metric] for row in scores)
    details = [
        _make_text_table(
            ("Metrics", "Texts", "Note"), collect_score_notes([*scores, *differences]), caption="Notes"
        ),
        _make_text_table(
            ("Metric", "Meaning"), [(metric.label, metric.meaning) for metric in metrics], caption="Metrics"
        ),
        _make_text_table(("Metric", "Definition with its settings"), signatures, caption="Definitions"),
        _make_text_table(("Setting", "Value"), settings.items(), caption="Settings"),
    ]
    return render(
        __file__,
        f"metrics{ending}",
        title=measured.question or "Metrics",
        question=measured.question,
        warnings=measured.warnings,
        tables=make_score_tables(scores, intervals=ending != ".tex"),
        differences=[make_difference_table(differences)] if differences else [],
        details=[table for table in details if table.rows],
        figures=figures,
        comment=lambda cells: Escaped(join_lines(": ".join(map(str, cells)))),
    )


def _make_text_table(
    columns: tuple[str, ...],
    rows: Iterable[Sequence[Cell]],
    *,
    caption: str,
) -> Table:
    cells = tuple(tuple(row) for row in rows)
    return Table(columns=columns, rows=cells, caption=caption, text_columns=len(columns))


def collect_score_notes(rows: Iterable[Score | Difference]) -> list[tuple[str, str, str]]:
    """Return each note once, with the metrics and the texts to which the note applies.

    Counts of flawed texts are also notes. Each item of the list has the metrics, the texts and the note.
    """
    metrics: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        texts = row.strategy if row.dataset == OVERALL else f"{row.dataset}, {row.strategy}"
        label = METRICS[row.metric].label
        if isinstance(row, Difference):
            label = f"{label} against {row.baseline}"
        counts = format_counts(row.counts) if isinstance(row, Score) else ""
        for note in filter(None, (row.note.rstrip("."), counts)):
            metrics[note, texts].append(label)
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (note, texts), labels in metrics.items():
        places[", ".join(labels), note].append(texts)
    return [(labels, "; ".join(texts), note) for (labels, note), texts in places.items()]
