"""The benchmark of decoding runs and its arithmetic is right. No test looks at times."""

import time

import pytest

pytestmark = pytest.mark.slow


def test_a_smoke_run_prints_a_row_for_each_strategy(load, capsys):
    benchmark = load("decoding")
    benchmark.main(["--quick"])
    printed = capsys.readouterr().out
    for name in benchmark.STRATEGIES:
        assert f"| `{name}` |" in printed


def test_a_ratio_is_the_time_over_the_mean_of_the_runs_around(load, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: clock[0])

    def way(*seconds):
        left = iter(seconds)
        return lambda: clock.__setitem__(0, clock[0] + next(left))

    # the first run of each is not counted: 4 / 2, 6 / 2, 5 / 1
    result = load("decoding").ratios(way(9, 1, 3, 1, 1), way(9, 4, 6, 5), rounds=3)
    assert result == [2, 3, 5]
