"""A report from result rows: sections, figures, templates and files."""
