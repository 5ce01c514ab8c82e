"""A table of verdicts in: read, validated, encoded, scored."""
