"""Build the documentation's site: `python tools/site_builder.py` (`make docs`). Every warning is an error.

The site has the pages of docs/, the README as its first page, and three generated pages: the help of every
command, the reference of the public functions, and the list of decisions. `zensical build --strict` refuses
dead links, anchors and names in the reference. But it accepts entries of the navigation without a page, pages
without an entry, missing pictures, and docstrings that griffe cannot read. This script finds these faults.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cli_reference import cli_reference

from guard_eval.cli.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]

_REFERENCE = """# Functions

The functions and values for a program or a notebook. `guard_eval` and `analysis` load a name when it is
used.
`guard_eval.cli.commands.load_command("pair")` returns the function of a command.
"""
_OUTSIDE = re.compile(
    r"\[([^\]\[]+)\]\((?:\.\./)*(?:CONTRIBUTING\.md|CITATION\.cff|LICENSE|benchmarks/README\.md)\)"
)
"""A link to a file of the repository that is not a page of the site. Only the link's words are kept."""


def lay_out(docs: Path, root: Path = ROOT) -> None:
    """Copy docs/ and write the generated pages."""
    shutil.rmtree(docs, ignore_errors=True)
    shutil.copytree(root / "docs", docs)
    for page in docs.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        text = text.replace("](../benchmarks/RESULTS.md", "](results.md").replace(
            "](../../README.md", "](../index.md"
        )
        page.write_text(_OUTSIDE.sub(r"\1", text), encoding="utf-8")
    readme = (root / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    pages = {
        "index.md": _OUTSIDE.sub(r"\1", readme),
        "results.md": (root / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8"),
        "commands.md": cli_reference(),
        "functions.md": reference(root),
        "adr/index.md": decisions(root / "docs" / "adr"),
    }
    for name, text in pages.items():
        (docs / name).write_text(text, encoding="utf-8")


def reference(root: Path = ROOT) -> str:
    """Return the page of the public functions. mkdocstrings inserts the docstrings."""
    parts = [_REFERENCE]
    for package in ("guard_eval", "analysis"):
        source = (root / package / "__init__.py").read_text(encoding="utf-8")
        imports = re.findall(r"^    from (\S+) import ([\w, ]+?)(?: as \w+)?$", source, re.MULTILINE)
        names = {f"{module}.{name}" for module, listed in imports for name in listed.split(", ")}
        parts += [f"## {package}\n", *(f"::: {name}\n" for name in sorted(names))]
    parts += ["## Strategies\n", "::: guard_eval.generation.strategies.values\n", "## Commands\n"]
    parts += [f"::: {path.replace(':', '.')}\n" for path in sorted({c.function for c in COMMANDS.values()})]
    return "\n".join(dict.fromkeys(parts))


def decisions(folder: Path) -> str:
    """Return the page that lists the decisions in `folder` by their headings."""
    lines = []
    for page in sorted(folder.glob("[0-9]*.md")):
        heading = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        # A heading that begins with a number and a full stop would start a second list inside the list.
        lines.append(f"- [{heading.replace('. ', ': ', 1)}]({page.name})")
    return "# Decisions\n\nEach page gives one decision and its reasons.\n\n" + "\n".join(lines) + "\n"


def navigation_pages(nav: object) -> list[str]:
    """Return the pages that zensical.toml's `nav` names, at any depth."""
    if isinstance(nav, str):
        return [nav]
    assert isinstance(nav, dict | list)
    inner = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in inner for page in navigation_pages(entry)]


def navigation_faults(docs: Path, config: Path) -> list[str]:
    """Return the differences between the navigation of `config` and the pages, one line each."""
    nav = set(navigation_pages(tomllib.loads(config.read_text(encoding="utf-8"))["project"]["nav"]))
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    unlisted = {page for page in pages - nav if not re.match(r"adr/\d", page)}  # adr/index.md lists those
    return [
        *(f"{page}: not in the navigation of {config.name}" for page in sorted(unlisted)),
        *(
            f"{config.name}: the navigation names {page}, which does not exist"
            for page in sorted(nav - pages)
        ),
    ]


class _Targets(HTMLParser):
    """Collect the files of this site that a page links to or shows."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            parts = urlsplit(value or "")
            if name in {"href", "src"} and parts.path and not parts.scheme and not parts.netloc:
                self.paths.append(unquote(parts.path))


def dead_targets(site: Path) -> list[str]:
    """Return the links and pictures in the built pages whose file is missing, one line each."""
    dead = []
    for page in sorted(site.rglob("*.html")):
        if page.name == "404.html":  # served for any missing address, so its links begin at the root
            continue
        targets = _Targets()
        targets.feed(page.read_text(encoding="utf-8"))
        dead += [
            f"{page.relative_to(site)}: {path} does not exist"
            for path in targets.paths
            if not (page.parent / path).exists()
        ]
    return dead


def build(folder: Path) -> list[str]:
    """Build the site of `folder` from build/docs in this folder. Return all faults, one line each."""
    docs = folder / "build" / "docs"
    if faults := navigation_faults(docs, folder / "zensical.toml"):
        return faults
    zensical = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed = re.sub(r"\x1b\[[0-9;]*m", "", zensical.stdout)
    if zensical.returncode:  # its traceback says only that it stops
        return [printed.partition("Traceback (most recent call last)")[0].rstrip()]
    unreadable = [line for line in printed.splitlines() if line.startswith("griffe: ")]
    return unreadable + dead_targets(folder / "build" / "site")


if __name__ == "__main__":
    lay_out(ROOT / "build" / "docs")
    if faults := build(ROOT):
        sys.exit("\n".join(faults))
    print(f"{ROOT / 'build' / 'site' / 'index.html'}")
