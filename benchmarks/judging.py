"""Measure a judge's speed, and count lost and twice-paid answers, with a server that is late and fails.

From the repository's root, on a machine that does nothing else:

    python benchmarks/judging.py --output judge.md     # everything, some minutes
    python benchmarks/judging.py --quick               # only a test run: its times mean nothing

The numbers of sent and paid requests come from the server's log, the verdicts from the database by SQL. The
exit code is 1 if a goal was missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openai
from common import Measure, Row, Turns, environment, make_pair, parser, run_measures
from judge_server import FAULTS, MODEL, PRICES, serving

from guard_eval.records import BlindPair, Pair
from guard_eval.servers.price import find_price
from guard_eval.servers.server import find_server_url, make_server
from guard_eval.store import Store, raters
from guard_eval.store import pairs as store_pairs
from guard_eval.store.judging import requests, usage
from guard_eval.store.judging.requests import Question
from guard_eval.study.folder import Study
from guard_eval.study.judge_settings import Judge
from judge.journal import RunCounts
from judge.prompts.forms import choose_first_request_form
from judge.questions import RequestBuilder, read_unjudged_questions
from judge.run import OnlineRun

TITLES = {
    "speed": "Raw loop and judge in turns, concurrency 64, 50 ms latency",
    "queues": "Servers that do 1, 4 and 64 requests at once and let the rest wait",
    "faults": "10 % 429, 5 % 500, 5 % prose, 2 % truncated, 2 % resets",
}
KEY = "sk-benchmark"
METHODS = ("guard", "top_k(k=50)")
CONCURRENCY = 64
QUEUES = ((1, 0.25, 160), (4, 0.25, 640), (64, 2.0, 1920))
"""Number of requests that a server answers at once, seconds per request, and number of all requests."""
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
usd_per_million_tokens = [{input}, {output}]
"""


def make_pairs(count: int) -> list[Pair]:
    """Return pairs of different texts of 300 words."""
    texts = ((f"prompt {n} " * 20, f"text {n} word " * 100, f"other {n} word " * 100) for n in range(count))
    return [make_pair(number, METHODS, three) for number, three in enumerate(texts)]


def _body(judge: Judge, prompt: str, first: str, second: str) -> bytes:
    blind = BlindPair(presentation=0, prompt=prompt, text_a=first, text_b=second)
    question = Question(pair_id="p", number=0, blind=blind)
    return RequestBuilder(judge, seed=1).build_request_body(
        question, choose_first_request_form(judge), max_output_tokens=512
    )


def _judge(store: Store, judge: Judge, *, budget_usd: float | None = None) -> RunCounts:
    environ = {"OPENAI_API_KEY": KEY}
    price = find_price(judge, find_server_url(judge, environ))
    run = OnlineRun(
        store, judge, seed=1, server=make_server(judge, environ), price=price, budget_usd=budget_usd
    )
    return run.judge_questions([read_unjudged_questions(store, judge, seed=1)])


def speed(_folder: Path, options: argparse.Namespace) -> list[Row]:
    """Time a plain loop of `AsyncOpenAI.create` and the judge, in turns in this process."""
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
    clock, processor = (
        Turns(base=[measured[at] for measured in raw], way=[measured[at] for measured in ours])
        for at in (0, 1)
    )
    rates = [options.requests / statistics.median(times) for times in (clock.base, clock.way)]
    seconds = processor.medians
    return [
        (
            f"requests a second, {options.requests} requests, {options.rounds} rounds",
            f"raw {rates[0]:.0f}/s, judge {rates[1]:.0f}/s; ratio {clock.format_ratio(inverse=True)}",
            "≥ 0.85 ×",
            1 / clock.ratio >= 0.85,
        ),
        (
            "processor time",
            f"raw {seconds[0]:.2f} s, judge {seconds[1]:.2f} s; ratio {processor.format_ratio()}",
            "≤ 1.1 ×",
            processor.ratio <= 1.1,
        ),
        ("requests of a second run", "0 after every round", "0", True),
    ]


def _send_raw(url: str, bodies: list[dict[str, Any]]) -> None:
    """Send prepared requests, and discard the answers."""
    waiting = iter(bodies)

    async def send(client: openai.AsyncOpenAI) -> None:
        for body in waiting:
            await client.chat.completions.create(**body)

    async def send_all() -> None:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
            await asyncio.gather(*(send(client) for _ in range(CONCURRENCY)))

    asyncio.run(send_all())


