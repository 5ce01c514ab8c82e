"""How fast the annotation app is, and whether anything is lost: real sessions against the real server.

Raters are websocket clients that speak Streamlit's protocol, and one real Chromium; the server is
`guard-eval annotate` on a made study of 150 pairs. README.md says what is measured. It ends with code 1 where
a goal was missed. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import annotation_client
import psutil
from annotation_client import CRITERIA, Log, MadeStudy, Rater, enter, leave
from annotation_server import Load, Server, compare, cpu_of
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


@contextmanager
def serving(folder: Path, **study: Any) -> Iterator[tuple[MadeStudy, Server]]:
    """Make a study, with what `annotation_client.make` takes, and serve it."""
    study_made = annotation_client.make(folder / "study", **study)
    server = Server(study_made.folder, folder / "server.log")
    server.start()
    try:
        yield study_made, server
    finally:
        server.stop()


@dataclass(frozen=True, kw_only=True)
class Round:
    """What raters and server did in one round of a measure of speed.

    Attributes:
        per_second: Ratings acknowledged in a second.
        seconds: From press to the whole next page, each.
        cpu_ms: Milliseconds of CPU of the server's processes for a rating.
        others: How many cores other programs kept busy meanwhile.
        errors: Exceptions shown or logged, connections lost, calm pages, presses without effect, ratings lost
            or doubled.
    """

    per_second: float
    seconds: Sequence[float]
    cpu_ms: float
    others: float
    errors: int

    def format_latency(self, share: float) -> str:
        """Return the milliseconds that `share` of the ratings do not exceed."""
        return f"{1000 * percentile(self.seconds, share):.1f} ms (others {self.others:.2f} cores)"


def speed(folder: Path, options: argparse.Namespace, *, think: float) -> list[Row]:
    """Let raters rate in rounds, `think` seconds a pair (0: without pause); the quietest round counts."""
    rounds: list[Round] = []
    for number in range(options.rounds):
        round_folder = folder / str(number)
        round_folder.mkdir()
        with serving(round_folder, raters=options.raters, overlap=options.overlap) as (study, app):
            seconds = options.seconds if think else options.seconds / 3
            rounds.append(asyncio.run(_round(study, app, think=think, seconds=seconds)))
    best = min(rounds, key=lambda result: result.others)
    errors = sum(result.errors for result in rounds)
    rows = [
        ("CPU of the server for a rating", f"{best.cpu_ms:.1f} ms", "≤ 8 ms", best.cpu_ms <= 8),
        ("errors, all rounds", str(errors), "0", not errors),
    ]
    if not think:
        return [("ratings a second", f"{best.per_second:.0f}", "≥ 110", best.per_second >= 110), *rows]
    median, p95 = (1000 * percentile(best.seconds, share) for share in (0.5, 0.95))
    return [
        ("submit → next pair, median", best.format_latency(0.5), "≤ 25 ms", median <= 25),
        ("95 %", best.format_latency(0.95), "≤ 80 ms", p95 <= 80),
        *rows,
    ]


async def _round(study: MadeStudy, server: Server, *, think: float, seconds: float) -> Round:
    log = Log()
    people = [Rater(study, name, server.url, log) for name in study.tokens]
    await enter(people)
    # Everybody's first pair warms the server up; the clock starts after it.
    await asyncio.gather(*(person.rate() for person in people))
    before, log.seconds = log.ratings, []
    gc.collect()
    gc.freeze()
    load, cpu = Load(), server.cpu()
    until = time.perf_counter() + seconds
    await asyncio.gather(*(person.work(until, think=think) for person in people))
    elapsed, used = load.seconds, server.cpu() - cpu
    others = load.others(used)
    await leave(people)
    ratings = log.ratings - before
    return Round(
        per_second=ratings / elapsed,
        seconds=log.seconds,
        cpu_ms=1000 * used / ratings,
        others=others,
        errors=log.counts.total() + server.tracebacks() + compare(study, log).wrong,
    )


def memory(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Weigh the server with nobody, with some sessions, and with more, each of which has rated twice."""
    few, more = options.sessions, 3 * options.sessions

    async def weigh(study: MadeStudy, server: Server) -> tuple[list[float], int]:
        log, result = Log(), [server.memory()]
        people = [Rater(study, name, server.url, log) for name in study.tokens]
        for comers in (people[:few], people[few:]):
            await enter(comers)
            for person in 2 * comers:
                await person.rate()
            await asyncio.sleep(1)
            result.append(server.memory())
        await leave(people)
        return result, log.counts.total() + server.tracebacks()

    with serving(folder, raters=few + more, overlap=4) as (study, server):
        result, errors = asyncio.run(weigh(study, server))
    megabytes_each, what = (result[2] - result[1]) / more, f"with nobody, {few} and {few + more} sessions"
    return [
        (what, ", ".join(f"{megabytes:.0f}" for megabytes in result) + " MB", "", True),
        ("a session adds", f"{megabytes_each:.2f} MB", "≤ 0.2 MB", megabytes_each <= 0.2),
        ("errors", str(errors), "0", not errors),
    ]


