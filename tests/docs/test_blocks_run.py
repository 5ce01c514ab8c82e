"""README and quickstarts run as written: every block of shell and Python that needs nothing from elsewhere.

A block that cannot run here has a comment in the line before it: <!-- not run: REASON -->.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import run_process

ROOT = Path(__file__).parents[2]
RESEARCHER = "docs/quickstart/researcher.md"
PAGES = ("README.md", RESEARCHER, "docs/quickstart/analyst.md", "docs/notebook.md", "docs/judge_bias.md")
ELSEWHERE = {
    "docs/quickstart/owner.md": "its blocks serve a page until they are stopped, and need its raters",
    "docs/quickstart/annotator.md": "it has none",
}
"""Pages whose blocks are not run here, and why."""

BLOCK = re.compile(
    r"^(?P<mark><!-- not run: (?P<reason>[^\n]*?) -->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    reason: str | None


def blocks(text: str) -> list[Block]:
    result = [Block(match["language"], match["code"], match["reason"]) for match in BLOCK.finditer(text)]
    return [block for block in result if block.language in {"sh", "python", "console"}]


def of(page: str) -> list[Block]:
    return blocks((ROOT / page).read_text(encoding="utf-8"))


def commands(block: Block) -> list[str]:
    return [line.split(" #")[0].strip() for line in block.code.splitlines()]


def runs_elsewhere(block: Block, page: str) -> bool:
    """Return whether a page runs each command of a block of shell, to the letter and in the block's order."""
    if block.language != "sh":
        return False
    later = iter([line for block in of(page) if block.reason is None for line in commands(block)])
    return all(command in later for command in commands(block))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder as a fresh clone is, with an environment that is active: guard-eval is found."""
    folder = tmp_path / "guard-eval"
    folder.mkdir()
    for name in ("docs", "guard_eval", "constraints.txt", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)
    program = folder / ".venv" / "bin" / "guard-eval"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nfrom guard_eval.__main__ import main\nmain()\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (program.parent / "python").symlink_to(sys.executable)
    return folder


def test_every_quickstart_is_run_or_says_why_not():
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "quickstart").glob("*.md")}
    assert pages == {page for page in (*PAGES, *ELSEWHERE) if "quickstart" in page}
    result = [block for page in PAGES for block in of(page)]
    assert sum(block.reason is None for block in result) >= 10
    assert all(len(block.reason.split()) > 2 for block in result if block.reason is not None)


def test_one_page_makes_a_study_with_this_name():
    counts = [block.code.count("guard-eval new my-study") for page in PAGES for block in of(page)]
    assert max(counts) == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_in_the_order_of_the_page(page: str, clone: Path):
    path = os.pathsep.join([str(clone / ".venv" / "bin"), os.environ["PATH"]])
    before = {"PATH": path, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    for block in of(page):
        if block.reason is not None or (page == "README.md" and runs_elsewhere(block, RESEARCHER)):
            continue
        program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
        ran = run_process([*program, block.code], clone, **before)
        assert ran.code == 0, (block.code, ran)
        assert "Traceback" not in ran.err
