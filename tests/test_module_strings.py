"""No string stands for an import that goes upwards: modules are loaded by name in a few tables alone."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("guard_eval", "annotation_app", "judge", "analysis")
ABOVE = {"guard_eval": PACKAGES[1:]} | {
    package: tuple(other for other in PACKAGES[1:] if other != package) for package in PACKAGES[1:]
}
"""The packages that a package does not know."""

COMMANDS = "guard_eval/cli/commands.py"
LOADERS = {
    COMMANDS: "the table of commands",
    "guard_eval/generation/command.py": "the table of engines",
    "guard_eval/files/opening.py": "an optional library",
    "guard_eval/files/rows.py": "an optional library",
    "guard_eval/metrics/measurement.py": "the table of metrics, whose models are heavy",
    "guard_eval/__init__.py": "the package's own names, loaded when they are used",
    "analysis/__init__.py": "the package's own names, loaded when they are used",
    "analysis/reports/results.py": "the table of analyses",
}
"""Files that may load a module by its name, each with the reason."""

LOADING = {"resolve_name", "import_module", "__import__", "run_module", "run_path"}
MODULE = re.compile(r"({})(?:\.[a-z_]\w*)+(?::\w+)?".format("|".join(PACKAGES)))


def find_modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def find_loads(tree):
    """Yield the functions that load modules by name, as a module calls or passes them."""
    for node in ast.walk(tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in LOADING:
            yield name


def is_ours(name):
    """Return whether a name is a module of this project, or something in one."""
    path = ROOT / name.partition(":")[0].replace(".", "/")
    return path.is_dir() or any(candidate.with_suffix(".py").exists() for candidate in (path, path.parent))


def find_upward(package, text):
    """Yield the modules in a text that stand above a package."""
    for match in MODULE.finditer(text):
        if match[1] in ABOVE[package] and is_ours(match[0]):
            yield match[0]


def find_strings(tree):
    """Yield the strings of a module that are no docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_only_tables_load_modules_by_name():
    paths = {path for path, tree in find_modules() if any(find_loads(tree))}
    assert paths <= set(LOADERS)
    assert COMMANDS in paths


def test_no_string_names_a_module_of_a_package_above():
    upward = {
        (path, name)
        for path, tree in find_modules()
        if path != COMMANDS
        for text in find_strings(tree)
        for name in find_upward(path.partition("/")[0], text)
    }
    assert upward == set()


@pytest.mark.parametrize(
    ("package", "text", "expected"),
    [
        ("guard_eval", "analysis.reports.command:report", True),
        ("guard_eval", "analysis.verdicts.checks", True),
        ("analysis", "judge.preview:Preview", True),
        ("judge", "annotation_app.server", True),
        ("judge", "guard_eval.servers.client", False),
        ("guard_eval", "the table analysis.assisted_by of study.toml", False),
        ("guard_eval", "judge[1].concurrency", False),
    ],
)
def test_search_for_module_names_finds_only_modules(package, text, expected):
    assert bool(list(find_upward(package, text))) == expected