SLOW = {"offline": False, "latency": 50, "downloadThroughput": 100_000, "uploadThroughput": 100_000}
"""A slow line: 100 kB/s and 50 ms."""


def first(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Open the link in a browser that was never here, over a slow line; count bytes and seconds."""
    from playwright.sync_api import sync_playwright

    result = []
    with serving(folder, raters=1, overlap=4) as (study, server), sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        (token,) = study.tokens.values()
        for _ in range(options.rounds):
            context = chromium.new_context(viewport={"width": 1280, "height": 900})
            page, sizes = context.new_page(), []
            page.set_default_timeout(120_000)
            session = context.new_cdp_session(page)
            session.on("Network.loadingFinished", lambda sent, to=sizes: to.append(sent["encodedDataLength"]))
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", SLOW)
            start = time.perf_counter()
            page.goto(f"{server.url}/?invite={token}", wait_until="commit")
            page.get_by_role("button", name=re.compile("^(Start|Continue)")).wait_for()
            seconds_to_first = time.perf_counter() - start
            page.wait_for_timeout(6000)
            result.append((seconds_to_first, sum(sizes) / 1e6, len(sizes)))
            context.close()
        chromium.close()
    seconds, size = (statistics.median(load[index] for load in result) for index in (0, 1))
    return [
        ("from the link to the instructions", f"{seconds:.1f} s", "≤ 12 s", seconds <= 12),
        (
            "loaded by then and in the next 6 s",
            f"{size:.2f} MB in {result[0][2]} files",
            "≤ 1.5 MB",
            size <= 1.5,
        ),
    ]


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
    const [before] = format_latency();
    const start = event.timeStamp;
    const look = () => {
      const now = format_latency();
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
"""The last pair must have left and the next be shown, and a frame with it painted."""


def browser(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Rate by mouse in Chromium: milliseconds from the click until the next pair is painted."""
    from playwright.sync_api import sync_playwright

    with serving(folder, raters=1, overlap=4) as (study, server), sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        (token,) = study.tokens.values()
        page.goto(f"{server.url}/?invite={token}")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("button", name="Save and continue").wait_for()
        page.evaluate(_WATCH)
        family = psutil.Process().children(recursive=True)
        load, cpu = Load(), sum(map(cpu_of, family))
        took = [_click(page, number) for number in range(options.clicks + 3)][3:]  # the first ones warm up
        others = load.others(sum(map(cpu_of, family)) - cpu)
        chromium.close()
    median = statistics.median(took)
    result = f"{median:.0f} ms; 95 % {percentile(took, 0.95):.0f} (others {others:.2f} cores)"
    return [("click → next pair painted, median", result, "≤ 60 ms", median <= 60)]


def _click(page: Any, number: int) -> float:
    for index, criterion in enumerate(CRITERIA):
        chosen = ("A is better", "Similar", "B is better")[(number + index) % 3]
        group = page.get_by_role("radiogroup", name=criterion.title())
        group.get_by_role("radio", name=chosen).click()
    page.wait_for_timeout(150)
    page.evaluate("() => { window.took = null; window.armed = true; }")
    page.get_by_role("button", name="Save and continue").click()
    page.wait_for_function("() => window.took !== null")
    took = float(page.evaluate("window.took"))
    page.wait_for_timeout(100)
    return took


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser(__doc__)
    option = command.add_argument
    option("--only", nargs="+", choices=TITLES, default=list(TITLES), help="which measures")
    option("--raters", type=int, default=50, help="at once")
    option("--overlap", type=int, default=24, help="raters of a pair")
    option("--think", type=float, default=5.0, help="seconds a rater thinks, on average")
    option("--seconds", type=float, default=60.0, help="of raters who think; without pause it is a third")
    option("--rounds", type=int, default=3, help="of the measures of speed")
    option("--sessions", type=int, default=50, help="that memory is weighed at; then thrice as many more")
    option("--clicks", type=int, default=40, help="in Chromium")
    option("--output", type=Path, help="write the Markdown here, too, again after each measure")
    options = command.parse_args(arguments)
    if options.quick:
        options.raters, options.think, options.seconds, options.rounds = 4, 0.5, 3.0, 1
        options.sessions, options.clicks, options.overlap = 2, 3, 2
    counts = ("raters", "overlap", "rounds", "sessions", "clicks", "seconds", "think")
    if min(getattr(options, name) for name in counts) <= 0:
        command.error(f"{', '.join(counts)} must be above 0")
    if options.raters < options.overlap:
        command.error("there must be at least as many raters as each pair has (overlap)")
    if not {"browser", "first"}.isdisjoint(options.only) and not CHROMIUM.exists():
        command.error(
            "chromium is not installed; run: apt-get install chromium, or choose other measures with --only"
        )
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the measures; return the exit code: 1 where a goal was missed."""
    options = parse_options(arguments)
    measures: dict[str, Measure] = {
        "thinking": partial(speed, think=options.think),
        "rush": partial(speed, think=0),
        "memory": memory,
        "first": first,
        "browser": browser,
    }
    return run_measures(TITLES, measures, options)


if __name__ == "__main__":
    sys.exit(main())
