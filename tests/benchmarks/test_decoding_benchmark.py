"""The benchmark of decoding runs. No test looks at times."""

import pytest

pytestmark = pytest.mark.slow


def test_a_smoke_run_prints_a_row_for_each_strategy(load, capsys):
    benchmark = load("decoding")
    benchmark.main(["--quick"])
    printed = capsys.readouterr().out
    for name in benchmark.STRATEGIES:
        assert f"| `{name}` |" in printed
