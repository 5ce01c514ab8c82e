"""Lay out the documentation site's sources: `python tools/docs_tree.py [FOLDER]`, before the site is built.

The pages of docs/ are read in two places: in the repository, where a link leads to a file, and on the site,
which knows only its own pages. The tree that Zensical builds is a copy: docs/, pages that lie elsewhere
(PAGES), a list of the decisions, and the command line's reference, made from the commands themselves. Links
are changed to where their target is now; a link to a file that is no page keeps its words alone. A link to
nothing stays as it is, for the build to refuse.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

from cli_reference import cli_reference

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "docs"

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "readme.md",
    "benchmarks/README.md": "benchmarks/how.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
}
"""Files of the repository that are pages of the site."""

FOLDERS = {"docs/adr": "decisions.md", "docs": "index.md", "benchmarks": "benchmarks/how.md"}
"""What stands for a folder that is linked to."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
# Inline code comes first, so that a link shown as code is none.
_LINK = re.compile(
    r"(?P<code>(?P<ticks>`+)[^`].*?(?P=ticks))|!?\[(?P<words>[^\]\[]*)\]\((?P<target>[^()\s]+)\)"
)
_FUNCTION = re.compile(r"`(?P<module>(?:guard_eval|judge|analysis|annotation_app)[\w.]*)\.(?P<name>\w+)`")
_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>\w+)`")
_ELSEWHERE = re.compile(r"^([a-z][a-z0-9+.-]*:|#|/)", re.IGNORECASE)


def place(path: str, root: Path = ROOT) -> str | None:
    """Return where a file or folder of the repository stands in the tree; None if it is no page."""
    if path in FOLDERS:
        return FOLDERS[path]
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and (root / path).is_file():
        return path.removeprefix("docs/")
    return None


def turned(text: str, source: str, root: Path = ROOT) -> str:
    """Return a page's text with its links as they are in the tree; `source` is its path in the repository."""
    here = place(source, root)
    assert here is not None

    def turn(match: re.Match[str]) -> str:
        if match["code"] or _ELSEWHERE.match(match["target"]):
            return match[0]
        target, mark, anchor = match["target"].partition("#")
        path = os.path.normpath(PurePosixPath(source).parent / target)
        there = place(path, root)
        if there is not None:
            relative = os.path.relpath(there, PurePosixPath(here).parent)
            return match[0].replace(f"]({match['target']})", f"]({relative}{mark}{anchor})")
        return match["words"] if (root / path).exists() else match[0]

    lines, fence = [], ""
    for line in text.splitlines(keepends=True):
        opening = _FENCE.match(line)
        if fence:
            fence = "" if opening and line.strip() == opening[1] and opening[1].startswith(fence) else fence
            lines.append(line)
        elif opening:
            fence = opening[1]
            lines.append(line)
        else:
            lines.append(_LINK.sub(turn, line))
    return "".join(lines)


def indexed(text: str, root: Path = ROOT) -> str:
    """Return the paper's index with short names: a function leads to the reference, a test tells its file."""
    pages = (page.read_text(encoding="utf-8") for page in (root / "docs" / "reference").glob("*.md"))
    documented = {module for page in pages for module in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}

    def function(match: re.Match[str]) -> str:
        if match["module"] in documented:
            return f"[`{match['name']}`][{match['module']}.{match['name']}]"
        return f'<code title="{match["module"]}">{match["name"]}</code>'

    def test(match: re.Match[str]) -> str:
        return f'<code title="{match["file"]}">{match["name"].replace("_", "_<wbr>")}</code>'

    return _TEST.sub(test, _FUNCTION.sub(function, text))


def decisions(folder: Path) -> str:
    """Return the page that lists the decisions under `folder`, by their headings."""
    lines = [
        f"- [{page.read_text(encoding='utf-8').partition(chr(10))[0].removeprefix('# ')}](adr/{page.name})"
        for page in sorted(folder.glob("[0-9]*.md"))
    ]
    # A heading that begins with a number and a full stop would be a list within the list.
    lines = [re.sub(r"^- \[(\d+)\. ", r"- [\1: ", line) for line in lines]
    return "# Decisions\n\nWhy things are as they are, one page each.\n\n" + "\n".join(lines) + "\n"


def lay_out(tree: Path = TREE, root: Path = ROOT) -> list[str]:
    """Make the tree from the start and return its pages' paths."""
    shutil.rmtree(tree, ignore_errors=True)
    sources = [
        path.relative_to(root).as_posix() for path in sorted((root / "docs").rglob("*")) if path.is_file()
    ]
    for source in [*sources, *PAGES]:
        target = tree / str(place(source, root))
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".md"):
            text = turned((root / source).read_text(encoding="utf-8"), source, root)
            text = indexed(text, root) if source == "docs/paper_index.md" else text
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(root / source, target)
    (tree / "decisions.md").write_text(decisions(root / "docs" / "adr"), encoding="utf-8")
    (tree / "reference" / "cli.md").write_text(cli_reference(), encoding="utf-8")
    return sorted(page.relative_to(tree).as_posix() for page in tree.rglob("*.md"))


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else TREE
    print(f"{len(lay_out(folder))} pages in {folder}")
