"""The judge's benchmark runs, and its checks find what is wrong. No test looks at times."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="openai is not installed")

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_it_runs():
    command = [sys.executable, FOLDER / "judging.py", "--quick", "--only", "faults"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 with neither" in done.stdout
    assert "| requests of one more run | 0 | 0 |  |" in done.stdout


def test_the_log_counts_what_is_paid_twice(load):
    assert load("judge_server").Log(paid={"a": 1, "b": 3, "c": 2}).twice == 3
