"""Measure the store's CPU time to hand out pairs and save verdicts, in one thread, while a study fills.

python benchmarks/store.py                      # 100 000 pairs × 2, 1 000 raters
python benchmarks/store.py --pairs 1000 --calls 500
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from common import make_pair
from sqlalchemy import text

from guard_eval.records import Choice, HandOutPlan, Pair, Rater
from guard_eval.store import Store, handout, pairs, raters, unblind, verdicts

CHOICES: dict[str, Choice] = {"fluency": "A", "coherence": "B"}
T = TypeVar("T")
METHODS = ("guard", "top_k(k=50)", "acs(q=1)", "greedy")
COMPARISONS = [(a, b) for index, a in enumerate(METHODS) for b in METHODS[index + 1 :]]

_FILL = """
INSERT INTO presentation (id, slot_id, pair_id, rater_id, number, first, role, handed_out, rated_at)
SELECT :base + row_number() OVER (ORDER BY shuffle), id, pair_id,
       :filler + number, number, coalesce(first, substr('ab', number % 2 + 1, 1)), 'study', :now, :now
FROM slot WHERE held_by IS NULL AND shuffle < :until
"""
_HOLD = """
UPDATE slot SET held_by = (SELECT id FROM presentation WHERE slot_id = slot.id)
WHERE held_by IS NULL AND shuffle < :until
"""


def make_pairs(count: int) -> list[Pair]:
    """Return pairs that take all comparisons of four methods in turn."""
    texts = ((f"prompt {n}", f"text a {n}", f"text b {n}") for n in range(count))
    return [make_pair(n, COMPARISONS[n % len(COMPARISONS)], pair_texts) for n, pair_texts in enumerate(texts)]


def cpu_ms(function: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU time of a call in milliseconds, and the call's result."""
    start = time.thread_time()
    result = function()
    return 1e3 * (time.thread_time() - start), result


def fill(store: Store, share: float, filler: int) -> None:
    """Store ratings for this share of the pairs: one rater per slot, the first with the id `filler`."""
    with store.begin_write() as (db, now):
        base = db.execute(text("SELECT coalesce(max(id), 0) FROM presentation")).scalar_one()
        parameters = {"base": base, "filler": filler, "until": int(share * 2**31)}
        db.execute(text(_FILL), {**parameters, "now": f"{now:%Y-%m-%d %H:%M:%S.%f}"})
        db.execute(text(_HOLD), {"until": parameters["until"]})


def rate(store: Store, people: list[Rater], plan: HandOutPlan, calls: int) -> str:
    """Claim pairs and save verdicts, and return a line with the times."""
    claims, saves, rng = [], [], random.Random(1)
    for _ in range(calls):
        who = rng.choice(people)
        spent, blind_pairs = cpu_ms(partial(handout.claim_pairs, store, who, plan))
        claims.append(spent)
        if blind_pairs:
            save = partial(verdicts.save_verdict, store, blind_pairs[0].presentation, CHOICES, rater=who)
            spent, _saved = cpu_ms(save)
            saves.append(spent)
    line = f"claim {statistics.median(claims):.2f} (99 %: {sorted(claims)[int(0.99 * calls)]:.2f}) ms"
    return f"{line}, save {statistics.median(saves):.2f} ms, {len(saves)} of {calls} had a pair"


def main() -> None:
    """Print the times for several filled shares of a study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--people", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=1_000)
    options = parser.parse_args()
    plan = HandOutPlan(seed=7, slots=2, lease=timedelta(minutes=30))
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'study.db'}"
        with Store.open(url, create=True) as store:
            made_pairs = make_pairs(options.pairs)
            spent, _ = cpu_ms(lambda: pairs.add_pairs(store, made_pairs, plan))
            print(f"{options.pairs} pairs and their slots: {spent / 1e3:.1f} s")
            people = [raters.get_or_add_rater(store, f"R{n}", "person") for n in range(options.people)]
            fillers = [raters.get_or_add_rater(store, f"F{n}", "person").id for n in range(plan.slots)]
            for share in (0.0, 0.5, 0.998):
                fill(store, share, fillers[0])
                print(f"{share:.1%} full: {rate(store, people, plan, options.calls)}")
            for name, reader in (
                ("tidy", unblind.read_tidy_rows),
                ("raters", raters.read_rater_progress),
                ("pairs", pairs.read_pairs),
            ):
                print(f"{name}: {cpu_ms(partial(reader, store))[0] / 1e3:.2f} s")


if __name__ == "__main__":
    main()
