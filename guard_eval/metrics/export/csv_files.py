"""Results as CSV: a wide table, and long ones with every field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from guard_eval.escaping import Cell, csv_text
from guard_eval.metrics.scores import Difference, Results, Score
from guard_eval.metrics.view import counted, metrics_of, wide
from guard_eval.writing import write_whole


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
    _write(path, ["dataset", "strategy", "texts", *names], rows)


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
    _write(path, names, [[_cell(getattr(one, name)) for name in names] for one in found])


def _cell(value: Cell | Mapping[str, int]) -> Cell:
    return counted(value) if isinstance(value, Mapping) else value


def _write(path: Path, names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    write_whole(path, csv_text([names, *rows]).encode())
