"""How results are shown: tables, figures, escaping for each format, and how numbers are worded."""
