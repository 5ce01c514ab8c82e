"""No module is taken from the folder in which a command is run."""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import run_process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRACE = "from os import path\nopen(path.join(path.dirname(__file__), 'taken'), 'w')\nraise SystemExit\n"
MODULE = [sys.executable, "-m", "guard_eval"]
SCRIPT = [sys.executable, "-c", "import sys; sys.path.pop(0); from guard_eval.__main__ import main; main()"]
"""What the installed script does, whose own folder, not the current one, comes first."""


@pytest.fixture
def folder(tmp_path):
    """Make a folder whose modules leave a trace."""
    for name in ("judge", "random", "pathlib", "dataclasses", "cyclopts"):
        (tmp_path / f"{name}.py").write_text(TRACE)
    for name in ("analysis", "annotation_app", "numpy", "torch", "sqlalchemy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(TRACE)
    return tmp_path


def remove_what_starting_takes(folder):
    """Delete the modules that Python and an editable install import before any code of ours runs."""
    for name in ("random", "pathlib", "dataclasses"):
        (folder / f"{name}.py").unlink()


def outcome(command, folder, **more):
    ran = run_process([*command, "replicate", "form"], folder, **more)  # imports nearly everything
    return ran.code, [path.name for path in folder.rglob("taken")], ran.err


@pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])
def test_commands_import_nothing_from_the_current_folder(command, folder):
    """Not even where the search path lists it: an empty entry, as a stray colon leaves it, is this folder."""
    assert outcome(command, folder, PYTHONPATH=str(ROOT)) == (0, [], "")
    remove_what_starting_takes(folder)
    path = os.pathsep.join(("", ".", str(folder), str(ROOT)))
    assert outcome(command, folder, PYTHONPATH=path) == (0, [], "")


def test_child_processes_import_nothing_from_the_current_folder(folder):
    code = (
        "from guard_eval.cli.start import remove_current_folder_from_path\n"
        "remove_current_folder_from_path()\n"
        "import subprocess, sys\n"
        "sys.exit(subprocess.run([sys.executable, '-c', 'import random, torch']).returncode)"
    )
    path = os.pathsep.join(("", str(ROOT)))
    remove_what_starting_takes(folder)
    ran = run_process([sys.executable, "-P", "-c", code], folder, PYTHONPATH=path)
    assert (ran.code, list(folder.rglob("taken"))) == (0, [])


def test_guard_eval_in_the_current_folder_is_imported():
    ran = run_process([*MODULE, "--version"], ROOT, PYTHONPATH="")
    assert (ran.code, ran.out[:13]) == (0, "guard-eval 0.")


CONFIGURATION = ("matplotlibrc", ".streamlit/config.toml", ".streamlit/secrets.toml", ".env", ".netrc")
"""Files by which somebody's folder could change what libraries do."""
SERVE = (
    "from streamlit import config, file_util; import streamlit as st; from annotation_app import server\n"
    "server.set_streamlit_options()\n"
    "assert config.get_option('theme.base') is None and not st.secrets.load_if_toml_exists()"
)


@pytest.mark.parametrize(
    "command",
    [
        [*MODULE, "power", "--raters", "3", "--output", "plan.svg"],
        [*MODULE, "report", str(ROOT / "docs/quickstart/verdicts.csv"), "--paper"],
        [sys.executable, "-P", "-c", "from guard_eval.metrics.command import measure"],
        [sys.executable, "-P", "-c", SERVE],
    ],
    ids=["power", "report", "measure", "annotate"],
)
def test_libraries_ignore_settings_of_current_folder(command, tmp_path):
    """Whoever opens one of these pipes waits for ever."""
    (tmp_path / ".streamlit").mkdir()
    for name in CONFIGURATION:
        os.mkfifo(tmp_path / name)
    ran = run_process(command, tmp_path, timeout=100, PYTHONPATH=str(ROOT), HOME=str(tmp_path / "home"))
    assert ran.code == 0, ran.err


def runtime_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported when code runs, not for its types alone."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module
        yield from runtime_imports(node)


def test_only_drawing_loads_matplotlib():
    """Drawing loads it in a folder of this package, where no `matplotlibrc` of somebody else is."""
    packages = ("guard_eval", "annotation_app", "judge", "analysis")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    loading = {
        path.name
        for path in paths
        for module in runtime_imports(ast.parse(path.read_text(encoding="utf-8")))
        if module.split(".")[0] == "matplotlib"
    }
    assert loading == {"drawing.py"}
