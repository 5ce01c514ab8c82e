"""The paper's source, where it is at hand."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tex():
    paper = ROOT.parent / "shared" / "paper"
    if not paper.is_dir():
        pytest.skip(f"{paper} is not here: the paper's source does not lie in the repository")
    return "".join(path.read_text(encoding="utf-8") for path in paper.glob("*.txt"))
