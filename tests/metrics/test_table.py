"""The table of metrics: one row per dataset and strategy, with empty cells for what is undefined."""

import csv
from dataclasses import replace

import pytest
from made import continuation

from guard_eval.errors import StudyError
from guard_eval.metrics.table import metrics_row, write_metrics

ONE = continuation("a b a b a", id="1", new_tokens=6, finish="eos", batch=2)
TWO = replace(ONE, id="2", text="c c c c c", new_tokens=8, finish="length", seconds=0.2)


def test_a_row_by_hand():
    row = metrics_row([ONE, TWO], {"1": -2.0, "2": -1.0}, coherence_model="m")
    assert (row.texts, row.diversity, row.rep_2, row.coherence) == (2, 37.5, 50.0, -1.5)
    assert (row.tokens, row.tokens_per_second, row.ended, row.batch) == (7.0, 20.0, 50.0, 2)


def test_undefined_is_empty_never_zero(tmp_path):
    write_metrics(
        [metrics_row([replace(ONE, text="")], {"1": None}, coherence_model="m")], tmp_path / "m.csv"
    )
    with (tmp_path / "m.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["diversity"], row["coherence"], row["texts"]) == ("", "", "1")


def test_a_file_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"):
        write_metrics([], tmp_path / "file" / "m.csv")
