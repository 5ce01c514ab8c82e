"""The site builds without a warning, and needs no network to be read."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from docs_tree import lay_out
from plain_docstrings import fenced, with_indices

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, in a folder of its own."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    for name in ("guard_eval", "judge", "analysis", "annotation_app", "tools"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copyfile(ROOT / "mkdocs.yml", folder / "mkdocs.yml")
    lay_out(folder / "build" / "docs")
    made = subprocess.run(
        # Not --quiet: warnings that are not printed are not counted either.
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        check=False,
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "build" / "site"


def test_nothing_is_fetched_from_elsewhere(site: Path):
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\"'> ]*")
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    assert [found for page in pages for found in fetched.findall(page.read_text(encoding="utf-8"))] == []


def test_every_picture_is_there_and_they_are_small(site: Path):
    images = sorted((ROOT / "docs" / "images").glob("*.png"))
    assert sum(image.stat().st_size for image in images) <= 1.5 * 2**20
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [image.name for image in images if f"images/{image.name}" not in pages] == []
    assert all((site / "images" / image.name).is_file() for image in images)
    made = (ROOT / "tools" / "screenshots.py").read_text(encoding="utf-8")
    assert [image.stem for image in images if f'"{image.stem}"' not in made] == []


def test_no_markdown_is_left_in_the_pages(site: Path):
    """A list without a blank line before it, a table that is none, a doctest taken for a quotation."""
    left = {}
    for page in sorted(site.rglob("*.html")):
        body = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", body, flags=re.DOTALL)
        found = re.findall(
            r"<p>[^<]*\n[-*] .{0,40}|\| ?-{3}.{0,20}|```.{0,20}|&gt;&gt;&gt;.{0,20}|\]\(.{0,20}", text
        )
        if found:
            left[page.name] = found
    assert left == {}


def test_docstrings_as_markdown():
    assert (
        fenced("Add one.\n\n>>> f(1)\n2\n\nThat is all.")
        == "Add one.\n\n```pycon\n>>> f(1)\n2\n```\n\nThat is all."
    )
    assert fenced("Add one.\n\n>>> f(1)\n2") == "Add one.\n\n```pycon\n>>> f(1)\n2\n```"
    assert with_indices("H(X)_t of x_<t, one_word and `f(x)_t`") == r"H(X)\_t of x\_<t, one_word and `f(x)_t`"
