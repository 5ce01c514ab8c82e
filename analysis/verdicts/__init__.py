"""Read any table of verdicts: find its columns, name the winners, and check every row."""
