"""The benchmarks' modules, whose folder is no package. No test here looks at times."""

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports one of the benchmarks' modules."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module
