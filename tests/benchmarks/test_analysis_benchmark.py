"""The benchmark of the analysis: its data are studies, and what it compares is the same. No times here."""

from pathlib import Path

import numpy as np

from analysis.stats.resampling import win_share_bootstrap
from analysis.verdicts.tidy import validate

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_a_ratio_is_over_the_mean_of_the_runs_around(load):
    a, b = iter([2.0, 4.0, 8.0]), iter([9.0, 3.0])  # A B A B A
    found = load("common").in_turns(lambda: next(a), lambda: next(b), rounds=2)
    # 9 / ((2 + 4)/2) = 3 and 3 / ((4 + 8)/2) = 0.5.
    assert found.ratios == [3.0, 0.5]
    assert found.shown() == "1.75 (0.50–3.00)"
    assert found.shown(inverse=True) == "1.17 (0.33–2.00)"
    assert found.medians == (4.0, 6.0)


def test_no_file_hides_a_package():
    packages = {"analysis", "annotation_app", "guard_eval", "judge", "ray", "vllm"}
    assert not packages & {path.stem for path in FOLDER.glob("*.py")}


def test_percentiles_are_values_that_occurred(load):
    percentile = load("common").percentile
    values = [float(value) for value in range(1, 21)]  # 19 of 20 are at most 19
    assert (percentile(values, 0.5), percentile(values, 0.95), percentile([3.0], 0.95)) == (10, 19, 3)


def test_its_tables_are_valid_studies(load):
    speed = load("analysis_speed")
    for full in (False, True):
        table = validate(speed.tidy(600, full=full))
        assert len(table) == 600
        assert table["dataset"].nunique() == 3
        assert set(table.groupby("pair_id")["rater"].nunique()[:-1]) <= {3, 4}
        assert ("shown_first" in table.columns) == full
    assert len(validate(speed.several(5, 300))) == 300
    assert validate(speed.crossed(500)).groupby("pair_id")["rater"].nunique().eq(25).all()


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
