"""Tables to print on pages, in documents and in a terminal."""

from guard_eval.records import record
from guard_eval.reporting.escaping import Cell

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
