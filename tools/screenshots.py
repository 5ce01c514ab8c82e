"""Make the documentation's pictures: `python tools/screenshots.py [--study DEMO]`.

The demo study is made (73 s), or an existing one is used. A copy of the study is served to Chromium, which
rates like a rater, on a desktop and on a phone. Then the report, the metrics and the progress page are
photographed. Every picture in docs/images/ is written again, with at most 256 colours.
Needs `.[annotate,generate,dev]` and Debian's Chromium.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from guard_eval.store import Store, raters
from guard_eval.study.folder import Study

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
EXAMPLE = ROOT / "docs" / "quickstart" / "verdicts.csv"
CHROMIUM = "/usr/bin/chromium"
GUARD_EVAL = [sys.executable, "-m", "guard_eval"]

DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    "has_touch": True,
    "is_mobile": True,
}
RATERS = ("Ada", "Grace", "Kim")

# All pages before the first pair, and only a few pairs, so that the last page is reached.
_AS_RATED = """
pairs_per_rater = 12
[annotation.pages]
consent = true
background = true
practice = true
check = true
[annotation.recruitment]
codes = { completed = "C1A2B3" }
"""

_RIGHT = ("Similar", "Nothing: each question is judged on its own", "I judge what is there")
_RIGHT_LAST = "I judge it as a part of the text"


# The study.


def guard_eval(*words: str | Path) -> None:
    """Run a command, and discard its output."""
    command = [*GUARD_EVAL, *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 (our own program)


def demo(folder: Path) -> Path:
    """Make the demo study in `folder`, and return it."""
    guard_eval("demo", folder)
    return folder


def as_rated(demo_study: Path, folder: Path) -> Path:
    """Return a copy of the demo study with every page for raters, and without simulated verdicts."""
    folder.mkdir()
    settings = (demo_study / "study.toml").read_text(encoding="utf-8")
    settings = settings.replace("raters_per_pair = 4\n", f"raters_per_pair = 4\n{_AS_RATED}")
    (folder / "study.toml").write_text(settings, encoding="utf-8")
    shutil.copyfile(demo_study / "prompts.jsonl", folder / "prompts.jsonl")
    shutil.copytree(demo_study / "continuations", folder / "continuations")
    guard_eval("pair", folder)
    return folder


def invited(folder: Path) -> dict[str, str]:
    """Invite the raters, and return their tokens."""
    with Store.open(Study.open(folder).database) as store:
        return {name: raters.invite_rater(store, name)[1] for name in RATERS}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve the study as its owner would, and yield the address."""
    command = [*GUARD_EVAL, "annotate", str(folder), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 (our own program)
        assert process.stderr is not None
        result = None
        while result is None:
            line = process.stderr.readline()
            if not line:
                raise SystemExit(f"{' '.join(command)} ended before it served")
            result = re.search(r"Serving on (http://\S+?)/? ", line)
        try:
            yield result[1]
        finally:
            process.terminate()


# Pictures.


def keep(page: Page, name: str, clip: dict[str, float] | None = None) -> None:
    """Write docs/images/NAME.png: the window, or a part of the window, with at most 256 colours."""
    page.mouse.move(0, 0)  # elements under the pointer look different
    data = page.screenshot(clip=clip, animations="disabled", caret="hide")  # type: ignore[arg-type]
    picture = Image.open(io.BytesIO(data)).convert("RGB")
    few = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    IMAGES.mkdir(parents=True, exist_ok=True)
    few.save(IMAGES / f"{name}.png", optimize=True)
    print(f"{name}.png: {few.width} x {few.height}, {(IMAGES / f'{name}.png').stat().st_size / 1024:.0f} KiB")


def fitted(page: Page, name: str) -> None:
    """Write a picture of a page of text: the text with a margin."""
    # Streamlit draws a grey box in place of a question until the question's script has loaded.
    page.wait_for_function("() => !document.querySelector('[data-testid=stSkeleton]')")
    box = page.evaluate(
        "() => { const parts = [...document.querySelectorAll('.st-key-narrow > *')]"
        ".map(part => part.getBoundingClientRect());"
        " return [Math.min(...parts.map(part => part.left)), Math.min(...parts.map(part => part.top)),"
        " Math.max(...parts.map(part => part.right)), Math.max(...parts.map(part => part.bottom))]; }"
    )
    x, y, right, bottom = box
    keep(page, name, {"x": x - 40, "y": y - 24, "width": right - x + 80, "height": bottom - y + 48})


@contextmanager
def window(
    browser: Browser, settings: dict[str, Any], scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """Open a window with a new, empty browser profile."""
    context = browser.new_context(
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
        **settings,
    )
    page = context.new_page()
    try:
        yield page
    finally:
        context.close()


# The steps of a rater.


def press(page: Page, name: str, then: str) -> None:
    """Press a button, and wait until the page with the heading `then` has replaced the page before."""
    page.get_by_role("button", name=name).click()
    page.wait_for_function(
        "then => { const h = [...document.querySelectorAll('h1')];"
        " return h.length === 1 && h[0].innerText.startsWith(then); }",
        arg=then,
    )
    page.wait_for_function("() => !document.querySelector('[data-test-script-state=running]')")


def answer(page: Page, *answers: str) -> None:
    """Choose an answer for each criterion."""
    for group, name in zip(page.get_by_role("radiogroup").all(), answers, strict=True):
        group.get_by_role("radio", name=name).click()


def way_in(page: Page, link: str, *, shots: bool) -> None:
    """Go from the invite link to the first pair, and take a picture of each page."""
    page.goto(link)
    page.get_by_role("heading", name="Before you begin").wait_for()
    if shots:
        fitted(page, "consent")
    press(page, "I agree and take part", "About you")
    if shots:
        fitted(page, "background")
    press(page, "Continue", "Compare two texts")
    if shots:
        fitted(page, "instructions")
    press(page, "Start", "Practice 1 of 2")
    answer(page, "A is better", "A is better")
    if shots:
        keep(page, "practice")
    press(page, "Save and continue", "Our answers")
    page.get_by_role("button", name="Next practice pair").wait_for()
    if shots:
        fitted(page, "practice-answer")
    press(page, "Next practice pair", "Practice 2 of 2")
    answer(page, "Similar", "B is better")
    page.get_by_role("button", name="Save and continue").click()
    page.get_by_role("button", name="Finish practice").wait_for()
    press(page, "Finish practice", "A few short questions")
    if shots:
        fitted(page, "check")
    for question, right in enumerate((*_RIGHT, _RIGHT_LAST)):
        # Click on the words of a radio button, as people do, not on the box beside the words.
        page.get_by_role("radiogroup").nth(question).get_by_text(right, exact=True).click()
    press(page, "Check my answers", "Pair 1 of 12")


def desktop(browser: Browser, link: str) -> None:
    """Rate all pairs on a desktop, up to the page of thanks."""
    with window(browser, DESKTOP) as page:
        way_in(page, link, shots=True)
        keep(page, "pair")
        answer(page, "A is better", "Similar")
        page.get_by_role("button", name="Comment or problem").click()
        page.get_by_label("Comment on this pair").fill("Both texts lose their thread towards the end.")
        keep(page, "comment")
        for number in range(2, 13):
            answer(page, "A is better", "Similar")
            press(page, "Save and continue", f"Pair {number} of 12")
        answer(page, "B is better", "Similar")
        press(page, "Save and continue", "Thank you")
        fitted(page, "done")


def other_windows(browser: Browser, url: str, tokens: dict[str, str]) -> None:
    """Take pictures of the pair on a phone, and in dark mode."""
    with window(browser, PHONE) as page:
        way_in(page, f"{url}/?invite={tokens['Grace']}", shots=False)
        answer(page, "A is better", "Similar")
        keep(page, "pair-phone")
    with window(browser, DESKTOP, "dark") as page:
        way_in(page, f"{url}/?invite={tokens['Kim']}", shots=False)
        answer(page, "Similar", "B is better")
        keep(page, "pair-dark")


def written_pages(browser: Browser, study: Path, scratch: Path) -> None:
    """Take pictures of the example table's report, and of the demo study's metrics."""
    guard_eval("report", EXAMPLE, "--output", scratch / "report")
    with window(browser, DESKTOP) as page:
        page.goto((scratch / "report" / "index.html").as_uri())
        keep(page, "report")
        # The figures behind the answer, and the agreement of raters.
        for anchor in ("shares", "agreement", "sensitivity"):
            page.evaluate(f"document.getElementById('{anchor}').open = true")
        page.set_viewport_size({"width": 1280, "height": 1120})
        page.locator("#shares").evaluate("question => scrollBy(0, question.getBoundingClientRect().y - 24)")
        keep(page, "report-shares")
        page.set_viewport_size(DESKTOP["viewport"])
        page.goto((study / "metrics" / "metrics.html").as_uri())
        keep(page, "metrics")


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--study", type=Path, help="a demo study that is there; else one is made")
    arguments = parser.parse_args()
    with TemporaryDirectory() as name, sync_playwright() as program:
        scratch = Path(name)
        study = arguments.study.resolve() if arguments.study else demo(scratch / "demo-study")
        rated = as_rated(study, scratch / "study")
        tokens = invited(rated)
        browser = program.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        with serving(rated) as url:
            desktop(browser, f"{url}/?invite={tokens['Ada']}")
            other_windows(browser, url, tokens)
        written_pages(browser, study, scratch)
        browser.close()
    total = sum(path.stat().st_size for path in IMAGES.glob("*.png"))
    print(f"{total / 1024:.0f} KiB in {IMAGES}")


if __name__ == "__main__":
    main()
