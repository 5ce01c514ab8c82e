"""Measure the annotation app's speed, and count lost ratings: real sessions against the real server.

Raters are websocket clients that speak Streamlit's protocol, and one real Chromium. The server is
`guard-eval annotate` with a generated study of 150 pairs. README.md explains the measures. The exit code is 1
if a goal was missed. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from annotation_client import CRITERIA, MadeStudy, Rater, Server, enter, leave, serve
from common import Measure, Row, parser, percentile, run_measures

TITLES = {
    "thinking": "Raters who think",
    "rush": "Raters without pause",
    "memory": "Memory",
    "first": "First visit at 100 kB/s",
    "browser": "Chromium",
}
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of the measures.

    Attributes:
        raters: Number of raters at the same time.
        overlap: Number of raters of each pair.
        think: Mean time that a rater thinks, in seconds.
        seconds: Length of a round with pauses, in seconds. A round without pauses takes a third of this time.
        sessions: Number of sessions for the first measure of memory; then three times as many are added.
        clicks: Number of ratings in Chromium.
    """

    raters: int = 50
    overlap: int = 24
    think: float = 5.0
    seconds: float = 60.0
    sessions: int = 50
    clicks: int = 40


QUICK = Size(raters=4, overlap=2, think=0.5, seconds=3.0, sessions=2, clicks=3)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of a measure of speed.

    Attributes:
        per_second: Number of acknowledged ratings per second.
        median: Median time from the press to the complete next page, in milliseconds.
        p95: 95th percentile of this time, in milliseconds.
        cpu: CPU time of the server per rating, in milliseconds.
        errors: Number of logged exceptions and of wrong ratings.
    """

    per_second: float
    median: float
    p95: float
    cpu: float
    errors: int


def measure_speed(folder: Path, options: argparse.Namespace, *, is_rush: bool) -> list[Row]:
    """Let raters rate in rounds, with or without pauses to think. The median of the rounds counts."""
    size: Size = options.size
    think = 0.0 if is_rush else size.think
    seconds = size.seconds / 3 if is_rush else size.seconds
    rounds: list[Round] = []
    for number in range(options.rounds):
        round_folder = folder / str(number)
        round_folder.mkdir()
        with serve(round_folder, raters=size.raters, overlap=size.overlap) as (study, server):
            rounds.append(asyncio.run(_rate(study, server, think=think, seconds=seconds)))
    cpu = median(result.cpu for result in rounds)
    errors = sum(result.errors for result in rounds)
    rows = [
        ("CPU of the server for a rating", f"{cpu:.1f} ms", "≤ 8 ms", cpu <= 8),
        ("errors, all rounds", str(errors), "0", not errors),
    ]
    if is_rush:
        per_second = median(result.per_second for result in rounds)
        return [("ratings a second", f"{per_second:.0f}", "≥ 110", per_second >= 110), *rows]
    middle = median(result.median for result in rounds)
    p95 = median(result.p95 for result in rounds)
    return [
        ("submit → next pair, median", f"{middle:.1f} ms", "≤ 25 ms", middle <= 25),
        ("95 %", f"{p95:.1f} ms", "≤ 80 ms", p95 <= 80),
        *rows,
    ]


async def _rate(study: MadeStudy, server: Server, *, think: float, seconds: float) -> Round:
    people = [Rater(study, name, server.url) for name in study.tokens]
    await enter(people)
    # the first pair of each rater warms the server up; the clock starts after these pairs
    await asyncio.gather(*(person.rate() for person in people))
    gc.collect()
    gc.freeze()
    cpu = server.cpu()
    start = time.perf_counter()
    await asyncio.gather(*(person.work(start + seconds, think=think) for person in people))
    elapsed = time.perf_counter() - start
    cpu = server.cpu() - cpu
    await leave(people)
    milliseconds = [1000 * seconds for person in people for seconds in person.seconds[1:]]
    ratings = [rating for person in people for rating in person.ratings]
    return Round(
        per_second=len(milliseconds) / elapsed,
        median=percentile(milliseconds, 0.5),
        p95=percentile(milliseconds, 0.95),
        cpu=1000 * cpu / len(milliseconds),
        errors=server.count_defects() + study.count_wrong(ratings),
    )


def measure_memory(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Measure the server's memory without sessions, with some, and with more. Each session rates twice."""
    few = options.size.sessions
    more = 3 * few

    async def weigh(study: MadeStudy, server: Server) -> list[float]:
        megabytes = [server.memory()]
        people = [Rater(study, name, server.url) for name in study.tokens]
        for comers in (people[:few], people[few:]):
            await enter(comers)
            for person in 2 * comers:
                await person.rate()
            await asyncio.sleep(1)
            megabytes.append(server.memory())
        await leave(people)
        return megabytes

    with serve(folder, raters=few + more, overlap=4) as (study, server):
        megabytes = asyncio.run(weigh(study, server))
        errors = server.count_defects()
    weights = [f"{megabyte:.0f}" for megabyte in megabytes]
    added = (megabytes[2] - megabytes[1]) / more
    return [
        (f"with nobody, {few} and {few + more} sessions", f"{', '.join(weights)} MB", "", True),
        ("a session adds", f"{added:.2f} MB", "≤ 0.2 MB", added <= 0.2),
        ("errors", str(errors), "0", not errors),
    ]


