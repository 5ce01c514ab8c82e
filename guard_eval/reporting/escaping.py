"""Escape other people's text, so that no page, table, TeX or spreadsheet reads it as markup.

Names, notes and continuations are data. This module has one escaping function for each format.
"""

import csv
import html
import io
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

from guard_eval.bundled import read_bundled_toml

Cell = str | int | float | bool | None

NOTHING = "–"
"""The sign for a missing value."""


_NONCHARACTERS = "".join(f"{chr(end)}{chr(end + 1)}" for end in range(0xFFFE, 0x110000, 0x10000))
_UNWRITABLE = re.compile(
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff{_NONCHARACTERS}]"
)


class Escaped(str):
    """Markup that is already escaped for its format."""

    __slots__ = ()


def replace_unwritable_characters(text: str) -> str:
    """Replace characters that are unsafe in files by U+FFFD, and line breaks by line feeds.

    The replaced characters are control characters, lone surrogates, noncharacters of Unicode, and marks that
    can reverse the words and numbers after them.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", lines)


def join_lines(text: str) -> str:
    """Return `text` with unwritable characters replaced and each run of white space as one space."""
    return " ".join(replace_unwritable_characters(text).split())


def escape_invisible_characters(text: str) -> str:
    r"""Return `text` for a terminal, with control characters, direction marks and similar characters escaped.

    Line breaks, tabs, spaces of any width, and the joiners that scripts and emoji need are kept.

    >>> escape_invisible_characters("red \x1b[31m\nnext")
    'red \\x1b[31m\nnext'
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        or character in "\n\t\u200c\u200d"
        or unicodedata.category(character) == "Zs"
        else ascii(character)[1:-1]
        for character in text
    )


def escape_html(value: object) -> str:
    """Escape `value` for HTML text and quoted attributes. `Escaped` values stay unchanged."""
    return (
        value
        if isinstance(value, Escaped)
        else html.escape(replace_unwritable_characters(_convert_cell_to_text(value)), quote=True)
    )


_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~$@#&]|:(?=\S)|(?i:(?<=www))\.|^[-+=](?!\d)")
"""A pattern for characters that CommonMark or GitHub may read as markup, a link, a mention or a formula."""

_MARKDOWN_NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""A pattern for a line's beginning that Markdown reads as a numbered list, such as `1.`."""


def escape_markdown(value: object) -> str:
    """Escape `value` for a line or table cell of Markdown. Line breaks become spaces; `Escaped` stays."""
    if isinstance(value, Escaped):
        return value
    return _MARKDOWN_NUMBER.sub(
        r"\1\\\2", _MARKDOWN.sub(r"\\\g<0>", join_lines(_convert_cell_to_text(value)))
    )


_LATEX: dict[str, str] = read_bundled_toml(__file__, "latex.toml")
"""The LaTeX code for each special character."""
_LATEX |= {"\x00": r"\allowbreak{}", "\x01": "{}"}
_LATEX_ACCENTS = "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"
_LATEX_LETTERS = "ßæÆøØœŒłŁı"
"""Letters, and accents on ASCII letters, that LaTeX reads as UTF-8 and prints in every font encoding."""

_LIGATURE = re.compile("[-–—](?=[-–—])|,(?=,)")
"""A pattern for characters that LaTeX would join with the next one, such as `--` to a dash."""
_LONG_WORD = re.compile(r"\S{25,}")
_PART = re.compile(r"[^-,;:/(=_.|]{1,12}[-,;:/(=_.|]*|.")
"""A pattern for the parts of a long word, such as a path. A line may break after each part."""


def escape_latex(value: object) -> str:
    """Escape `value` for text in pdfTeX. `Escaped` values stay unchanged.

    Letters that pdfTeX lacks become code points, and a line may end within a long word.
    """
    if isinstance(value, Escaped):
        return value
    # Clean text has no control characters, so two of them can mark places in the text.
    text = _LIGATURE.sub("\\g<0>\x01", replace_unwritable_characters(_convert_cell_to_text(value)))
    text = _LONG_WORD.sub(lambda word: "\x00".join(_PART.findall(word[0])), text)
    return "".join(map(_escape_latex_character, text)).replace("]}{[", r"]}\allowbreak{}{[")


def _escape_latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    base, *accents = list(unicodedata.normalize("NFD", character))
    accented = character.isalpha() and base.isascii() and len(accents) == 1 and accents[0] in _LATEX_ACCENTS
    if " " <= character <= "~" or accented or character in _LATEX_LETTERS:
        return character
    return rf"{{[U+{ord(character):04X}]}}"


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""The characters with which a formula can begin in a spreadsheet."""


def escape_csv(value: Cell) -> str:
    """Return a cell that a spreadsheet reads as text: with an apostrophe before a formula.

    Apostrophes followed by a formula get one more apostrophe, so that `unescape_csv` restores every text.
    A number that is not finite becomes an empty cell.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else ""
    # A bare carriage return would end the row, because the csv module quotes only its own line ending.
    text = value.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8")
    return f"'{text}" if text.lstrip("'").startswith(FORMULA_STARTS) else text


def unescape_csv(text: str) -> str:
    """Return a text without the apostrophe that `escape_csv` wrote before it."""
    return text[1:] if text[:1] == "'" and text.lstrip("'").startswith(FORMULA_STARTS) else text


def make_csv(rows: Iterable[Sequence[Cell]]) -> str:
    """Return rows as CSV (RFC 4180 quoting, LF) without spreadsheet formulas."""
    return join_escaped_csv([escape_csv(cell) for cell in row] for row in rows)


def join_escaped_csv(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as CSV. The cells must already be escaped by `escape_csv`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _convert_cell_to_text(value: object) -> str:
    return NOTHING if value is None else str(value)
