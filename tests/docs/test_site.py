"""The site builds without a warning, and needs no network to be read."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from app_browser import ARGUMENTS, CHROMIUM
from site_builder import build, lay_out

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def folder_of_sources(folder: Path) -> Path:
    for name in ("guard_eval", "judge", "analysis", "annotation_app", "tools"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copyfile(ROOT / "zensical.toml", folder / "zensical.toml")
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, in a folder of its own."""
    pytest.importorskip("zensical", reason="zensical is not installed: pip install '.[docs]'")
    folder = folder_of_sources(tmp_path_factory.mktemp("site"))
    lay_out(folder / "build" / "docs")
    assert build(folder) == []
    return folder / "build" / "site"


def test_site_with_a_missing_page_is_an_error(tmp_path: Path):
    pytest.importorskip("zensical", reason="zensical is not installed: pip install '.[docs]'")
    folder = folder_of_sources(tmp_path)
    docs = folder / "build" / "docs"
    docs.mkdir(parents=True)
    config = (folder / "zensical.toml").read_text(encoding="utf-8")
    nav = re.compile(r"^nav = \[.*?^\]", re.MULTILINE | re.DOTALL)
    (folder / "zensical.toml").write_text(nav.sub('nav = ["a.md", "c.md"]', config), encoding="utf-8")
    for name in ("a.md", "b.md"):
        (docs / name).write_text("# A\n", encoding="utf-8")
    assert build(folder) == [
        "b.md: not in the navigation of zensical.toml",
        "zensical.toml: the navigation names c.md, which does not exist",
    ]
    (docs / "b.md").rename(docs / "c.md")
    for written, message in {
        "[x](missing.md)": "page does not exist",
        "[x](c.md#missing)": "anchor does not exist",
        "::: guard_eval.missing": "guard_eval.missing could not be found",
        "![x](missing.png)": "a.html: missing.png does not exist",
    }.items():
        (docs / "a.md").write_text(f"# A\n\n{written}\n", encoding="utf-8")
        assert message in "\n".join(build(folder))


def test_site_loads_no_external_files(site: Path):
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^\"'> ]*")
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    assert [result for page in pages for result in fetched.findall(page.read_text(encoding="utf-8"))] == []


def test_search_works_without_a_server(site: Path):
    if not CHROMIUM.is_file():
        pytest.skip(f"{CHROMIUM} is missing; run: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = browser.new_page()
        page.goto((site / "index.html").as_uri())
        page.click(".md-search__button")
        playwright.expect(page.get_by_text("Loading search")).not_to_be_visible(timeout=60_000)
        page.keyboard.type("contrastive")
        playwright.expect(page.get_by_text("Strategies").last).to_be_visible(timeout=60_000)
        browser.close()


def test_pictures_exist_and_are_small(site: Path):
    images = sorted((ROOT / "docs" / "images").glob("*.png"))
    assert sum(image.stat().st_size for image in images) <= 1.5 * 2**20
    sources = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    pages = "".join(page.read_text(encoding="utf-8") for page in sources)
    assert [image.name for image in images if f"images/{image.name}" not in pages] == []
    assert all((site / "images" / image.name).is_file() for image in images)
    script = (ROOT / "tools" / "screenshots.py").read_text(encoding="utf-8")
    assert [image.stem for image in images if f'"{image.stem}"' not in script] == []


def test_no_markdown_is_left_in_the_pages(site: Path):
    """A list without a blank line before it, a table that is none, a doctest taken for a quotation."""
    unused = {}
    for page in sorted(site.rglob("*.html")):
        body = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", body, flags=re.DOTALL)
        result = re.findall(
            r"<p>[^<]*\n[-*] .{0,40}|\| ?-{3}.{0,20}|```.{0,20}|&gt;&gt;&gt;.{0,20}|\]\(.{0,20}", text
        )
        if result:
            unused[page.name] = result
    assert unused == {}