SLOW = {"offline": False, "latency": 50, "downloadThroughput": 100_000, "uploadThroughput": 100_000}
"""A slow line: 100 kB/s and 50 ms."""


def measure_first_visit(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Open the link in a new browser over a slow line, and count bytes and seconds."""
    from playwright.sync_api import sync_playwright

    seconds = []
    megabytes = []
    with serve(folder, raters=1, overlap=4) as (study, server), sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for _ in range(options.rounds):
            page = chromium.new_page()
            page.set_default_timeout(120_000)
            sizes: list[int] = []
            session = page.context.new_cdp_session(page)
            session.on("Network.loadingFinished", lambda sent, to=sizes: to.append(sent["encodedDataLength"]))
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", SLOW)
            start = time.perf_counter()
            page.goto(f"{server.url}/?invite={study.tokens['rater-000']}", wait_until="commit")
            page.get_by_role("button", name=re.compile("^(Start|Continue)")).wait_for()
            seconds.append(time.perf_counter() - start)
            page.wait_for_timeout(6000)
            megabytes.append(sum(sizes) / 1e6)
            page.close()
        chromium.close()
    return [
        _compare_median("from the link to the instructions", seconds, "s", 12),
        _compare_median("loaded by then and in the next 6 s", megabytes, "MB", 1.5),
    ]


def _compare_median(what: str, values: Sequence[float], unit: str, limit: float) -> Row:
    middle = median(values)
    return what, f"{middle:.2f} {unit}", f"≤ {limit} {unit}", middle <= limit


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
"""Waits until the next pair has replaced the last pair and the browser has painted the page."""


def measure_browser(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Rate by mouse in Chromium, and measure the time from the click until the next pair is painted."""
    from playwright.sync_api import sync_playwright

    with serve(folder, raters=1, overlap=4) as (study, server), sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{server.url}/?invite={study.tokens['rater-000']}")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("button", name="Save and continue").wait_for()
        page.evaluate(_WATCH)
        # the first ones warm up
        milliseconds = [_click(page, number) for number in range(options.size.clicks + 3)][3:]
        chromium.close()
    return [_compare_median("click → next pair painted, median", milliseconds, "ms", 60)]


def _click(page: Any, number: int) -> float:
    for index, criterion in enumerate(CRITERIA):
        chosen = ("A is better", "Similar", "B is better")[(number + index) % 3]
        group = page.get_by_role("radiogroup", name=criterion.title())
        group.get_by_role("radio", name=chosen).click()
    page.wait_for_timeout(150)
    page.evaluate("() => { window.took = null; window.armed = true; }")
    page.get_by_role("button", name="Save and continue").click()
    page.wait_for_function("() => window.took !== null")
    return float(page.evaluate("window.took"))


MEASURES: dict[str, Measure] = {
    "thinking": partial(measure_speed, is_rush=False),
    "rush": partial(measure_speed, is_rush=True),
    "memory": measure_memory,
    "first": measure_first_visit,
    "browser": measure_browser,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the measures, and return the exit code: 1 if a goal was missed."""
    command = parser(__doc__)
    option = command.add_argument
    option("--only", nargs="+", choices=TITLES, default=list(TITLES), help="which measures")
    option("--rounds", type=int, default=3, help="of the measures of speed, and visits on a slow line")
    option("--output", type=Path, help="write the Markdown here, too, again after each measure")
    options = command.parse_args(arguments)
    options.size = QUICK if options.quick else Size()
    if options.rounds < 1:
        command.error("--rounds must be above 0")
    if not {"browser", "first"}.isdisjoint(options.only) and not CHROMIUM.exists():
        command.error(
            "chromium is not installed; run: apt-get install chromium, or choose other measures with --only"
        )
    return run_measures(TITLES, MEASURES, options)


if __name__ == "__main__":
    sys.exit(main())
