"""How fast the annotation app is, and whether anything is lost: real sessions against the real server.

Raters are websocket clients that speak Streamlit's protocol, and one real Chromium; the server is
`guard-eval annotate` on a made study of 150 pairs. README.md says what is measured. It ends with code 1 where
a goal was missed. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import secrets
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import annotation_client
import annotation_server
import psutil
from annotation_client import CRITERIA, Log, MadeStudy, Rater, Session, enter, leave
from annotation_server import Load, Proxy, Server, compare, cpu_of
from common import Measure, Row, has_postgres, parser, percentile, postgres_server, run_measures

TITLES = {
    "thinking": "Raters who think",
    "rush": "Raters without pause",
    "strangers": "Raters who think, and 20 visitors without an invite who load the page again and again",
    "memory": "Memory",
    "first": "First visit at 100 kB/s",
    "browser": "Chromium",
    "replicas": "Several servers behind nginx, killed",
}
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
MANY = 6000
"""Pairs that do not run out while costs are compared, even with one rater a pair."""
PATIENCE = 300.0
"""Seconds without a single rating after which a run with kills is given up."""


@contextmanager
def serving(folder: Path, **study: Any) -> Iterator[tuple[MadeStudy, Server]]:
    """Make a study, with what `annotation_client.make` takes, and serve it."""
    made = annotation_client.make(folder / "study", **study)
    server = Server(made.folder, folder / "server.log")
    server.start()
    try:
        yield made, server
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

    def shown(self, share: float) -> str:
        """Return the milliseconds that `share` of the ratings do not exceed."""
        return f"{1000 * percentile(self.seconds, share):.1f} ms (others {self.others:.2f} cores)"


def speed(folder: Path, options: argparse.Namespace, *, think: float) -> list[Row]:
    """Let raters rate in rounds, `think` seconds a pair (0: without pause); the quietest round counts."""
    rounds: list[Round] = []
    for number in range(options.rounds):
        own = folder / str(number)
        own.mkdir()
        with serving(own, raters=options.raters, overlap=options.overlap) as (study, app):
            seconds = options.seconds if think else options.seconds / 3
            rounds.append(asyncio.run(_round(study, app, think=think, seconds=seconds)))
    best = min(rounds, key=lambda one: one.others)
    errors = sum(one.errors for one in rounds)
    rows = [
        ("CPU of the server for a rating", f"{best.cpu_ms:.1f} ms", "≤ 8 ms", best.cpu_ms <= 8),
        ("errors, all rounds", str(errors), "0", not errors),
    ]
    if not think:
        return [("ratings a second", f"{best.per_second:.0f}", "≥ 110", best.per_second >= 110), *rows]
    median, p95 = (1000 * percentile(best.seconds, share) for share in (0.5, 0.95))
    return [
        ("submit → next pair, median", best.shown(0.5), "≤ 25 ms", median <= 25),
        ("95 %", best.shown(0.95), "≤ 80 ms", p95 <= 80),
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


def strangers(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Let raters rate alone, and then with 20 strangers at the door."""

    async def measure(study: MadeStudy, server: Server) -> tuple[list[float], list[float]]:
        log = Log()
        people = [Rater(study, name, server.url, log) for name in study.tokens]
        await enter(people)
        alone = await _rate_for(people, log, options)
        visits = [asyncio.create_task(_visit_again(server.url)) for _ in range(20)]
        disturbed = await _rate_for(people, log, options)
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)
        await leave(people)
        return alone, disturbed

    with serving(folder, raters=options.raters, overlap=options.overlap, pairs=MANY) as (study, server):
        alone, disturbed = asyncio.run(measure(study, server))
    before, after = (1000 * percentile(seconds, 0.5) for seconds in (alone, disturbed))
    return [
        ("submit → next pair, median, alone", f"{before:.1f} ms", "", True),
        ("with 20 strangers", f"{after:.1f} ms", "≤ 60 ms", after <= 60),
    ]


async def _rate_for(people: Sequence[Rater], log: Log, options: argparse.Namespace) -> list[float]:
    log.seconds = []
    until = time.perf_counter() + options.seconds
    await asyncio.gather(*(person.work(until, think=options.think) for person in people))
    return log.seconds


