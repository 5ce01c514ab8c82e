"""Compute scores from verdicts, combine criteria and judges as declared, and estimate win shares."""
