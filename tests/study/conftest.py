"""A study's folder, opened with whatever a test changes."""

import pytest
from factories import STUDY_OF_THREE

from guard_eval.study import Study


@pytest.fixture
def study(tmp_path):
    """Return a function that opens a study with these settings changed, and these files beside study.toml."""
    folder = tmp_path / "study"
    folder.mkdir()

    def open_study(*assignments, text=STUDY_OF_THREE, **files):
        (folder / "study.toml").write_text(text, encoding="utf-8")
        for name, content in files.items():
            path = folder / name.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Study.open(folder, assignments)

    return open_study
