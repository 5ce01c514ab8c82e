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


def test_every_quickstart_block_runs_or_has_a_reason():
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "quickstart").glob("*.md")}
    assert pages == {page for page in (*PAGES, *ELSEWHERE) if "quickstart" in page}
    result = [block for page in PAGES for block in of(page)]
    assert sum(block.reason is None for block in result) >= 10
    assert all(len(block.reason.split()) > 2 for block in result if block.reason is not None)


def test_each_page_makes_my_study_at_most_once():
    counts = [block.code.count("guard-eval new my-study") for page in PAGES for block in of(page)]
    assert max(counts) == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_run_in_the_order_of_the_page(page: str, clone: Path):
    path = os.pathsep.join([str(clone / ".venv" / "bin"), os.environ["PATH"]])
    before = {"PATH": path, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    parts = [
        block
        for block in of(page)
        if block.reason is None and not (page == "README.md" and runs_elsewhere(block, RESEARCHER))
    ]
    # The blocks of Python go on from each other, as in a notebook.
    python = "\n".join(block.code for block in parts if block.language == "python")
    programs = [["bash", "-euo", "pipefail", "-c", block.code] for block in parts if block.language == "sh"]
    for program in [*programs, [sys.executable, "-c", python]]:
        ran = run_process(program, clone, **before)
        assert ran.code == 0, (program, ran)
        assert "Traceback" not in ran.err


def test_the_tutorial_shows_the_real_output(monkeypatch, tmp_path, capsys):
    """By hand: eight pairs score 2, one -2, three 0. Of 2⁹ patterns 20 have a sum of at least 14 or -14."""
    monkeypatch.chdir(tmp_path)
    python = [block.code for block in of("docs/notebook.md") if block.language == "python"]
    text = (ROOT / "docs" / "notebook.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with pytest.warns(UserWarning, match="ranking has no rows"):
        exec("\n".join(python[2:5]), names)
    printed = text.partition("```text\n")[2].partition("```")[0]
    assert capsys.readouterr().out.replace("\u00a0", " ") == printed
    row = names["shares"](names["verdicts"]).iloc[0]
    assert row["p"] == pytest.approx(20 / 2**9)
    numbers = [f"{row[name]:.2f}".removeprefix("0") for name in ("win_share", "low")]
    assert f"{numbers[0]} from {numbers[1]} to {row['high']:g}, p = .039" in text
