"""docs/paper_index.md: every function and every test it names is there, and every label is the paper's."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| (.+?) \| .+? \| `(.+?)` \| `(.+?)::(.+?)` \|$",
    (ROOT / "docs" / "paper_index.md").read_text(),
    re.MULTILINE,
)


def test_the_index_is_read_whole():
    lines = [
        line for line in (ROOT / "docs" / "paper_index.md").read_text().splitlines() if line.startswith("| ")
    ]
    assert len(ROWS) == len(lines) - 1 > 15


@pytest.mark.parametrize(("function", "file", "test"), [row[1:] for row in ROWS])
def test_a_row_points_somewhere(function, file, test):
    module, _, name = function.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))
    assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_the_labels_are_the_papers():
    paper = ROOT.parent / "shared" / "paper"
    if not paper.is_dir():
        pytest.skip(f"{paper} is not here: the paper's source does not lie in the repository")
    tex = "".join(path.read_text(encoding="utf-8") for path in paper.glob("*.txt"))
    for label in {label for row in ROWS for label in re.findall(r"`(.+?)`", row[0])}:
        assert f"\\label{{{label}}}" in tex
