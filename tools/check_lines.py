"""Refuse lines with two thoughts: `python tools/check_lines.py` (part of `make check`).

A conditional expression must not contain another one. Unrelated values must be assigned in two lines:
`a, b = f(x), g(y)` is two thoughts; `a, b = b, a` and `first, second = pair` are one thought each.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOMS = (
    "analysis/replication",
    "annotation_app",
    "guard_eval/cli",
    "guard_eval/metrics",
    "guard_eval/reporting",
    "guard_eval/store",
    "guard_eval/study",
    "guard_eval/texts",
)
"""The folders that must follow this rule."""


def packed_lines(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of every packed statement in `tree`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp):
            inner = [other for other in ast.walk(node) if isinstance(other, ast.IfExp) and other is not node]
            if inner:
                yield node.lineno, "a conditional expression in another one; write if statements"
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            targets = node.targets[0]
            if isinstance(targets, ast.Tuple) and not _is_exchange(targets, node.value):
                yield node.lineno, "unrelated values assigned in one line; write a line for each"


def _is_exchange(targets: ast.Tuple, values: ast.Tuple) -> bool:
    """Return whether the values use the same names as the targets, as in `a, b = b, a + b`."""
    names = {node.id for node in ast.walk(targets) if isinstance(node, ast.Name)}
    used = {node.id for node in ast.walk(values) if isinstance(node, ast.Name)}
    return len(names & used) == len(names)


def main() -> None:
    """Print every packed line. Exit with code 1 if there are any."""
    lines = [
        f"{path}:{line}: {problem}"
        for room in ROOMS
        for path in sorted(Path(room).rglob("*.py"))
        for line, problem in packed_lines(ast.parse(path.read_text(encoding="utf-8")))
    ]
    if lines:
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    main()
