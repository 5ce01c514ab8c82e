"""A study for others: its plan and its description on a page, and its data without its raters' identities."""
