"""A table of cells as HTML, Markdown, LaTeX or CSV; each escapes what its reader takes for markup."""

from __future__ import annotations

import csv
import html
import io
import re
import unicodedata
from dataclasses import dataclass

Cell = str | int | float | bool | None

NOTHING = "–"
"""What stands where there is no value."""


LONG_CELL = 26
"""Characters above which a cell of words may break into lines."""


class Raw(str):
    """Markup that is already escaped for its format."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table to print: headings, rows of cells, a caption above and a note below.

    `text_columns` says how many columns on the left hold words; the others hold figures and stand flush
    right. `strong` numbers the rows that sum up the others.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str
    note: str = ""
    text_columns: int = 1
    strong: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"a row of {len(row)} cells in a table of {len(self.columns)} columns: {row}"
                )


def clean(text: str) -> str:
    """Return `text` with what no file format can hold (control characters, lone surrogates) as U+FFFD."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cs"}
        else character
        for character in text.replace("\r\n", "\n").replace("\r", "\n")
    )


def escape_html(value: object) -> str:
    """Escape `value` for HTML text and quoted attributes; `Raw` passes."""
    return value if isinstance(value, Raw) else html.escape(clean(_text(value)), quote=True)


_MARKDOWN = re.compile(r"[\\`*_\[\]<|~$@]|:(?=\S)|&(?=[#\w])")
"""What CommonMark or GitHub may take for markup, a link, a mention or a formula, anywhere in a line."""

_MARKDOWN_START = re.compile(r"^(?:([#>+=-])|(\d+)([.)])(?=\s|$))")
"""What opens a block at the beginning of a line."""


def escape_markdown(value: object) -> str:
    """Escape `value` for a line of Markdown or a table cell; line breaks become spaces; `Raw` passes."""
    if isinstance(value, Raw):
        return value
    line = " ".join(clean(_text(value)).split())
    escaped = _MARKDOWN.sub(r"\\\g<0>", line)
    escaped = _MARKDOWN_START.sub(lambda m: rf"\{m[1]}" if m[1] else rf"{m[2]}\{m[3]}", escaped)
    return re.sub(r"(?i)\bwww\.", r"www\\.", escaped)


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "-{}",
    "κ": r"$\kappa$",
    "α": r"$\alpha$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "−": r"$-$",
    "·": r"$\cdot$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "½": r"$\frac{1}{2}$",
    "⁻": r"\textsuperscript{$-$}",
    "–": "--",
    "—": "---",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
    "…": r"\dots{}",
    "\u00a0": "~",
    "\u202f": r"\,",
    "\n": " ",
    "\t": " ",
}


def escape_latex(value: object) -> str:
    """Escape `value` for text under pdfTeX; letters it lacks become code points; `Raw` passes."""
    if isinstance(value, Raw):
        return value
    return "".join(_latex_character(character) for character in clean(_text(value)))


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if " " <= character <= "~":
        return character
    bare = unicodedata.normalize("NFD", character)
    if character.isalpha() and len(bare) == 2 and bare[0].isascii() and bare[1] in _ACCENTS:
        return rf"{_ACCENTS[bare[1]]}{{{_DOTLESS.get(bare[0], bare[0])}}}"
    return _LETTERS.get(character, rf"{{[U+{ord(character):04X}]}}")


_ACCENTS = {
    "\u0300": r"\`",
    "\u0301": r"\'",
    "\u0302": r"\^",
    "\u0303": r"\~",
    "\u0304": r"\=",
    "\u0306": r"\u",
    "\u0307": r"\.",
    "\u0308": r"\"",
    "\u030a": r"\r",
    "\u030b": r"\H",
    "\u030c": r"\v",
    "\u0327": r"\c",
    "\u0328": r"\k",
}
_DOTLESS = {"i": r"\i", "j": r"\j"}
_LETTERS = {
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "°": r"\textdegree{}",
    "²": r"\textsuperscript{2}",
    "³": r"\textsuperscript{3}",
    "€": "EUR",
}

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula."""


def escape_csv(value: Cell) -> str:
    """Return a cell that a spreadsheet reads as text: an apostrophe stands before a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "" if value != value else repr(value)  # noqa: PLR0124  NaN alone differs from itself
    # A bare carriage return would end the row: the csv module quotes only the line ending it writes itself.
    text = value.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8")
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _text(value: object) -> str:
    return NOTHING if value is None else str(value)


