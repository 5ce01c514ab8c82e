"""The judge and a raw loop of `AsyncOpenAI.create` in turns, in one process: seconds and processor time.

`judge.py` runs this as a program of its own, without this folder on the path: `judge` must be the package.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import openai

from guard_eval.records import BlindPair, Pair
from guard_eval.settings import Judge
from guard_eval.store import Store
from judge.prompt import request
from judge.run import run_judge

MODEL = "gpt-4o-2024-11-20"
LANES = 64


def pairs_of(count: int) -> list[Pair]:
    """Return pairs of texts of 300 words."""
    return [
        Pair(
            id=Pair.make_id("guard", "top", f"a{n}", f"b{n}"),
            dataset="made",
            prompt_id=f"p{n}",
            prompt=f"prompt {n} " * 20,
            method_a="guard",
            method_b="top",
            continuation_a=f"a{n}",
            continuation_b=f"b{n}",
            text_a=f"text {n} word " * 100,
            text_b=f"other {n} word " * 100,
            position=n,
        )
        for n in range(count)
    ]


def bodies_of(pairs: list[Pair]) -> list[dict[str, Any]]:
    """Return the requests that the judge would send."""
    judge = Judge(model=MODEL)
    blinds = [
        BlindPair(presentation=0, prompt=pair.prompt, text_a=first, text_b=second)
        for pair in pairs
        for first, second in ((pair.text_a, pair.text_b), (pair.text_b, pair.text_a))
    ]
    return [request(judge, blind, 1) for blind in blinds]


def raw(url: str, bodies: list[dict[str, Any]]) -> None:
    """Send requests that are made already, and keep nothing."""
    left = iter(bodies)

    async def lane(client: openai.AsyncOpenAI) -> None:
        for body in left:
            await client.chat.completions.create(**body)

    async def go() -> None:
        async with openai.AsyncOpenAI(api_key="sk-benchmark", base_url=url, max_retries=0) as client:
            await asyncio.gather(*(lane(client) for _ in range(LANES)))

    asyncio.run(go())


def ours(url: str, pairs: list[Pair]) -> None:
    """Judge a new study, journal and verdicts on disk; then run again, which must send nothing."""
    price = {"usd_per_million_input_tokens": 2.5, "usd_per_million_output_tokens": 10.0}
    judge = Judge(model=MODEL, base_url=url, concurrency=LANES, **price)
    environ = {"OPENAI_API_KEY": "sk-benchmark"}
    with (
        tempfile.TemporaryDirectory(prefix="judge") as folder,
        Store.open(f"sqlite:///{folder}/study.db", create=True) as store,
    ):
        store.add_pairs(pairs)

        def judged() -> int:
            ledger = run_judge(store, judge, seed=1, budget_usd=1000, environ=environ)
            if ledger.failures:
                raise RuntimeError(f"failures without faults: {ledger.failures}")
            return ledger.requests

        taken = timed(judged)
        if judged():
            raise RuntimeError("a finished study was asked about again")
    print(json.dumps({"ours": taken}), flush=True)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return seconds, and seconds of this process's processor time."""
    processor, clock = time.process_time(), time.perf_counter()
    run()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> int:
    """Run both in turns, after a short raw run that does not count, and print a line of JSON for each."""
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("url")
    command.add_argument("--requests", type=int, default=1000)
    command.add_argument("--rounds", type=int, default=5)
    options = command.parse_args()
    pairs = pairs_of(options.requests // 2)
    bodies = bodies_of(pairs)
    raw(options.url, bodies[:64])
    for _ in range(options.rounds):
        print(json.dumps({"raw": timed(lambda: raw(options.url, bodies))}), flush=True)
        ours(options.url, pairs)
    print(json.dumps({"raw": timed(lambda: raw(options.url, bodies))}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
