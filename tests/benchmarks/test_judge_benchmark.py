"""The judge's benchmark runs, and its checks find what is wrong. No test looks at times."""

import sys

import pytest
from command_line import run_process

pytest.importorskip("openai", reason="openai is not installed")

pytestmark = pytest.mark.slow


def test_it_runs_and_counts_what_is_paid_twice(load):
    judging = load("judging").__file__
    ran = run_process([sys.executable, judging, "--quick", "--only", "faults"], timeout=120)
    assert ran.code == 0, ran
    assert "0 with neither" in ran.out
    assert "| requests of one more run | 0 | 0 |  |" in ran.out
    assert load("judge_server").Log(paid={"a": 1, "b": 3, "c": 2}).twice == 3
