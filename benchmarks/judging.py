"""How fast a judge's run is, and whether it loses or pays twice: against a server that is late and fails.

From the repository's root, on a machine that does nothing else:

    python benchmarks/judging.py --output judge.md     # everything, some minutes
    python benchmarks/judging.py --quick               # does it run? (times mean nothing)

What was sent and what was paid for is taken from the server's log, what was judged from the database, in SQL.
It ends with code 1 where a goal was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openai
from common import Measure, Row, Turns, environment, in_turns, make_pair, parser, run_measures
from judge_server import FAULTS, MODEL, PRICES, serving

from guard_eval.records import BlindPair, Pair
from guard_eval.store import Answer, PlannedRequest, Reservation, Showing, Store, Usage
from guard_eval.study.folder import Study
from guard_eval.study.settings import Judge
from judge.request import RequestBuilder
from judge.run import run_judge

TITLES = {
    "speed": "Raw loop and judge in turns, concurrency 64, 50 ms latency",
    "queues": "Servers that do 1, 4 and 64 requests at once and let the rest wait",
    "faults": "10 % 429, 5 % 500, 5 % prose, 2 % truncated, 2 % resets",
    "kept": "The journal with and without the requests as they are sent",
}
KEY = "sk-benchmark"
METHODS = ("guard", "top_k(k=50)")
CONCURRENCY = 64
QUEUES = ((1, 0.25, 160), (4, 0.25, 640), (64, 2.0, 1920))
"""Requests that a server does at once, seconds of each, and how many there are."""
_TOML = """
name = "benchmark"
seed = 1
[model]
name = "bundled"
[generation]
strategies = ["guard", "top_k(k=50)"]
[pairs]
compare = [["guard", "top_k(k=50)"]]
[[judge]]
model = "{model}"
concurrency = 64
usd_per_million_input_tokens = {input}
usd_per_million_output_tokens = {output}
"""


def make_pairs(count: int) -> list[Pair]:
    """Return pairs of texts of 300 words, no two alike."""
    texts = ((f"prompt {n} " * 20, f"text {n} word " * 100, f"other {n} word " * 100) for n in range(count))
    return [make_pair(number, METHODS, three) for number, three in enumerate(texts)]


def _body(judge: Judge, prompt: str, first: str, second: str) -> bytes:
    blind = BlindPair(presentation=0, prompt=prompt, text_a=first, text_b=second)
    return RequestBuilder(judge, seed=1).build(Showing(blind=blind, sample=0)).body


def speed(_folder: Path, options: argparse.Namespace) -> list[Row]:
    """Let a raw loop of `AsyncOpenAI.create` and the judge run in turns in this process."""
    pairs, settings = make_pairs(options.requests // 2), Judge(model=MODEL)
    bodies = [
        json.loads(_body(settings, pair.prompt, first, second))
        for pair in pairs
        for first, second in ((pair.text_a, pair.text_b), (pair.text_b, pair.text_a))
    ]
    with serving() as server:
        _send_raw(server.url, bodies[:CONCURRENCY])  # does not count
        raw, ours = [_both_clocks(lambda: _send_raw(server.url, bodies))], []
        for _ in range(options.rounds):
            ours.append(_judge_new(server.url, pairs))
            raw.append(_both_clocks(lambda: _send_raw(server.url, bodies)))
    clock, processor = (Turns(base=[one[at] for one in raw], way=[one[at] for one in ours]) for at in (0, 1))
    rates = [options.requests / statistics.median(times) for times in (clock.base, clock.way)]
    seconds = processor.medians
    return [
        (
            f"requests a second, {options.requests} requests, {options.rounds} rounds",
            f"raw {rates[0]:.0f}/s, judge {rates[1]:.0f}/s; ratio {clock.shown(inverse=True)}",
            "≥ 0.7 ×",
            1 / clock.ratio >= 0.7,
        ),
        (
            "processor time",
            f"raw {seconds[0]:.2f} s, judge {seconds[1]:.2f} s; ratio {processor.shown()}",
            "≤ 1.5 ×",
            processor.ratio <= 1.5,
        ),
        ("requests of a second run", "0 after every round", "0", True),
    ]


def _send_raw(url: str, bodies: list[dict[str, Any]]) -> None:
    """Send requests that are made already, and keep nothing."""
    left = iter(bodies)

    async def send(client: openai.AsyncOpenAI) -> None:
        for body in left:
            await client.chat.completions.create(**body)

    async def send_all() -> None:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
            await asyncio.gather(*(send(client) for _ in range(CONCURRENCY)))

    asyncio.run(send_all())


def _judge_new(url: str, pairs: list[Pair]) -> tuple[float, float]:
    """Judge a new study, journal and verdicts on disk; then run again, which must send nothing."""
    prices = {"usd_per_million_input_tokens": 2.5, "usd_per_million_output_tokens": 10.0}
    judge = Judge(model=MODEL, base_url=url, concurrency=CONCURRENCY, **prices)
    with (
        tempfile.TemporaryDirectory(prefix="judge") as folder,
        Store.open(f"sqlite:///{folder}/study.db", create=True) as store,
    ):
        store.add_pairs(pairs)

        def judged() -> int:
            ledger = run_judge(store, judge, seed=1, budget_usd=1000, environ={"OPENAI_API_KEY": KEY})
            if ledger.failures:
                raise RuntimeError(f"failures without faults: {ledger.failures}")
            return ledger.requests

        taken = _both_clocks(judged)
        if judged():
            raise RuntimeError("a finished study was judged again")
    return taken


def _both_clocks(act: Callable[[], object]) -> tuple[float, float]:
    """Return seconds, and seconds of this process's processor time."""
    processor, clock = time.process_time(), time.perf_counter()
    act()
    return time.perf_counter() - clock, time.process_time() - processor


