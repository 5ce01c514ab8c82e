"""Build the documentation's site: `python tools/site_builder.py` (`make docs`). Dead links are errors.

`zensical build --strict` refuses links, anchors and names of the reference that lead nowhere. It accepts an
entry of the navigation without a page, a page without an entry, a missing picture, and a docstring that
griffe cannot read: those are found here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from docs_tree import lay_out

ROOT = Path(__file__).resolve().parents[1]


def listed(nav: object) -> list[str]:
    """Return the pages that zensical.toml's `nav` names, at any depth."""
    if isinstance(nav, str):
        return [nav]
    assert isinstance(nav, dict | list)
    inner = nav.values() if isinstance(nav, dict) else nav
    return [page for entry in inner for page in listed(entry)]


def navigation_faults(pages: list[str], config: Path) -> list[str]:
    """Return where the navigation of `config` and the pages differ, a line each."""
    nav = listed(tomllib.loads(config.read_text(encoding="utf-8"))["project"]["nav"])
    # decisions.md lists the decisions.
    unlisted = {page for page in pages if not page.startswith("adr/")} - set(nav)
    return [
        *(f"{page}: not in the navigation of {config.name}" for page in sorted(unlisted)),
        *(
            f"{config.name}: the navigation names {page}, which does not exist"
            for page in sorted(set(nav) - set(pages))
        ),
    ]


class _Targets(HTMLParser):
    """Collects the files of the same site that a page links to or shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            parts = urlsplit(value or "")
            if name in {"href", "src"} and parts.path and not parts.scheme and not parts.netloc:
                self.found.append(unquote(parts.path))


def dead_targets(site: Path) -> list[str]:
    """Return the links and pictures of the built pages that lead to no file, a line each."""
    dead = []
    for page in sorted(site.rglob("*.html")):
        # Served for any missing address, with addresses from the root.
        if page.name != "404.html":
            targets = _Targets()
            targets.feed(page.read_text(encoding="utf-8"))
            dead += [
                f"{page.relative_to(site)}: {target} does not exist"
                for target in targets.found
                if not (page.parent / target).is_file()
            ]
    return dead


def build(folder: Path) -> list[str]:
    """Build `folder`'s site from its build/docs into its build/site; return what is wrong, a line each."""
    pages = lay_out(folder / "build" / "docs")
    if faults := navigation_faults(pages, folder / "zensical.toml"):
        return faults
    made = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
        check=False,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    printed = re.sub(r"\x1b\[[0-9;]*m", "", made.stdout)
    if made.returncode:
        # Its traceback says only that it stops.
        return [printed.partition("Traceback (most recent call last)")[0].rstrip()]
    unread = [line for line in printed.splitlines() if line.startswith("griffe: ")]
    return unread + dead_targets(folder / "build" / "site")


if __name__ == "__main__":
    if found := build(ROOT):
        sys.exit("\n".join(found))
    print(f"{ROOT / 'build' / 'site' / 'index.html'}")
