"""The verdicts of a report as CSV."""

from __future__ import annotations

import pandas as pd

from guard_eval.records import SIMULATED
from guard_eval.reporting.data import frame_csv


def verdicts_csv(frame: pd.DataFrame) -> bytes:
    """Return the verdicts as CSV, with the column `simulated` first."""
    table = frame.drop(columns="simulated", errors="ignore")
    table.insert(0, "simulated", frame["rater_kind"].isin(SIMULATED))
    return frame_csv(table)
