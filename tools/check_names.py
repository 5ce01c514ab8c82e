"""Refuse names without meaning: `python tools/check_names.py` (part of `make check`).

The name of a function, a class or a variable must tell its meaning: `text`, `score`, `path`, `index`,
`result`. The words below tell nothing. Parameters and fields are checked, too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

EMPTY = {
    *("again", "asked", "each", "found", "given", "kept", "known", "left", "made", "most", "one", "own"),
    *("part", "place", "read", "rest", "several", "shown", "wanted"),
}
FOLDERS = ("guard_eval", "annotation_app", "judge", "analysis", "tests", "tools", "benchmarks", "evidence")


def empty_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of every definition in `tree` with an empty name."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name="read") | ast.AsyncFunctionDef(name="read"):
                continue  # a verb that its module or class completes, such as `raters.read`
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case _:
                continue
        if name in EMPTY:
            yield node.lineno, name


def main() -> None:
    """Print every empty name with its line. Exit with code 1 if there are any."""
    lines = [
        f"{path}:{line}: {name!r} says nothing; name what it is"
        for folder in FOLDERS
        for path in sorted(Path(folder).rglob("*.py"))
        for line, name in empty_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    if lines:
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
