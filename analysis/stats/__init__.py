"""Compute statistics of verdicts from numbers: intervals, tests, agreement and corrections."""
