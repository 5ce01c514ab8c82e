"""Results as files: CSV, Markdown, LaTeX, HTML and JSON, each written whole or not at all.

Names of strategies and datasets, notes and settings are data: every format escapes what its reader would take
for markup, and CSV what a spreadsheet would take for a formula.
"""

from guard_eval.metrics.export.csv_files import write_csv, write_differences_csv, write_scores_csv
from guard_eval.metrics.export.html_page import write_html
from guard_eval.metrics.export.json_file import write_json
from guard_eval.metrics.export.latex_table import write_latex
from guard_eval.metrics.export.markdown_file import write_markdown

__all__ = [
    "write_csv",
    "write_differences_csv",
    "write_html",
    "write_json",
    "write_latex",
    "write_markdown",
    "write_scores_csv",
]
