"""Refuse names that say nothing: `python tools/check_names.py` (part of `make check`).

A function, a class or a variable has the name of what it is: `text`, `score`, `path`, `index`, `result`.
The words below name nothing. Parameters and fields count, too.
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
EMPTY_EVERYWHERE = {"again", "found", "given", "made", "one", "place"}
"""The words that are refused in rooms, too, that do not hold to all of them yet."""

PACKAGES = ("guard_eval", "annotation_app", "judge", "analysis")
ROOMS = (
    "analysis",
    *("guard_eval/cli", "guard_eval/demo", "guard_eval/files", "guard_eval/reporting", "guard_eval/study"),
    *(
        "guard_eval/texts",
        "tests/analysis",
        "tests/benchmarks",
        "tests/cli",
        "tests/demo",
        "tests/docs",
        "tests/files",
    ),
    *("tests/replication", "tests/reporting", "tests/stories", "tests/study", "tests/texts", "tests/typing"),
    "tools",
)
"""The rooms that hold to all words so far."""

PUBLIC = {"analysis/verdicts/tidy.py": {"read"}}
"""Names that a user calls after the module's name, such as `analysis.read`."""


def empty_names(tree: ast.AST, words: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of everything that `tree` defines under one of these words."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                pass
            case _:
                continue
        if name in words:
            yield node.lineno, name


def main() -> None:
    """Print every empty name with its line; exit with code 1 if there is one."""
    words = dict.fromkeys((path for room in PACKAGES for path in Path(room).rglob("*.py")), EMPTY_EVERYWHERE)
    words |= dict.fromkeys((path for room in ROOMS for path in Path(room).rglob("*.py")), EMPTY)
    words |= dict.fromkeys(Path("guard_eval").glob("*.py"), EMPTY)
    lines = [
        f"{path}:{line}: {name!r} says nothing; name what it is"
        for path in sorted(words)
        for line, name in empty_names(ast.parse(path.read_text(encoding="utf-8")), words[path])
        if name not in PUBLIC.get(path.as_posix(), ())
    ]
    if lines:
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
