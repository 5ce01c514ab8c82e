"""Files of studies and tables are opened and written through two modules alone."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOORS = {"guard_eval/files/opening.py", "guard_eval/reporting/writing.py"}
NAMES = {
    *("read_text", "read_bytes", "read_csv", "read_excel", "read_parquet", "read_feather", "load_workbook"),
    *("write_text", "write_bytes", "to_csv", "savefig", "copyfile", "copytree", "unlink", "rmtree"),
}

MODES = {"r", "rb", "rb+", "w", "wb", "a", "ab"}

ALLOWED = {
    "guard_eval/errors.py": {"read_text"},  # of the installed package
    "analysis/replication/paper.py": {"read_csv"},
    "analysis/demo.py": {"read_bytes"},
    "analysis/reports/paper.py": {"read_text"},
    "judge/viewer.py": {"read_text"},
    "annotation_app/server.py": {"read_text"},
    # Bytes that a door has read.
    "analysis/replication/compare.py": {"read_csv"},
    "analysis/reports/study_report.py": {"read_csv"},
    # Not files of a study.
    "guard_eval/cli/frame.py": {"open"},  # the null device
    "guard_eval/cli/start.py": {"open"},  # the null device
    "guard_eval/bundled.py": {"read_text"},  # the program's own files
    "guard_eval/reporting/drawing.py": {"open", "savefig"},  # into memory
    "guard_eval/files/rows.py": {"load_workbook"},  # from memory
    "guard_eval/store/database.py": {"copyfile"},  # into a folder that was just made
    # After a check of the same folder by a door.
    "analysis/publication/publish.py": {"rmtree"},  # a folder that was just made
    "analysis/publication/export.py": {"unlink"},  # beside a table that was just written
    "guard_eval/store/export.py": {"open", "unlink"},
    "guard_eval/store/manage.py": {"unlink"},  # a file that was just written
}
"""Calls outside the doors by file, each with its reason."""


def calls(tree):
    """Yield the names of file functions that a module calls, as `open(…)` or `path.read_text(…)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                yield "open"
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="os"), attr="open" | "fdopen" | "unlink" as name)
            ):
                yield name
            case ast.Call(func=ast.Attribute(attr="open"), args=[ast.Constant(value=str(mode))]) if (
                0 < len(mode) < 4
            ):
                yield "open"
            case ast.Call(func=ast.Attribute(attr=name, value=path)) if name in NAMES:
                if "__file__" not in ast.unparse(path):  # the program's own files, beside their module
                    yield name


def test_only_two_modules_open_files():
    strays = {}
    for package in ("guard_eval", "analysis", "judge", "annotation_app"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if name not in DOORS:
                strays[name] = set(calls(ast.parse(path.read_text(encoding="utf-8"))))
    strays = {name: lines - ALLOWED.get(name, set()) for name, lines in strays.items()}
    assert not {name: lines for name, lines in strays.items() if lines}
