"""The scripts that make the documentation are imported from tools/."""

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
