"""The benchmark of the analysis: its data are studies, and what it compares is the same. No times here."""

import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest

from analysis.core.bootstrap import win_share_bootstrap
from analysis.tidy import validate

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports one of the benchmark's modules, whose folder is no package."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def test_a_ratio_is_over_the_mean_of_the_runs_around(load, monkeypatch):
    turns = load("turns")
    seconds = iter([2.0, 9.0, 4.0, 3.0, 8.0])  # A B A B A
    monkeypatch.setattr(turns, "took", lambda _: next(seconds))
    monkeypatch.setattr(turns.time, "perf_counter", itertools.count().__next__)
    found = turns.in_turns(lambda: None, lambda: None, rounds=2)
    # 9 / ((2 + 4)/2) = 3 and 3 / ((4 + 8)/2) = 0.5.
    assert (found.ratio, found.low, found.high, found.rounds) == (1.75, 0.5, 3.0, 2)
    assert (found.base, found.way) == (4.0, 6.0)


def test_no_file_hides_the_package(load):
    load("turns")
    assert "benchmarks" not in importlib.import_module("analysis").__file__


def test_its_tables_are_valid_studies(load):
    speed = load("analysis_speed")
    for full in (False, True):
        table = validate(speed.tidy(600, full=full))
        assert len(table) == 600
        assert table["dataset"].nunique() == 3
        assert set(table.groupby("pair_id")["rater"].nunique()[:-1]) <= {3, 4}
        assert ("shown_first" in table.columns) == full


def test_what_is_compared_gives_the_same(load, capsys):
    speed = load("analysis_speed")
    verdicts = speed.verdicts_of(300)
    scores = (verdicts == 2).sum(axis=1) - (verdicts == 0).sum(axis=1)
    strata = np.arange(300) % 3
    ours = win_share_bootstrap(scores, np.full(300, 5), strata, seed=1)
    low, high = speed.by_rows((1 + scores / 5) / 2, strata)
    assert abs(ours.low - low) < 6 * ours.low_error
    assert abs(ours.high - high) < 6 * ours.high_error
    speed.agreement(300, rounds=1)
    assert capsys.readouterr().out.count("differs by") == 2