def _judge_new(url: str, pairs: list[Pair]) -> tuple[float, float]:
    """Judge a new study with journal and verdicts on disk. Then run again, which must send nothing."""
    judge = Judge(model=MODEL, base_url=url, concurrency=CONCURRENCY, usd_per_million_tokens=[2.5, 10])
    with (
        tempfile.TemporaryDirectory(prefix="judge") as folder,
        Store.open(f"sqlite:///{folder}/study.db", create=True) as store,
    ):
        store_pairs.add_pairs(store, pairs)

        def judged() -> int:
            counts = _judge(store, judge, budget_usd=1000)
            if counts.failures:
                raise RuntimeError(f"failures without faults: {counts.failures}")
            return counts.requests

        taken = _both_clocks(judged)
        if judged():
            raise RuntimeError("a finished study was judged again")
    return taken


def _both_clocks(act: Callable[[], object]) -> tuple[float, float]:
    """Return clock time and this process's processor time, in seconds."""
    processor, clock = time.process_time(), time.perf_counter()
    act()
    return time.perf_counter() - clock, time.process_time() - processor


def queues(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Judge with servers that queue requests. The time-out is the time of twelve answers in sequence."""
    rows: list[Row] = []
    for slots, seconds, questions in QUEUES:
        total = questions // 10 if options.quick else questions
        with (
            serving(slots=slots, seconds=seconds) as server,
            Store.open(f"sqlite:///{folder}/queue-{slots}.db", create=True) as store,
        ):
            store_pairs.add_pairs(store, make_pairs(total // 2))
            judge = Judge(model=MODEL, base_url=server.url, concurrency=CONCURRENCY, timeout=12 * seconds)
            started = time.perf_counter()
            counts = _judge(store, judge)
            took, sent = time.perf_counter() - started, server.log().requests
        ratio = took / (total * seconds / slots)
        lost, vain = total - counts.verdicts, sent - total
        rows += [
            (
                f"{slots} at once, {seconds} s each, {total} requests",
                f"{took:.1f} s, **{ratio:.2f}** × the ideal",
                "≤ 1.3 ×",
                ratio <= 1.3,
            ),
            (f"{slots} at once: lost; sent in vain", f"{lost}; {vain}", "0; 0", lost == vain == 0),
        ]
    return rows


def faults(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Judge with a server that often fails, then run again, and check the verdicts in the database."""
    prices = {"input": 1e6 * PRICES[0], "output": 1e6 * PRICES[1]}
    (folder / "study.toml").write_text(_TOML.format(model=MODEL, **prices), encoding="utf-8")
    database, total = Study.open(folder).database, options.requests // 2 * 2
    with Store.open(database, create=True) as store:
        store_pairs.add_pairs(store, make_pairs(total // 2))
    with serving(faults=FAULTS) as server:
        command = [sys.executable, "-P", "-m", "guard_eval", "judge", str(folder)]
        command += ["--yes", "--budget", "1000"]
        environ = environment(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=server.url)

        def judge() -> tuple[int, str]:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, env=environ, timeout=600
            )
            return done.returncode, done.stdout + done.stderr

        code, printed = judge()
        log = server.log()
        with Store.open(database) as store:
            verdicts = sum(rater.rated for rater in raters.read_rater_progress(store))
            with store.begin_read() as db:
                failed = [kind for kind, _ in requests.read_question_failures(db).values()]
                usd = sum(row.usd + row.held_usd for row in usage.read_spending(db))
        judge()
        more = server.log().requests - log.requests
    did = ", ".join(f"{times} {name}" for name, times in sorted(log.did.items()))
    unexplained = total - verdicts - len(failed)
    ended = f"{verdicts} verdicts, failures {dict(Counter(failed))}, {unexplained} with neither"
    complete = unexplained == 0 and "Traceback" not in printed
    money = f"${log.usd:.2f} charged, ${usd:.2f} booked"
    return [
        ("the server answered", f"{log.requests} requests: {did}", "", True),
        (f"pairs × orders of {total}", f"{ended} (code {code})", "0 with neither", complete),
        ("complete 200 responses beyond the first to a request", str(log.twice), "0", log.twice == 0),
        ("money", money, "booked ≥ charged", usd >= log.usd - 1e-6),
        ("requests of one more run", str(more), "0", more == 0),
    ]


MEASURES: dict[str, Measure] = {"speed": speed, "queues": queues, "faults": faults}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measures, and return the exit code: 1 if a goal was missed."""
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