ROW, STRONG_ROW = "<tr>", '<tr class="strong">'


def to_html(table: Table) -> Raw:
    """Return the table in a container that scrolls sideways where the screen is narrow."""
    head = "".join(
        f'<th scope="col"{_figure(i, table)}>{escape_html(name)}</th>' for i, name in enumerate(table.columns)
    )
    body = "\n".join(
        f"{STRONG_ROW if number in table.strong else ROW}{_html_cells(row, table)}</tr>"
        for number, row in enumerate(table.rows)
    )
    note = f'<p class="note">{escape_html(table.note)}</p>' if table.note else ""
    label = escape_html(table.caption)
    return Raw(
        f'<p class="caption" dir="auto">{label}</p>\n'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}"><table aria-label="{label}">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{note}"
    )


def _html_cells(row: tuple[Cell, ...], table: Table) -> str:
    cells = [f'<th scope="row" dir="auto"{_long(row[0])}>{escape_html(row[0])}</th>']
    for place, cell in enumerate(row[1:], start=1):
        words = f' dir="auto"{_long(cell)}'
        cells.append(
            f"<td{words if place < table.text_columns else _figure(place, table)}>{escape_html(cell)}</td>"
        )
    return "".join(cells)


def _figure(place: int, table: Table) -> str:
    return "" if place < table.text_columns else ' class="figure"'


def _long(cell: Cell) -> str:
    return ' class="long"' if len(_text(cell)) > LONG_CELL else ""


def to_markdown(table: Table) -> Raw:
    """Return the table as GitHub's Markdown, its caption in bold before it."""
    rule = ["---" if i < table.text_columns else "---:" for i in range(len(table.columns))]
    lines = [[escape_markdown(name) for name in table.columns], rule]
    lines += [[escape_markdown(cell) for cell in row] for row in table.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    note = f"\n\n{escape_markdown(table.note)}" if table.note else ""
    return Raw(f"**{escape_markdown(table.caption)}**\n\n{body}{note}")


def to_latex(table: Table) -> Raw:
    """Return the table as a LaTeX float with booktabs rules, shrunk where wider than the page."""
    spec = "l" * table.text_columns + "r" * (len(table.columns) - table.text_columns)
    lines = [_latex_row(table.columns, strong=False)]
    lines += [_latex_row(row, strong=number in table.strong) for number, row in enumerate(table.rows)]
    note = rf"\par\smallskip\footnotesize\raggedright {escape_latex(table.note)}" if table.note else ""
    return Raw(
        "\n".join(
            [
                r"\begin{table}[htbp]",
                r"\centering\small",
                rf"\caption{{{escape_latex(table.caption)}}}",
                r"\fitwidth{%",
                rf"\begin{{tabular}}{{{spec}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}}",
                *([note] if note else []),
                r"\end{table}",
            ]
        )
    )


def _latex_row(row: tuple[Cell, ...], *, strong: bool) -> str:
    cells = [escape_latex(cell) for cell in row]
    return " & ".join(rf"\textbf{{{cell}}}" if strong else cell for cell in cells) + r" \\"


def to_csv(table: Table) -> str:
    """Return the table as CSV (RFC 4180 quoting, LF) that a spreadsheet takes for data throughout."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for row in (table.columns, *table.rows):
        writer.writerow([escape_csv(cell) for cell in row])
    return out.getvalue()
