"""The scripts that make the documentation are imported from tools/."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))


@pytest.fixture
def pages() -> list[Path]:
    """Return every page that is read in the repository or on the site."""
    result = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    return sorted(result)


@pytest.fixture(scope="session")
def blocks():
    """Return a function that gives the blocks of code in a language of a page of docs/."""

    def read_blocks(page: str, language: str) -> list[str]:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)

    return read_blocks
