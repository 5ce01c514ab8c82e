"""Print a table as HTML, Markdown, LaTeX or CSV, with the escaping of each format."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from guard_eval.records import record
from guard_eval.reporting.escaping import (
    NOTHING,
    Cell,
    Escaped,
    escape_html,
    escape_latex,
    escape_markdown,
)

Row = TypeVar("Row")
Columns = Mapping[str, Callable[[Row], Cell]]
"""The columns of a table, by heading. Each column is a function that makes a cell from a row."""

FEW = 5
"""The number of columns that fit on a phone. A phone shows a wider row as a block of cells with headings."""
LONG_CELL = 26
"""The text of a cell with more characters than this may wrap."""


@record
class Table:
    """A table to print: headings, rows of cells, a caption above and a note below.

    Attributes:
        columns: The headings.
        rows: The rows, with a cell for each heading. An `Escaped` cell is markup in the printed format.
        caption: The text above the table.
        note: The text below the table.
        text_columns: The number of columns on the left with words. Numbers are aligned to the right.
        words: The indices of further columns with words.
        strong: The indices of bold rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str
    note: str = ""
    text_columns: int = 1
    words: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row has {len(row)} cells, but the table has {len(self.columns)} columns: {row}"
                )

    @property
    def is_stacked_on_phones(self) -> bool:
        """Return whether a phone shows each row as a block, because not all columns fit."""
        return len(self.columns) > FEW

    def is_text_column(self, column: int) -> bool:
        """Return whether a column has words, and not numbers."""
        return column < self.text_columns or column in self.words


def make_table(
    rows: Iterable[Row],
    columns: Columns[Row],
    *,
    caption: str = "",
    note: str = "",
    strong: Callable[[Row], bool] = lambda _: False,
) -> Table:
    """Return a table with a line for each row. Rows for which `strong` is true are bold."""
    all_rows = tuple(rows)
    return Table(
        columns=tuple(columns),
        rows=tuple(tuple(cell(row) for cell in columns.values()) for row in all_rows),
        caption=caption,
        note=note,
        strong=frozenset(index for index, row in enumerate(all_rows) if strong(row)),
    )


ROW = "<tr>"
STRONG_ROW = '<tr class="strong">'


def to_html(table: Table, *, heading: bool = False) -> Escaped:
    """Return the table as HTML, in a container that scrolls sideways on narrow screens.

    Args:
        table: The table.
        heading: Whether the caption is the heading of a section.
    """
    head = "".join(
        f'<th scope="col"{_make_number_cell_attribute(i, table)}>{escape_html(name)}</th>'
        for i, name in enumerate(table.columns)
    )
    body = "\n".join(
        f"{STRONG_ROW if number in table.strong else ROW}{_make_html_cells(row, table)}</tr>"
        for number, row in enumerate(table.rows)
    )
    note = f'<p class="note">{escape_html(table.note)}</p>' if table.note else ""
    label = escape_html(table.caption)
    caption = f'<h2 dir="auto">{label}</h2>' if heading else f'<p class="caption" dir="auto">{label}</p>'
    kind = ' class="is_stacked_on_phones"' if table.is_stacked_on_phones else ""
    return Escaped(
        f"{caption}\n"
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f'<table{kind} aria-label="{label}">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{note}"
    )


def _make_html_cells(row: tuple[Cell, ...], table: Table) -> str:
    cells = [f'<th scope="row" dir="auto"{_make_cell_class_attribute(row[0])}>{escape_html(row[0])}</th>']
    for index, cell in enumerate(row[1:], start=1):
        kind = (
            f' dir="auto"{_make_cell_class_attribute(cell)}'
            if table.is_text_column(index)
            else _make_number_cell_attribute(index, table)
        )
        if table.is_stacked_on_phones:
            kind += f' data-head="{escape_html(table.columns[index])}"'
        cells.append(f"<td{kind}>{escape_html(cell)}</td>")
    return "".join(cells)


def _make_number_cell_attribute(column: int, table: Table) -> str:
    return "" if table.is_text_column(column) else ' class="figure"'


def _make_cell_class_attribute(cell: Cell) -> str:
    return ' class="long"' if len(str(cell)) > LONG_CELL else ""


def to_markdown(table: Table, *, heading: bool = False) -> Escaped:
    """Return the table as GitHub's Markdown, after its caption in bold or as a heading."""
    rule = ["---" if table.is_text_column(i) else "---:" for i in range(len(table.columns))]
    lines = [[escape_markdown(name) for name in table.columns], rule]
    for number, row in enumerate(table.rows):
        label, *cells = map(escape_markdown, row)
        lines.append([f"**{label}**" if label and number in table.strong else label, *cells])
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = f"\n\n{escape_markdown(table.note)}" if table.note else ""
    caption = escape_markdown(table.caption)
    return Escaped(f"{f'## {caption}' if heading else f'**{caption}**'}\n\n{body}{note}")


def to_latex(table: Table, *, label: str = "", across: bool = False) -> Escaped:
    """Return the table as a LaTeX float with booktabs rules, made smaller if it is too wide.

    Args:
        table: The table.
        label: The label for references to the table.
        across: Whether the table spans both columns of a page with two columns.
    """
    spec = "".join(_choose_latex_column_type(index, table) for index in range(len(table.columns)))
    lines = [_make_latex_row(table.columns, strong=False)]
    lines += [_make_latex_row(row, strong=number in table.strong) for number, row in enumerate(table.rows)]
    float_name = "table*" if across else "table"
    note = rf"\par\smallskip\footnotesize\raggedright {escape_latex(table.note)}" if table.note else ""
    return Escaped(
        "\n".join(
            [
                rf"\begin{{{float_name}}}[{'t' if across else 'htbp'}]",
                r"\centering\small\setlength{\tabcolsep}{4pt}",
                rf"\caption{{{escape_latex(table.caption)}}}" + (rf"\label{{{label}}}" if label else ""),
                r"\fitwidth{%",
                rf"\begin{{tabular}}{{{spec}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}}",
                *([note] if note else []),
                rf"\end{{{float_name}}}",
            ]
        )
    )


def _choose_latex_column_type(column: int, table: Table) -> str:
    """Return the type of a LaTeX column: r for numbers, l for text, p{…} for long text that wraps."""
    if not table.is_text_column(column):
        return "r"
    long = any(len(NOTHING if row[column] is None else str(row[column])) > LONG_CELL for row in table.rows)
    return r">{\raggedright\arraybackslash}p{11em}" if long else "l"


def _make_latex_row(row: tuple[Cell, ...], *, strong: bool) -> str:
    cells = [escape_latex(cell) for cell in row]
    return " & ".join(rf"\textbf{{{cell}}}" if strong else cell for cell in cells) + r" \\"
