"""A real browser: from the click on the button until the next pair is painted, in Debian's Chromium."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import annotation_page
from annotation_load import percentile, serving
from annotation_server import Moment, cpu_of, descendants
from annotation_study import CRITERIA

CHROMIUM = Path("/usr/bin/chromium")

_WATCH = r"""
() => {
  // All text of the page, that inside components' shadow roots too.
  const words = node => {
    let found = node.nodeType === Node.TEXT_NODE ? node.data : "";
    if (node.shadowRoot) found += words(node.shadowRoot);
    if (node.tagName === "STYLE" || node.tagName === "SCRIPT") return "";
    for (const child of node.childNodes) found += words(child);
    return found;
  };
  const shown = () => new Set([...words(document.body).matchAll(/\bno(\d+)[ab]\b/g)].map(found => found[1]));
  addEventListener("click", event => {
    if (!window.armed) return;
    window.armed = false;
    const [before] = shown();
    const start = event.timeStamp;
    const look = () => {
      const now = shown();
      if (now.size === 1 && !now.has(before)) {
        // This frame is painted next; a message posted now is delivered after that.
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => { window.took = performance.now() - start; };
        port2.postMessage(null);
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, true);
}
"""
"""The last pair must be gone and the next be there, and a frame with it painted."""


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Milliseconds from click to paint, and how many cores other programs kept busy."""

    clicks: int
    median: float
    p95: float
    others: float
    version: str


def clicks(folder: Path, *, count: int) -> Clicks | None:
    """Rate `count` pairs by mouse; None where Chromium or Playwright is missing."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 (an optional program)
    except ImportError:
        return None
    if not CHROMIUM.exists():
        return None
    with serving(folder, raters=1, overlap=4) as (study, server), sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        (token,) = study.tokens.values()
        page.goto(f"{server.url}/?invite={token}")
        annotation_page.browser_enter(page)
        page.evaluate(_WATCH)
        family = descendants(os.getpid())
        start, cpu = Moment.now(), sum(map(cpu_of, family))
        took = [_click(page, number) for number in range(count + 3)][3:]  # the first ones warm up
        end, used = Moment.now(), sum(map(cpu_of, family)) - cpu
        version = browser.version
        browser.close()
    return Clicks(
        clicks=count,
        median=statistics.median(took),
        p95=percentile(took, 0.95),
        others=(end.all - start.all - used) / (end.at - start.at),
        version=version,
    )


def _click(page: Any, number: int) -> float:  # noqa: ANN401 (Playwright may be missing)
    for place, criterion in enumerate(CRITERIA):
        letter = ("A", "tie", "B")[(number + place) % 3]
        annotation_page.browser_choose(page, criterion, letter)
    page.wait_for_timeout(150)
    page.evaluate("() => { window.took = null; window.armed = true; }")
    annotation_page.browser_save(page).click()
    page.wait_for_function("() => window.took !== null")
    took = float(page.evaluate("window.took"))
    page.wait_for_timeout(100)
    return took
