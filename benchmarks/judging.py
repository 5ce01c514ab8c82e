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
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import openai
from common import (
    Measure,
    Row,
    Turns,
    environment,
    has_postgres,
    make_pair,
    parser,
    postgres_server,
    run_measures,
    wait_until,
)
from judge_server import CRITERIA, FAULTS, MODEL, PRICES, Log, Server, serving
from sqlalchemy import Executable, create_engine, select, text

from guard_eval.records import BlindPair, Pair
from guard_eval.store import Store
from guard_eval.store.schema import presentation, run
from guard_eval.study.folder import Study
from guard_eval.study.settings import Judge
from judge.request import request
from judge.run import run_judge

TITLES = {
    "speed": "Raw loop and judge in turns, concurrency 64, 50 ms latency",
    "faults": "10 % 429, 5 % 500, 5 % prose, 2 % truncated, 2 % resets",
    "budget": "Budgets in the middle",
    "workers": "Commands on one study at once, killed",
    "workers-budget": "Commands on one study at once, killed, with one budget",
}
KEY = "sk-benchmark"
METHODS = ("guard", "top_k(k=50)")
CONCURRENCY, WORKER_CONCURRENCY = 64, 16
LEASE = 60.0
"""Seconds that a silent machine's claims stay its own; the judge's, repeated here to be compared with."""
WORKER_FAULTS = {"rate": 0.05, "error": 0.05, "reset": 0.02}
_RUNS_PER_STUDY = 10
_TOML = """
name = "benchmark"
seed = 1
{database}
[model]
name = "bundled"
[generation]
strategies = ["guard", "top_k(k=50)"]
[pairs]
compare = [["guard", "top_k(k=50)"]]
[[judge]]
model = "{model}"
concurrency = {concurrency}
usd_per_million_input_tokens = {input}
usd_per_million_output_tokens = {output}
"""
_ELSEWHERE = """
import platform, sys
name = sys.argv.pop(1)
if name:
    platform.node = lambda: name
from guard_eval.cli import main
main()
"""
"""`guard-eval`, on a machine of that name as far as the study's database can see."""

_SLOTS = """
SELECT count(*), count(DISTINCT pair_id || '/' || slot) FROM presentation WHERE rated_at IS NOT NULL
"""
_VERDICTS = """
SELECT count(*), sum(CASE WHEN verdicts = :criteria THEN 0 ELSE 1 END) FROM (
    SELECT presentation_id, count(*) AS verdicts FROM verdict GROUP BY presentation_id
) AS each_one
"""


def make_pairs(count: int) -> list[Pair]:
    """Return pairs of texts of 300 words, no two alike."""
    texts = ((f"prompt {n} " * 20, f"text {n} word " * 100, f"other {n} word " * 100) for n in range(count))
    return [make_pair(number, METHODS, three) for number, three in enumerate(texts)]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the database holds: pair × order with a verdict, failed by kind, with neither; dollars booked."""

    verdicts: int
    failures: dict[str, int]
    left: int
    usd: float


@dataclass(frozen=True, kw_only=True)
class JudgedStudy:
    """A study on disk whose judge asks a server."""

    folder: Path
    pairs: int
    server: Server

    @classmethod
    def make(
        cls, folder: Path, *, pairs: int, server: Server, database: str = "", concurrency: int = CONCURRENCY
    ) -> JudgedStudy:
        """Make a study; `database` is a database server's URL, by default the study's own SQLite file."""
        folder.mkdir(parents=True)
        line = f'database = "{database}"' if database else ""
        prices = {"input": 1e6 * PRICES[0], "output": 1e6 * PRICES[1]}
        settings = _TOML.format(model=MODEL, database=line, concurrency=concurrency, **prices)
        (folder / "study.toml").write_text(settings, encoding="utf-8")
        with Store.open(Study.open(folder).database, create=True) as store:
            store.add_pairs(make_pairs(pairs))
        return cls(folder=folder, pairs=pairs, server=server)

    def start(self, *options: str, machine: str = "") -> subprocess.Popen[str]:
        """Start `guard-eval judge`, on this machine or on one of another name."""
        command = [sys.executable, "-P", "-c", _ELSEWHERE, machine, "judge", str(self.folder), "--yes"]
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".log", delete=False) as log:
            return subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                env=environment(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=self.server.url),
            )

    def judge(self, *options: str) -> int:
        """Run `guard-eval judge`; return its exit code."""
        return self.start(*options).wait(600)

    def output(self) -> list[str]:
        """Return what each command printed."""
        return [path.read_text(encoding="utf-8", errors="replace") for path in self.folder.glob("*.log")]

    def outcome(self) -> Outcome:
        """Read the database."""
        with Store.open(Study.open(self.folder).database) as store:
            verdicts = sum(rater.rated for rater in store.raters())
            failed = {failure.presentation: failure.kind for failure in store.failures()}
            usd = sum(spend.usd + spend.held_usd for spend in store.spending())
        left = 2 * self.pairs - verdicts - len(failed)
        return Outcome(verdicts=verdicts, failures=dict(Counter(failed.values())), left=left, usd=usd)

    def journalled(self) -> set[str]:
        """Return the ids of the server's complete responses that are in the journal."""
        rows = self.query(text("SELECT request_id FROM answer WHERE status = 200"))
        return {row.request_id for row in rows}

    def query(self, statement: Executable) -> Sequence[Any]:
        """Query the database in SQL of our own."""
        engine = create_engine(Study.open(self.folder).database)
        try:
            with engine.connect() as connection:
                return connection.execute(statement).all()
        finally:
            engine.dispose()

    def complete(self) -> bool:
        """Return whether every pair and order is judged or failed, and no command ended in a traceback."""
        return self.outcome().left == 0 and not any("Traceback" in printed for printed in self.output())

    def second_run(self) -> Row:
        """Judge once more, which must send nothing."""
        before = self.server.log().asked
        self.judge()
        more = self.server.log().asked - before
        return ("requests of one more run", str(more), "0", more == 0)


