"""The calibration benchmark counts rightly; what it finds is in docs/calibration.md."""

import krippendorff
import numpy as np
import pytest

from analysis.stats.simulation import Design, simulate, truth


@pytest.fixture
def calibration(load):
    return load("calibration")


def test_a_rate_is_the_share_of_studies_that_find_a_difference(calibration):
    # 6 wins, and 3 wins beside 3 losses: two-sided 2/64 and 1.
    verdicts = np.array([[1] * 6, [1] * 3 + [-1] * 3], dtype=np.int8)[:, :, None]
    found = calibration.tests(verdicts)
    assert found["flip"] == found["binomial"] == found["majority"] == 0.5
    assert found["flip size"] == pytest.approx(2 / 64)


def test_a_missing_interval_is_not_counted(calibration):
    low, high = np.array([0.4, 0.55, np.nan]), np.array([0.6, 0.7, np.nan])
    assert calibration._held((low, high), 0.5) == 0.5


def test_ordinal_alpha_of_infinitely_many_items_is_that_of_very_many(calibration):
    design = Design(items=20_000, raters=3, share=0.6)
    verdicts = simulate(design, studies=1, rng=np.random.default_rng(1))[0, 0]
    counted = krippendorff.alpha(
        value_counts=np.stack([(verdicts == v).sum(axis=1) for v in (1, 0, -1)], axis=1),
        level_of_measurement="ordinal",
    )
    assert calibration.ordinal_alpha(truth(design)) == pytest.approx(counted, abs=0.015)


def test_a_cell_has_every_rate(calibration):
    task = calibration.Task(
        make=calibration.one_cell, table="grid", design=Design(items=20, raters=3), studies=20, seed=1
    )
    row = task.row()
    assert row == task.row()
    rates = {key: value for key, value in row.items() if isinstance(value, float)}
    assert all(0 <= value <= 1 for value in rates.values())
    assert "| LN | .41 | .32 | 3 | 20 |" in calibration.markdown(
        {
            "grid": [row],
            "families": [row | {"holm": 0.04, "none": 0.1, "pooled": 0.2}],
            "mixed": [],
            "datasets": [row],
        },
        studies=20,
        seed=1,
    )


def test_the_page_keeps_what_was_written_by_hand(calibration, tmp_path):
    page = tmp_path / "calibration.md"
    page.write_text(f"# By hand\n\n{calibration.MARK}\n\nold\n", encoding="utf-8")
    calibration.write(page, "new\n")
    assert page.read_text(encoding="utf-8") == f"# By hand\n\n{calibration.MARK}\n\nnew\n"