async def _visit_again(url: str) -> None:
    while True:
        visit = Session(url, "", patience=60.0)
        await visit.connect()
        await visit.run()
        await visit.close()


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
    each, what = (result[2] - result[1]) / more, f"with nobody, {few} and {few + more} sessions"
    return [
        (what, ", ".join(f"{one:.0f}" for one in result) + " MB", "", True),
        ("a session adds", f"{each:.2f} MB", "≤ 0.2 MB", each <= 0.2),
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
            shown = time.perf_counter() - start
            page.wait_for_timeout(6000)
            result.append((shown, sum(sizes) / 1e6, len(sizes)))
            context.close()
        chromium.close()
    seconds, size = (statistics.median(one[index] for one in result) for index in (0, 1))
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


# Servers and database, killed: all raters rate to the end, and are struck at equal shares of the ratings.


@dataclass(frozen=True)
class Blow:
    """What is killed, and started again `down` seconds later; what raters noticed of it.

    Attributes:
        calm: Pages with the notice that something does not work at the moment, until shortly after.
        next: Seconds from the blow until the next rating was acknowledged.
        away: Of each rater whose connection was found broken, the seconds until a pair was shown again.
    """

    what: str
    down: float
    kill: Callable[[], None]
    start: Callable[[], None]
    at: float = 0.0
    calm: int = 0
    next: float = 0.0
    away: list[float] = field(default_factory=list)

    def row(self) -> Row:
        """Return it as a row."""
        back = [percentile(self.away, share) for share in (0.5, 0.95, 1)] if self.away else []
        result = (
            f"away {self.down:.1f} s; {len(self.away)} connections broke, a pair back after "
            f"{', '.join(f'{seconds:.1f}' for seconds in back) or '–'} s; {self.calm} calm pages; "
            f"next rating saved after {self.next:.1f} s"
        )
        return (self.what, result, "", True)


def replicas(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Serve a study by several servers on one PostgreSQL behind nginx, and kill each of them."""
    quota, think, down = (16, 1.5, 0.5) if options.quick else (12, options.think, 4.0)
    raters, overlap, spare = (8, 4, 16) if options.quick else (4 * options.raters, 8, 4)
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server())
        study = annotation_client.make(
            folder / "study",
            raters=raters,
            overlap=overlap,
            pairs=raters * quota // overlap,
            database=postgres.url(),
            more=f"pairs_per_rater = {quota + spare}",
        )
        first, last = servers = [_replica(stack, folder, study, number) for number in (1, 2)]
        proxy = stack.enter_context(annotation_server.proxied([server.port for server in servers]))
        blows = [
            Blow("a server, `kill -9`", down, first.kill, first.start),
            Blow("PostgreSQL, `kill -9`", down, postgres.kill, postgres.start),
            Blow("another server, `kill -9`", down, last.kill, last.start),
            Blow("PostgreSQL, stopped `immediate`", down, postgres.stop, postgres.start),
        ]
        rows = asyncio.run(_killed(study, servers, blows, think=think, proxy=proxy))
        written = proxy.logs()
    invites = sum(token in written for token in study.tokens.values())
    return [*rows, ("invites in nginx's logs", str(invites), "0", not invites)]


def _replica(stack: ExitStack, folder: Path, study: MadeStudy, number: int) -> Server:
    """Serve the study from a folder of its own, which shares the database alone."""
    os.environ.setdefault("STREAMLIT_SERVER_COOKIE_SECRET", secrets.token_hex(32))
    own = folder / f"server-{number}"
    shutil.copytree(study.folder, own)
    command = [sys.executable, "-P", "-m", "guard_eval", "annotate", str(own)]
    command += ["--port"]
    server = Server(own, folder / f"server-{number}.log", command=command)
    server.start()
    stack.callback(server.stop)
    return server


async def _killed(
    study: MadeStudy,
    servers: Sequence[Server],
    blows: Sequence[Blow],
    *,
    think: float,
    proxy: Proxy,
) -> list[Row]:
    """Let all raters rate to the end, with a blow at equal shares of the ratings."""
    log = Log()
    # A page that waits for an answer waits; a crowd that comes back at once would else be sent away.
    people = [Rater(study, name, proxy.url, log, patience=PATIENCE) for name in study.tokens]
    for person in people:
        cookie = await asyncio.to_thread(proxy.cookie)
        person.session.options = {"ssl": proxy.tls, "additional_headers": {"Cookie": cookie}}
    await enter(people)

    async def rate_all(person: Rater) -> None:
        while not person.view.ended:
            await person.work(time.perf_counter() + 60, think=think)

    begun, whole = time.perf_counter(), len(study.pairs) * study.overlap
    working = asyncio.gather(*map(rate_all, people))
    striking = asyncio.create_task(_strike(blows, log, working, whole=whole))
    try:
        await asyncio.wait([working, striking], return_when=asyncio.FIRST_EXCEPTION)
        felt = await striking
        await working
    finally:
        working.cancel()
        striking.cancel()
    seconds = time.perf_counter() - begun
    await leave(people)
    # Each broken connection counts to the blow before it; raters find out when they press.
    for at, away in (one for person in people for one in person.away):
        before = [blow for blow in felt if blow.at <= at]
        if before:
            before[-1].away.append(away)
    tracebacks = sum(server.tracebacks() for server in servers)
    struck = f"{len(felt)} of {len(blows)}"
    return [
        (f"{len(people)} raters, {whole} ratings", f"{seconds:.0f} s", "", True),
        *_summary(study, log, whole=whole, tracebacks=tracebacks),
        ("kills before everything was rated", struck, "all", len(felt) == len(blows)),
        *(blow.row() for blow in felt),
    ]


def _summary(study: MadeStudy, log: Log, *, whole: int, tracebacks: int) -> list[Row]:
    result, shown = compare(study, log), log.counts["exception"]
    rated = sum(raters * pairs for raters, pairs in result.overlap.items())
    uneven = max(result.pair_sides, default=0)
    errors = f"{log.counts['lost']} broken connections, {log.counts['calm']} calm pages, "
    errors += f"{log.counts['stuck']} presses without effect, {shown} exceptions"
    page = ", ".join(f"{1000 * percentile(log.seconds, share):.0f}" for share in (0.5, 0.95, 1))
    overlap, pair_sides, rater_sides = (
        ", ".join(f"{value}: {times}" for value, times in counts.items())
        for counts in (result.overlap, result.pair_sides, result.rater_sides)
    )
    return [
        ("called saved", str(result.acknowledged), "", True),
        ("lost; doubled", f"{result.lost}; {result.doubled}", "0; 0", result.lost + result.doubled == 0),
        ("stored though nobody sent them", str(result.unasked), "0", not result.unasked),
        ("stored on one criterion only", str(result.half), "0", not result.half),
        ("stored though their answer never came", str(result.in_doubt), "", True),
        ("ratings in all", str(rated), str(whole), rated >= whole),
        ("raters of a pair: pairs", overlap, "one row", len(result.overlap) == 1),
        ("first text as A less second, of a pair: pairs", pair_sides, "≤ 1", uneven <= 1),
        ("the same, of a rater: raters", rater_sides, "", True),
        ("raters saw", errors, "0 exceptions", not shown),
        ("from press to the next page: median, 95 %, longest", f"{page} ms", "", True),
        ("tracebacks in the servers' logs", str(tracebacks), "0", not tracebacks),
    ]


async def _strike(blows: Sequence[Blow], log: Log, working: asyncio.Future[Any], *, whole: int) -> list[Blow]:
    """Strike each blow when its time has come; one that comes too late is left out."""
    felt = []
    for number, blow in enumerate(blows, 1):
        await _until(log, round(number / (len(blows) + 1) * whole), working)
        if working.done():
            break
        start, calm = time.perf_counter(), log.counts["calm"]
        await asyncio.to_thread(blow.kill)
        following = asyncio.create_task(_until(log, log.ratings + 1, working))
        await asyncio.sleep(blow.down)
        await asyncio.to_thread(blow.start)
        down = time.perf_counter() - start
        acknowledged = await following - start
        await asyncio.sleep(blow.down)
        calm = log.counts["calm"] - calm
        felt.append(replace(blow, down=down, at=start, calm=calm, next=acknowledged))
    return felt


async def _until(log: Log, ratings: int, working: asyncio.Future[Any]) -> float:
    """Wait until so many ratings are acknowledged, or all raters have finished; return when that was.

    Raises:
        RuntimeError: For a long time none was.
    """
    seen, since = log.ratings, time.perf_counter()
    while log.ratings < ratings and not working.done():
        await asyncio.sleep(0.02)
        if log.ratings > seen:
            seen, since = log.ratings, time.perf_counter()
        elif time.perf_counter() - since > PATIENCE:
            raise RuntimeError(f"{log.ratings} of {ratings} ratings came, and then no more")
    return time.perf_counter()


def read(arguments: list[str] | None) -> argparse.Namespace:
    """Return the settings; what cannot be used is named, and the process left with code 2."""
    command = parser(__doc__)
    option = command.add_argument
    option("--only", nargs="+", choices=TITLES, default=list(TITLES), help="which measures")
    option("--raters", type=int, default=50, help="at once; four times as many on several servers")
    option("--overlap", type=int, default=24, help="raters of a pair, on one server")
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
    programs = {
        "postgresql": has_postgres(),
        "nginx": shutil.which("nginx"),
        "openssl": shutil.which("openssl"),
    }
    missing = [
        *[name for name, result in programs.items() if "replicas" in options.only and not result],
        *["chromium"] * (not {"browser", "first"}.isdisjoint(options.only) and not CHROMIUM.exists()),
    ]
    if missing:
        command.error(
            f"{', '.join(missing)} not installed; run: apt-get install {' '.join(missing)}, or choose other "
            "measures with --only"
        )
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the measures; return the exit code: 1 where a goal was missed."""
    options = read(arguments)
    measures: dict[str, Measure] = {
        "thinking": partial(speed, think=options.think),
        "rush": partial(speed, think=0),
        "strangers": strangers,
        "memory": memory,
        "first": first,
        "browser": browser,
        "replicas": replicas,
    }
    return run_measures(TITLES, measures, options)


if __name__ == "__main__":
    sys.exit(main())