def speed(_folder: Path, options: argparse.Namespace) -> list[Row]:
    """Let a raw loop of `AsyncOpenAI.create` and the judge run in turns in this process."""
    pairs, settings = make_pairs(options.requests // 2), Judge(model=MODEL)
    bodies = [
        request(settings, BlindPair(presentation=0, prompt=pair.prompt, text_a=first, text_b=second), 1)
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


def faults(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Judge with a server that fails often, then run again."""
    with serving(faults=FAULTS) as server:
        study = JudgedStudy.make(folder / "study", pairs=options.requests // 2, server=server)
        code = study.judge("--budget", "1000")
        log, found = server.log(), study.outcome()
        ended = f"{found.verdicts} verdicts, failures {found.failures or 0}, {found.left} with neither"
        money = f"${log.usd:.2f} charged, ${found.usd:.2f} booked"
        return [
            _answered(log),
            (
                f"pairs × orders of {2 * study.pairs}",
                f"{ended} (code {code})",
                "0 with neither",
                study.complete(),
            ),
            _paid_twice(log, 0),
            ("money", money, "booked ≥ charged", found.usd >= log.usd - 1e-6),
            study.second_run(),
        ]


def budget(folder: Path, options: argparse.Namespace) -> list[Row]:
    """Let budgets end runs in the middle; the server charges by chance, up to what a request allows."""
    chance, runs = random.Random(1), options.budgets
    ended = exceeded = 0
    most = 0.0
    with serving(dice=True, faults={"rate": 0.02, "error": 0.02, "reset": 0.02}, latency=0.1) as server:
        for number in range(runs):
            if number % _RUNS_PER_STUDY == 0:  # each goes on from the one before
                before = server.log().usd
                pairs = 130 * min(_RUNS_PER_STUDY, runs - number)
                study = JudgedStudy.make(folder / f"study-{number}", pairs=pairs, server=server)
            # 64 requests could cost $1.5 at worst: some budgets hold all of them in flight, some do not.
            allowed = study.outcome().usd + chance.uniform(0.1, 2.5)
            study.judge("--budget", f"{allowed:.6f}")
            charged = server.log().usd - before
            exceeded += max(charged, study.outcome().usd) > allowed + 1e-6
            most = max(most, charged / allowed)
            if (number + 1) % _RUNS_PER_STUDY == 0 or number + 1 == runs:
                ended += _ended_by_budget(study)
        flight = server.log().most
    return [
        (f"runs of {runs} that their budget ended", str(ended), "", ended > 0),
        ("runs that cost more, by the server's own count", str(exceeded), "0", exceeded == 0),
        ("the most that was charged, of what was allowed", f"{most:.1%}", "≤ 100 %", most <= 1),
        ("most requests in flight", str(flight), "", True),
    ]


def _ended_by_budget(study: JudgedStudy) -> int:
    return sum("is used up" in printed for printed in study.output())


@dataclass(frozen=True)
class Moment:
    """What the journal held at a kill, and how often each request had been sent by then."""

    journalled: set[str]
    sent: dict[str, int]

    @classmethod
    def of(cls, study: JudgedStudy) -> Moment:
        """Read the journal first: what is sent meanwhile is in flight."""
        return cls(study.journalled(), study.server.log().sent)


def _sent_again(moments: Sequence[Moment], log: Log) -> Row:
    """Return how many requests were sent after a kill though a response was in the journal then."""
    more = 0
    for moment in moments:
        stored = {log.answers[number] for number in moment.journalled}
        more += sum(log.sent[key] - moment.sent.get(key, 0) for key in stored)
    last = len(moments[-1].journalled) if moments else 0
    return ("sent after a kill, of what was in the journal then", f"{more} (of {last})", "0", not more)


def _paid_twice(log: Log, allowed: int) -> Row:
    what = "complete 200 responses beyond the first to a request"
    return (what, str(log.twice), f"≤ {allowed}", log.twice <= allowed)


def _answered(log: Log) -> Row:
    did = ", ".join(f"{times} {name}" for name, times in sorted(log.did.items()))
    return ("the server answered", f"{log.asked} requests: {did}", "", True)


@dataclass
class Machine:
    """A process that judges, and its machine's name; empty for this machine."""

    study: JudgedStudy
    name: str
    options: tuple[str, ...]
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> None:
        """Start it, or start it again."""
        self.process = self.study.start(*self.options, machine=self.name)

    @property
    def runs(self) -> bool:
        """Return whether its process runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def machines(study: JudgedStudy, count: int, *options: str, apart: bool) -> Iterator[list[Machine]]:
    """Start so many machines; `apart`, none can see whether another is alive."""
    made = [Machine(study, f"machine {number}" if apart else "", options) for number in range(count)]
    for machine in made:
        machine.start()
    try:
        yield made
    finally:
        for machine in made:
            machine.kill()


def _strike(chance: random.Random, working: Sequence[Machine], *, more: int) -> Moment:
    """Kill a machine when the server has answered so many more, and start it again."""
    study = working[0].study

    def answered() -> int:
        return sum(study.server.log().paid.values())

    until = answered() + more
    wait_until(lambda: answered() >= until or not any(one.runs for one in working))
    victim = chance.choice(working)
    victim.kill()
    moment = Moment.of(study)
    victim.start()
    return moment


def workers(folder: Path, options: argparse.Namespace, database: str = "") -> list[Row]:
    """Kill machines at random and start them again, one of several never; then see what was done twice."""
    chance, apart, pairs, kills = random.Random(1), bool(database), options.requests // 2, options.kills
    with serving(faults=WORKER_FAULTS, latency=0.3) as server:
        size = {"pairs": pairs, "concurrency": WORKER_CONCURRENCY}
        study = JudgedStudy.make(folder / "study", server=server, database=database, **size)
        moments, more = list[Moment](), list[Row]()
        with machines(study, options.workers, apart=apart) as working:

            def strike(times: int) -> None:
                for _ in range(times):
                    later = chance.randint(pairs // 50, pairs // 15)
                    moments.append(_strike(chance, working, more=later))

            strike(kills // 2)
            lost = working.pop() if kills and len(working) > 1 else None
            if lost:
                lost.kill()
                at, held = datetime.now(UTC), _held(study, lost.process.pid)
            strike(kills - kills // 2)
            _finish(study, working)
        if lost:
            more.append(_taken_over(study, held, at, expires=apart))
        log = server.log()
        ((shown, slots),) = study.query(text(_SLOTS))
        ((rated, odd),) = study.query(text(_VERDICTS).bindparams(criteria=len(CRITERIA)))
        once = shown == slots == rated == 2 * pairs
        sent = ", ".join(re.findall(r"(\d+) requests sent", "\n".join(study.output())))
        return [
            _answered(log),
            ("requests of each command that ended by itself", sent, "", True),
            ("pairs × orders judged, by presentation and by slot", f"{shown}, {slots}", f"{2 * pairs}", once),
            (f"of these without exactly {len(CRITERIA)} verdicts", str(odd), "0", not odd),
            ("commands that ended in a traceback", "0", "0", study.complete()),
            _sent_again(moments, log),
            _paid_twice(log, (kills + bool(lost)) * WORKER_CONCURRENCY),
            *more,
            study.second_run(),
        ]


def _held(study: JudgedStudy, process: int) -> list[int]:
    """Return the presentations that a process has claimed and not judged."""
    claimed = (
        select(presentation.c.id)
        .join(run, run.c.id == presentation.c.run_id)
        .where(run.c.process.like(f"{process}:%"), presentation.c.rated_at.is_(None))
    )
    return [row.id for row in study.query(claimed)]


def _taken_over(study: JudgedStudy, held: list[int], at: datetime, *, expires: bool) -> Row:
    """Return when others judged what a lost machine held: from elsewhere not before its lease ended."""
    rated = study.query(select(presentation.c.rated_at).where(presentation.c.id.in_(held)))
    seconds = [(row.rated_at - at).total_seconds() for row in rated if row.rated_at is not None]
    least, most = (min(seconds), max(seconds)) if seconds else (0.0, 0.0)
    # The last sign of life may be a third of a lease old.
    met = len(seconds) == len(held) > 0 and (not expires or least > LEASE * 2 / 3 - 1)
    found = f"{len(seconds)} of {len(held)}, {least:.0f} to {most:.0f} s later"
    goal = f"all; not before its lease ({LEASE:.0f} s)" if expires else "all"
    return ("judged by others, of what the lost one held", found, goal, met)


def _finish(study: JudgedStudy, working: Sequence[Machine]) -> None:
    """Start again whoever has ended, until everything is judged and all have ended by themselves."""

    def judged() -> bool:
        for machine in working:
            if not machine.runs:
                machine.start()
        time.sleep(0.5)
        return study.outcome().verdicts >= 2 * study.pairs

    wait_until(judged, what="the end of the study")
    for machine in working:
        machine.process.wait(600)


def workers_budget(folder: Path, options: argparse.Namespace, database: str = "") -> list[Row]:
    """Let machines share a budget that ends in the middle, kills and all; the server charges by chance."""
    pairs, kills = options.requests // 2, options.kills
    chance, allowed = random.Random(2), pairs * 0.004
    with serving(dice=True, faults=WORKER_FAULTS, latency=0.3) as server:
        size = {"pairs": pairs, "concurrency": WORKER_CONCURRENCY}
        study = JudgedStudy.make(folder / "study", server=server, database=database, **size)
        limit = ("--budget", f"{allowed:.6f}")
        with machines(study, options.workers, *limit, apart=bool(database)) as working:
            for _ in range(kills):
                _strike(chance, working, more=chance.randint(pairs // 100, pairs // 30))
            for machine in working:
                machine.process.wait(600)
        log, found = server.log(), study.outcome()
    ended, left = _ended_by_budget(study), f"{found.verdicts} of {2 * pairs}"
    charged, booked = (f"${log.usd:.3f}", f"${found.usd:.3f}")
    return [
        ("commands that the budget ended", f"{ended}, {kills} kills", "some", ended > 0),
        ("verdicts, of those wanted", left, "some left", found.left > 0),
        ("charged, by the server's count", charged, f"≤ ${allowed:.3f}", log.usd <= allowed + 1e-6),
        ("spent and set aside", booked, f"≤ ${allowed:.3f}", found.usd <= allowed + 1e-6),
        _paid_twice(log, kills * WORKER_CONCURRENCY),
    ]


ALONE: dict[str, Measure] = {"speed": speed, "faults": faults, "budget": budget}
TOGETHER: dict[str, Callable[..., list[Row]]] = {"workers": workers, "workers-budget": workers_budget}


def _on_postgres(measure: Callable[..., list[Row]]) -> Measure:
    def measured(folder: Path, options: argparse.Namespace) -> list[Row]:
        with postgres_server() as server:
            return measure(folder, options, database=server.url())

    return measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measures; return the exit code: 1 where a goal was missed."""
    command = parser(__doc__)
    option = command.add_argument
    option("--only", nargs="+", choices=TITLES, default=list(TITLES), help="which measures")
    option("--requests", type=int, default=1000, help="of each run; a pair takes two")
    option("--rounds", type=int, default=5, help="of the measure of speed")
    option("--budgets", type=int, default=100, help="runs with a budget")
    option("--workers", type=int, default=4, help="commands at once")
    option("--kills", type=int, default=12, help="of a command that is started again")
    option(
        "--postgres",
        action="store_true",
        help="commands at once also on PostgreSQL, each on a machine of its own as far as others can see",
    )
    option("--output", type=Path, help="write the Markdown here, too")
    options = command.parse_args(arguments)
    if options.quick:
        options.requests, options.rounds, options.budgets, options.kills = 100, 1, 2, 2
        options.workers = 2
    if options.requests < 100 or min(options.rounds, options.budgets) < 1:
        command.error("requests must be at least 100, rounds and budgets at least 1")
    if options.workers < 1 or options.kills < 0 or options.requests < 50 * options.workers:
        command.error("at least 1 worker and 50 requests for each worker are needed")
    if options.postgres and not has_postgres():
        command.error("PostgreSQL's server is not installed; run: apt-get install postgresql")
    measures: dict[str, Measure] = {}
    for name in TITLES:
        measures[name] = (ALONE | TOGETHER)[name]
        if options.postgres and name in TOGETHER:
            measures[f"{name}, PostgreSQL"] = _on_postgres(TOGETHER[name])
    return run_measures(TITLES, measures, options)


if __name__ == "__main__":
    sys.exit(main())
