"""The arithmetic of verdicts, numbers in, results out: intervals, tests, agreement, corrections."""
