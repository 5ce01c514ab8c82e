"""The report: a first screen with the answer, sections that unfold, and every number as CSV and JSON."""
