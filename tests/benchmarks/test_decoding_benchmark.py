"""The benchmark runs and its arithmetic is right. No test looks at times."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """What a smoke run of the whole command wrote, and printed."""
    path = tmp_path_factory.mktemp("benchmark") / "figures.json"
    options = ["--quick", "--invariance", "--threads", "1", "--json", path]
    done = subprocess.run(
        [sys.executable, "benchmarks/decoding.py", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text(encoding="utf-8")), done.stdout


def test_says_what_it_ran_on(figures):
    about = figures[0]["about"]
    assert about["device"]
    assert about["threads"] == 1
    assert about["torch"] == torch.__version__


def test_every_section_has_rows_for_every_batch(figures):
    tables = figures[0]["tables"]
    assert set(tables) == {"greedy", "alike", "guard", "repetition", "headline", "invariance", "static"}
    for name in set(tables) - {"invariance"}:
        assert {row["batch"] for row in tables[name]["rows"]} == {1, 2}, name


def test_every_comparison_ran(figures):
    for table in figures[0]["tables"].values():
        assert [row["note"] for row in table["rows"] if "note" in row] == []


def test_ratios_are_positive_and_ordered(figures):
    for name, table in figures[0]["tables"].items():
        for row in table["rows"]:
            assert name == "invariance" or 0 < row["low"] <= row["ratio"] <= row["high"]


def test_ways_that_should_agree_do(figures):
    compared = [
        row
        for table in figures[0]["tables"].values()
        for row in table["rows"]
        if row.get("same_texts") is not None
    ]
    assert len(compared) >= 10
    assert [(row["base"], row["way"]) for row in compared if row["same_texts"] < 1] == []


def test_prints_every_row_and_a_markdown_table(figures):
    found, printed = figures
    for table in found["tables"].values():
        assert f"## {table['title']}" in printed
        for row in table["rows"]:
            assert printed.count(row.get("way") or row["strategy"]) >= 2


def test_a_cpu_in_float32_is_invariant(figures):
    rows = figures[0]["tables"]["invariance"]["rows"]
    assert {row["dtype"] for row in rows} == {"float32", "bfloat16"}
    assert [row["other_texts"] for row in rows if row["dtype"] == "float32"] == [0.0] * 5


def test_a_ratio_is_the_median_over_the_mean_of_the_runs_around(load, monkeypatch):
    runs = load("decoding")
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def way(name, seconds, tokens):
        left = iter(seconds)

        def run():
            clock[0] += next(left)
            return [[0] * tokens]

        return runs.Way(name, run, tokens)

    a = way("A", [9, 1, 3, 1, 1], 10)  # the first run of each is not counted
    b = way("B", [9, 4, 6, 5], 20)
    paired = runs.Stopwatch(torch.device("cpu"), 3, 1000).compare(a, b)
    # per token: 4/2 · 10/20 = 1, 6/2 · 1/2 = 1.5, 5/1 · 1/2 = 2.5
    assert (paired["ratio"], paired["low"], paired["high"], paired["rounds"]) == (1.5, 1, 2.5, 3)
    assert (paired["base_ms"], paired["way_ms"]) == (100, 250)  # medians 1 s / 10 tokens, 5 s / 20
    assert paired["same_texts"] == 0


def test_no_round_starts_after_the_time_is_up_but_two_are_made(load, monkeypatch):
    runs = load("decoding")
    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def run():
        clock[0] += 5
        return [[0]]

    paired = runs.Stopwatch(torch.device("cpu"), 9, 1).compare(runs.Way("A", run, 1), runs.Way("B", run, 1))
    assert paired["rounds"] == 2


def test_a_way_that_makes_too_few_tokens_is_not_timed(load):
    runs = load("decoding")
    whole, short = runs.Way("A", lambda: [[0, 0]], 2), runs.Way("B", lambda: [[0]], 2)
    with pytest.raises(RuntimeError, match="B made 1 tokens and not 2"):
        runs.Stopwatch(torch.device("cpu"), 1, 1).compare(whole, short)


def test_tokens_from_the_first_other_one_on_are_counted(load):
    differences = load("decoding").differences
    # the first text goes another way from its third token of four on; the second ends alike; the third is cut
    found = differences([[1, 2, 3, 4], [5, 6], [7, 8, 9]], [[1, 2, 9, 4], [5, 6], [7, 8]])
    assert found["other_texts"] == pytest.approx(2 / 3)
    assert found["other_tokens"] == pytest.approx((2 + 0 + 1) / 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batches", "0"], "must be at least 1"),
        (["--invariance", "--model", "nowhere"], "--model nowhere is no folder; name one"),
        (["--device", "abacus"], "--device abacus is no device; write cpu"),
    ],
)
def test_bad_arguments_are_named(load, capsys, arguments, message):
    with pytest.raises(SystemExit) as left:
        load("decoding").main(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err
