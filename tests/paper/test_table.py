"""The table of claims that `--claims` prints, for made-up claims."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = '''
import pytest

def test_first_claim(claim):
    """it “is” so (tab:x)"""
    claim.holds("1.5 found " * 20, "a detail", source="a table")

def test_another_outcome(claim):
    """it is not (tab:y)"""
    claim.holds("2.5", source="a table")

def test_unfounded(claim):
    """it is not (tab:y)"""
    claim.fails("2.5", source="a table")

def test_no_data(claim):
    """that (tab:z)"""
    pytest.skip("no file")
'''
ERRATA = """# Checked
### An entry
- **So:** not 2.5. `tests/paper/test_made_up.py::test_another_outcome`
### Another
- **So:** 3.5. `tests/paper/test_made_up.py::test_unfounded`
## What holds
| it is so: 1.5 | `tests/paper/test_made_up.py::test_first_claim` |
"""


@pytest.mark.slow
def test_the_table_of_claims(tmp_path):
    folder = tmp_path / "tests" / "paper"
    folder.mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "errata.md").write_text(ERRATA, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (folder / "test_made_up.py").write_text(TESTS, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/paper",
        "--claims",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    table = ran.stdout[ran.stdout.index("first-claim: holds\n") :]
    assert all(len(line) <= 100 for line in table.partition("4 claim(s)")[0].splitlines())
    assert "  paper it “is” so (tab:x)\n  found 1.5 found 1.5" in table
    assert "        a detail\n  from  a table\n" in table
    assert "another-outcome: holds  — NOT what docs/errata.md records\n" in table
    assert "unfounded: does not hold  — NOT what docs/errata.md records\n" in table
    assert "no-data: skipped\n  why   no file\n" in table
    assert (
        "4 claim(s): 2 hold, 1 do not hold, 1 skipped. Not as recorded in docs/errata.md: another-outcome, "
        in table
    )
    chosen = subprocess.run(
        [*command, "-k", "first-claim"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "1 claim(s): 1 hold. All that ran found what docs/errata.md records." in chosen.stdout
