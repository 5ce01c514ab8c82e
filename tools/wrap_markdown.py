"""Wrap Markdown at 100 columns: `python tools/wrap_markdown.py`. `--check` only names unwrapped pages.

Paragraphs and list items are wrapped. Code, tables, headings and comments are not changed. Code spans and
links are never divided.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

COLUMNS = 100
FOLDERS = ("benchmarks", "docs", "guard_eval", "tests")

_FENCE = re.compile(r"\s*(```|~~~)")
_FIXED = re.compile(r"\s*(\||#|<|\[[^\]]+\]:|---|:::|!!!|\$\$)|.*  $|\s*$")
"""Lines that are not changed: tables, headings, HTML, definitions, rules, and hard breaks."""
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)])(\s+)")
_WHOLE = re.compile(r"`[^`]+`|!?\[[^\]]*\]\([^)]*\)| (?=(?:[-+*]|\d+[.)])(?: |$))")
"""Parts that are never divided: code, links, and a space before a word that would start a list."""
_GLUE = "\x00"


def wrap(text: str) -> str:
    """Return a page with its paragraphs and lists wrapped."""
    if text.startswith("---\n"):  # the page begins with YAML
        head, end, body = text[4:].partition("\n---\n")
        return f"---\n{head}{end}{wrap(body)}"
    wrapped = "\n".join(line for block in _blocks(text.split("\n")) for line in block)
    return text if wrapped == text else wrap(wrapped)


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Yield the wrapped lines of each paragraph or item, and all other lines unchanged."""
    is_code = False
    paragraph: list[str] = []
    for line in lines:
        is_fence = _FENCE.match(line) is not None
        is_fixed = is_code or is_fence or _FIXED.match(line) is not None or line.startswith("    ")
        continues = (
            bool(paragraph) and not is_fence and not _ITEM.match(line) and line.strip() and not is_code
        )
        if continues and (not is_fixed or line.startswith("    ")):
            paragraph.append(line)
            continue
        if paragraph:
            yield _wrap_paragraph(paragraph)
        paragraph = [] if is_fixed and not (_ITEM.match(line) and not is_code) else [line]
        if not paragraph:
            yield [line]
        is_code ^= is_fence
    if paragraph:
        yield _wrap_paragraph(paragraph)


def _wrap_paragraph(lines: list[str]) -> list[str]:
    item = _ITEM.match(lines[0])
    first = item[0] if item else re.match(r"\s*", lines[0])[0]  # type: ignore[index]
    words = " ".join(line.strip() for line in [lines[0][len(first) :], *lines[1:]])
    words = _WHOLE.sub(lambda match: match[0].replace(" ", _GLUE), words)
    wrapped = textwrap.wrap(
        words,
        COLUMNS,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_GLUE, " ") for line in wrapped]


def main() -> None:
    """Wrap all pages. With `--check`, change nothing and exit with code 1 if a page would change."""
    pages = [*Path().glob("*.md"), *(page for folder in FOLDERS for page in Path(folder).rglob("*.md"))]
    unwrapped = []
    for path in sorted(pages):
        text = path.read_text(encoding="utf-8")
        if wrap(text) != text:
            unwrapped.append(str(path))
            if "--check" not in sys.argv:
                path.write_text(wrap(text), encoding="utf-8")
    if unwrapped and "--check" in sys.argv:
        sys.exit(
            f"not wrapped at {COLUMNS} columns: {', '.join(unwrapped)}; run: python tools/wrap_markdown.py"
        )


if __name__ == "__main__":
    main()
