"""Show results: tables, figures, escaping for each format, and the wording of numbers."""