def queues(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Judge at servers that let requests wait; twelve answers one after the other fill the time-out."""
    rows: list[Row] = []
    for slots, seconds, questions in QUEUES:
        wanted = questions // 10 if options.quick else questions
        with (
            serving(slots=slots, seconds=seconds) as server,
            Store.open(f"sqlite:///{folder}/queue-{slots}.db", create=True) as store,
        ):
            store.add_pairs(make_pairs(wanted // 2))
            judge = Judge(model=MODEL, base_url=server.url, concurrency=CONCURRENCY, timeout=12 * seconds)
            started = time.perf_counter()
            ledger = run_judge(store, judge, seed=1, environ={"OPENAI_API_KEY": KEY})
            took, sent = time.perf_counter() - started, server.log().requests
        ratio = took / (wanted * seconds / slots)
        lost, vain = wanted - ledger.verdicts, sent - wanted
        rows += [
            (
                f"{slots} at once, {seconds} s each, {wanted} requests",
                f"{took:.1f} s, **{ratio:.2f}** × the ideal",
                "≤ 1.3 ×",
                ratio <= 1.3,
            ),
            (f"{slots} at once: lost; sent in vain", f"{lost}; {vain}", "0; 0", lost == vain == 0),
        ]
    return rows


def faults(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Judge with a server that fails often, then run again; read what the database holds."""
    prices = {"input": 1e6 * PRICES[0], "output": 1e6 * PRICES[1]}
    (folder / "study.toml").write_text(_TOML.format(model=MODEL, **prices), encoding="utf-8")
    database, wanted = Study.open(folder).database, options.requests // 2 * 2
    with Store.open(database, create=True) as store:
        store.add_pairs(make_pairs(wanted // 2))
    with serving(faults=FAULTS) as server:
        command = [
            sys.executable,
            "-P",
            "-m",
            "guard_eval",
            "judge",
            str(folder),
            "--yes",
            "--budget",
            "1000",
        ]
        environ = environment(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)

        def judge() -> tuple[int, str]:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, env=environ, timeout=600
            )
            return done.returncode, done.stdout + done.stderr

        code, printed = judge()
        log = server.log()
        with Store.open(database) as store:
            verdicts = sum(rater.rated for rater in store.raters())
            failed = {failure.presentation: failure.kind for failure in store.failures()}
            usd = sum(spend.usd + spend.held_usd for spend in store.spending())
        judge()
        more = server.log().requests - log.requests
    did = ", ".join(f"{times} {name}" for name, times in sorted(log.did.items()))
    left = wanted - verdicts - len(failed)
    ended = f"{verdicts} verdicts, failures {dict(Counter(failed.values()))}, {left} with neither"
    complete = left == 0 and "Traceback" not in printed
    money = f"${log.usd:.2f} charged, ${usd:.2f} booked"
    return [
        ("the server answered", f"{log.requests} requests: {did}", "", True),
        (f"pairs × orders of {wanted}", f"{ended} (code {code})", "0 with neither", complete),
        ("complete 200 responses beyond the first to a request", str(log.twice), "0", log.twice == 0),
        ("money", money, "booked ≥ charged", usd >= log.usd - 1e-6),
        ("requests of one more run", str(more), "0", more == 0),
    ]


def kept(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Let the journal reserve and record requests, sixteen at a time, with and without their bodies."""
    judge = Judge(model=MODEL)
    words = (Path(__file__).parent / "RESULTS.md").read_text(encoding="utf-8").split()
    choose = random.Random(1)
    texts = [
        " ".join(words[start : start + 190])
        for start in (choose.randrange(len(words) - 190) for _ in range(2 * options.requests))
    ]
    bodies = [_body(judge, texts[n][:200], texts[n], texts[-n]) for n in range(options.requests)]
    count, sizes = itertools.count(), {}

    def journal(*, keep: bool) -> float:
        path = folder / f"{next(count)}.db"
        with Store.open(f"sqlite:///{path}", create=True) as store:
            rater = store.rater("judge", "model")
            run = store.begin(rater, timedelta(minutes=10))
            start = time.perf_counter()
            for first in range(0, len(bodies), 16):
                planned = [
                    PlannedRequest(
                        key=f"{place:064}", presentation=None, usd=0.01, body=body if keep else None
                    )
                    for place, body in enumerate(bodies[first : first + 16], start=first)
                ]
                rights = store.record(run, planned=planned)
                store.record(run, answers=[_answered(right) for right in rights])
            taken = time.perf_counter() - start
        sizes[keep] = path.stat().st_size / len(bodies)
        path.unlink()
        return taken

    turns = in_turns(lambda: journal(keep=False), lambda: journal(keep=True), rounds=options.rounds)
    raw = statistics.mean(map(len, bodies))
    alone = statistics.mean(len(zlib.compress(body)) for body in bodies)
    without, with_them = (seconds / len(bodies) * 1000 for seconds in turns.medians)
    return [
        (
            "bytes of a request",
            f"{raw:.0f} as sent, {alone:.0f} by zlib alone",
            "",
            True,
        ),
        (
            "bytes of an exchange in SQLite",
            f"{sizes[True]:.0f} with the request, {sizes[False]:.0f} without",
            "",
            True,
        ),
        (
            "milliseconds an answer",
            f"{with_them:.2f} with the request, {without:.2f} without; ratio **{turns.shown()}**",
            "≤ 1.5 ×",
            turns.ratio <= 1.5,
        ),
    ]


def _answered(right: object) -> Answer:
    assert isinstance(right, Reservation)
    return Answer(
        key=right.key,
        attempt=right.attempt,
        presentation=None,
        status=200,
        body=b"x" * 900,
        request_id="req",
        usage=Usage(input_tokens=1500, output_tokens=60),
        usd=0.004,
        seconds=1.0,
        at=datetime.now(UTC),
    )


MEASURES: dict[str, Measure] = {"speed": speed, "queues": queues, "faults": faults, "kept": kept}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measures; return the exit code: 1 where a goal was missed."""
    command = parser(__doc__)
    option = command.add_argument
    option("--only", nargs="+", choices=TITLES, default=list(TITLES), help="which measures")
    option("--requests", type=int, default=1000, help="of each run; a pair takes two")
    option("--rounds", type=int, default=5, help="of the measure of speed")
    option("--output", type=Path, help="write the Markdown here, too")
    options = command.parse_args(arguments)
    if options.quick:
        options.requests, options.rounds = 100, 1
    if options.requests < 100 or options.rounds < 1:
        command.error("requests must be at least 100, rounds at least 1")
    return run_measures(TITLES, MEASURES, options)


if __name__ == "__main__":
    sys.exit(main())
