"""What the pages say exists: the files and headings they link to, the commands and options they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from cli_reference import cli_reference, helps, options
from read_files import read_csv

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^ *(`{3,})(\w*)\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))


def slug(heading: str) -> str:
    """Return the anchor that GitHub and Python-Markdown give a heading, where they agree."""
    words = re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower()
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", words))


def anchors(page: Path) -> set[str]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def broken(page: Path) -> list[str]:
    result = []
    for target in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            result.append(target)
    return result


def test_links_have_existing_targets(pages: list[Path]):
    assert {page.relative_to(ROOT).as_posix(): broken(page) for page in pages if broken(page)} == {}


def test_the_example_table_says_that_it_is_simulated():
    rows = read_csv(ROOT / "docs" / "quickstart" / "verdicts.csv")
    assert len(rows) == 320
    assert {(row["rater_kind"], row["method_a"], row["method_b"]) for row in rows} == {
        ("simulated", "guard", "acs(q=1)")
    }
    assert {row["verdict"] for row in rows} == {"guard", "acs(q=1)", "tie"}


def find_commands(text: str) -> list[list[str]]:
    """Return the guard-eval commands in a page's blocks of shell, as words."""
    shells = [block for _, language, block in FENCED.findall(text) if language in {"sh", "console"}]
    blocks = [block.replace("\\\n", " ") for block in shells]
    lines = [line.partition(" #")[0] for block in blocks for line in block.splitlines()]
    commands = [command for line in lines for command in re.split(r"&&|\|", line)]
    return [shlex.split(words) for words in commands if re.match(r"\s*(\S+/)?guard-eval\s", words)]


def mistakes(text: str) -> list[str]:
    valid_options = options()
    result = []
    for words in find_commands(text):
        command = words[1]
        if command.startswith("--"):
            continue
        used = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
        if " ".join(words[1:3]) in valid_options:  # a group of commands, such as raters
            command = " ".join(words[1:3])
        unknown = used - valid_options.get(command, set()) - {"--help"}
        if command not in valid_options or unknown:
            result.append(" ".join(words))
    return result


def test_commands_shown_exist_with_their_options(pages: list[Path]):
    texts = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in pages}
    assert sum(len(find_commands(text)) for text in texts.values()) > 50
    assert {name: mistakes(text) for name, text in texts.items() if mistakes(text)} == {}


def test_the_reference_has_every_command_and_option():
    overview = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert [name for name in helps() if f"`{name.split()[0]}`" not in overview] == []
    page = cli_reference()
    assert list(helps()) == [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert set(helps()) == set(options())
    for name, text in helps().items():
        assert f"Usage: guard-eval {name}" in page
        assert [option for option in options()[name] if option.startswith("-") and option not in text] == []


def test_readme_claims_only_benchmarked_speeds():
    measured = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    text = without_code((ROOT / "README.md").read_text(encoding="utf-8"))
    claims = re.findall(r"[^.\n]*\b(?:faster|slower|of the time|times as)\b[^\n]*", text)
    assert [x for x in re.findall(r"(?<![\w.])\d*\.\d+", " ".join(claims)) if x not in measured] == []


def test_commands_on_pages_use_files_of_a_clone():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for path in re.findall(r"(?<![\w/.])shared/[\w./*-]+", page.read_text(encoding="utf-8")):
            raise AssertionError(f"{page.name} names {path}")
