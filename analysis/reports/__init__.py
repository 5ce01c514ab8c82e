"""The report: a first screen that answers, questions that unfold, every number as CSV and JSON."""
