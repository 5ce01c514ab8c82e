"""How fast the analysis is: its statistics at a million items, and whole reports.

From the repository's root, on a machine that does nothing else:

    python benchmarks/analysis_speed.py             # some minutes
    python benchmarks/analysis_speed.py --quick     # does it run? (times mean nothing)

Ratios are of runs in turns in one process. (Were this file named `analysis.py`, every script beside it that
imports the package `analysis` would get this file instead.)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import krippendorff as peer
import numpy as np
import pandas as pd
from common import Turns, compare, heading, line, load, parser
from numpy.typing import NDArray
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from analysis.stats.agreement import fleiss, gwet, krippendorff
from analysis.stats.counts import from_verdicts
from analysis.stats.ranks.bootstrap import tally
from analysis.stats.ranks.davidson import davidson
from analysis.stats.resampling import win_share_bootstrap

Verdicts = NDArray[np.int8]
RATERS = 5
METHODS = 20
REPLICATES = 10_000
SEED = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Time everything and print Markdown."""
    command = parser(__doc__)
    command.add_argument("--items", type=int, default=1_000_000, help="items, comparisons and verdicts")
    command.add_argument("--rounds", type=int, default=21)
    command.add_argument("--only", choices=("statistics", "reports"), help="half of it")
    options = command.parse_args(arguments)
    if options.quick:
        options.items, options.rounds = 2000, 3
    print(f"{load()}; numpy {np.__version__}, pandas {pd.__version__}")
    if options.only != "reports":
        agreement(options.items, options.rounds)
        bootstrap(options.items, options.rounds)
        ranking(options.items, options.rounds)
    if options.only != "statistics":
        reports(options.items)
    return 0


def begin(what: str) -> None:
    """Print a table's head."""
    print("\n" + heading(what, "A, ms", "B, ms", "B / A", "rounds", ""))


def row(name: str, turns: Turns, note: str = "") -> None:
    """Print what two things took."""
    shown = (f"{1e3 * seconds:.1f}" for seconds in turns.medians)
    print(line([name, *shown, turns.shown(), len(turns.ratios), note]), flush=True)


def verdicts_of(items: int) -> Verdicts:
    """Return verdicts 0 to 2, [items, raters], each rater's contiguous, that agree moderately."""
    rng = np.random.default_rng(SEED)
    latent = rng.normal(size=items)[:, None] + rng.normal(size=(items, RATERS))
    return np.asfortranarray(np.digitize(latent, (-0.6, 0.4)).astype(np.int8))


def coefficients(verdicts: Verdicts) -> tuple[float, float, float]:
    """Return Fleiss' κ, Krippendorff's α and Gwet's AC1, which carry their intervals."""
    patterns = from_verdicts(verdicts, categories=3)
    found = fleiss(patterns).value, krippendorff(patterns).value, gwet(patterns).value
    return tuple(np.nan if value is None else value for value in found)  # type: ignore[return-value]


def agreement(items: int, rounds: int) -> None:
    """Time κ, α and AC1 with intervals over one pass, and others over ours."""
    verdicts = verdicts_of(items)
    kappa, alpha, _ = coefficients(verdicts)

    def statsmodels_kappa() -> float:
        return fleiss_kappa(aggregate_raters(verdicts)[0])

    def peer_alpha() -> float:
        return peer.alpha(verdicts.T, level_of_measurement="nominal")

    def ours() -> object:
        return coefficients(verdicts)

    begin(f"{items} items × {RATERS} raters, int8")
    one_pass = compare(verdicts.sum, ours, rounds=rounds)
    row("A: the sum of the array; B: κ, α and AC1 with intervals", one_pass, "goal ≤ 10")
    greatest = compare(verdicts.max, ours, rounds=rounds)
    row("A: the array's greatest value, the fastest pass; B: the same", greatest)
    for name, run, mine in (
        ("statsmodels: aggregate_raters, fleiss_kappa", statsmodels_kappa, kappa),
        ("krippendorff: alpha, nominal", peer_alpha, alpha),
    ):
        off = f"differs by {abs(run() - mine):.0e}"
        row(f"A: κ, α and AC1 with intervals; B: {name}", compare(ours, run, rounds=3), off)


def bootstrap(items: int, rounds: int) -> None:
    """Time the item bootstrap, and drawing rows of a hundredth as many items."""
    verdicts = verdicts_of(items)
    scores = (verdicts == 2).sum(axis=1) - (verdicts == 0).sum(axis=1)
    raters = np.full(items, RATERS)
    strata = np.arange(items) % 3
    few = max(30, items // 100)

    def ours(n: int) -> Callable[[], object]:
        return lambda: win_share_bootstrap(
            scores[:n], raters[:n], strata[:n], replicates=REPLICATES, seed=SEED
        )

    def rows() -> object:
        return by_rows((1 + scores[:few] / raters[:few]) / 2, strata[:few])

    begin(f"{REPLICATES} replicates, 3 strata")
    row(
        f"A: ours, {few} items; B: ours, {items} items",
        compare(ours(few), ours(items), rounds=rounds),
        "goal: B ≤ 500 ms",
    )
    row(f"A: ours, {few} items; B: row by row, {few} items", compare(ours(few), rows, rounds=2))


def by_rows(shares: NDArray[np.float64], strata: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the limits of a bootstrap that draws the items of each stratum themselves."""
    rng = np.random.default_rng(SEED)
    groups = [shares[strata == own] for own in range(3)]
    means = [
        sum(group[rng.integers(0, len(group), len(group))].sum() for group in groups) / len(shares)
        for _ in range(REPLICATES)
    ]
    return np.quantile(means, [0.025, 0.975])


def ranking(comparisons: int, rounds: int) -> None:
    """Time Davidson's model on counts, and the counting."""
    rng = np.random.default_rng(SEED)
    strengths = np.linspace(-1, 1, METHODS)
    first = rng.integers(0, METHODS, comparisons)
    second = (first + rng.integers(1, METHODS, comparisons)) % METHODS
    points = np.digitize(strengths[first] - strengths[second] + rng.logistic(size=comparisons), (-0.7, 0.7))
    item = np.zeros(comparisons, dtype=np.int64)
    names = [f"method {number}" for number in range(METHODS)]

    def count() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        table_of = tally(item, first, second, points, items=1, methods=METHODS)[0]
        wins, ties = np.zeros((2, METHODS, METHODS))
        low, high = np.triu_indices(METHODS, 1)
        wins[low, high], wins[high, low] = table_of[:, 0], table_of[:, 2]
        ties[low, high] = ties[high, low] = table_of[:, 1]
        return wins, ties

    wins, ties = count()
    begin(f"{METHODS} methods, {comparisons} comparisons")
    fit = compare(count, lambda: davidson(wins, ties, names), rounds=rounds)
    row("A: counting them; B: Davidson's model on the counts", fit, "goal: B ≤ 20 ms")


def reports(most: int) -> None:
    """Time `guard-eval report` from start to end, with the memory it takes and what it writes."""
    heads = ("processor, s", "wall, s", "most memory, GB", "files", "MB", "goal")
    print("\n" + heading("`guard-eval report`", *heads))
    cases: dict[str, tuple[Callable[[], pd.DataFrame], str]] = {
        "600 verdicts, the seven columns": (lambda: tidy(600, full=False), "4 s"),
        "600 verdicts, all columns": (lambda: tidy(600, full=True), "4 s"),
        "5 methods, 4970 verdicts": (lambda: several(5, 4970), ""),
        "20 methods, 2850 verdicts": (lambda: several(20, 2850), "10 s, 40 files"),
        "59 methods, 8931 verdicts": (lambda: several(59, 8931), "30 s, 60 files, 10 MB"),
        f"{most} verdicts, 25 raters on each pair": (lambda: crossed(most), "20 s"),
        f"{most} verdicts, the seven columns": (lambda: tidy(most, full=False), "20 s, 4 GB"),
        f"{most} verdicts, all columns": (lambda: tidy(most, full=True), "60 s, 4 GB"),
    }
    for name, (made, goal) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "verdicts.csv"
            made().to_csv(path, index=False)
            wall, processor, memory = watched(path)
            files = [one for one in (path.parent / "report").rglob("*") if one.is_file()]
            size = sum(one.stat().st_size for one in files) / 1e6
        shown = f"{processor:.1f}", f"{wall:.1f}", f"{memory:.2f}", str(len(files)), f"{size:.1f}"
        print(line([name, *shown, goal]), flush=True)


def watched(path: Path) -> tuple[float, float, float]:
    """Report on a file in a process of its own; return its seconds, the processor's, and its gigabytes."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "guard_eval", "report", path, "--output", path.parent / "report"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"guard-eval report left with {process.returncode}")
    kilobyte = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes there
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * kilobyte / 1e9


def tidy(verdicts: int, *, full: bool) -> pd.DataFrame:
    """Return a study's table: two criteria, three datasets, three or four of ten people on each pair."""
    rng = np.random.default_rng(SEED)
    pairs = verdicts // 6 + 1
    per_pair = rng.integers(3, 5, pairs)
    pair = np.repeat(np.arange(pairs), per_pair)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(per_pair) - per_pair, per_pair)
    rater = (np.repeat(rng.integers(0, 10, pairs), per_pair) + 3 * place) % 10
    pair, rater = (np.repeat(column, 2)[:verdicts] for column in (pair, rater))
    latent = rng.normal(0.1, 0.8, pairs)[pair] + rng.normal(0, 0.9, verdicts)
    made = pd.DataFrame(
        {
            "pair_id": [f"{number:010x}" for number in pair],
            "dataset": np.array(["wikitext", "wikinews", "book"])[pair % 3],
            "method_a": "guard",
            "method_b": "acs(q=1)",
            "rater": [f"rater-{number:02}" for number in rater],
            "criterion": np.array(["coherence", "fluency"])[np.arange(verdicts) % 2],
            "verdict": np.array(["acs(q=1)", "tie", "guard"])[np.digitize(latent, (-0.5, 0.5))],
        }
    )
    if not full:
        return made
    showing = np.arange(verdicts) // 2
    first = rng.random(len(showing)) < 0.5
    return made.assign(
        rater_kind="person",
        presentation=[f"showing-{number}" for number in showing],
        shown_first=np.where(first[showing], "guard", "acs(q=1)"),
        seconds=rng.gamma(4, 8, verdicts).round(2),
        active_seconds=rng.gamma(4, 7, verdicts).round(2),
        at=[f"2026-03-01T10:{number // 60 % 60:02}:{number % 60:02}+00:00" for number in showing],
        length_a=rng.integers(80, 300, pairs)[pair],
        length_b=rng.integers(80, 300, pairs)[pair],
    )


def several(methods: int, verdicts: int) -> pd.DataFrame:
    """Return one criterion, three people on each pair, the two methods of a pair drawn at random."""
    rng = np.random.default_rng(SEED)
    pairs = verdicts // 3
    first = rng.integers(0, methods, pairs)
    second = (first + rng.integers(1, methods, pairs)) % methods
    low, high = np.minimum(first, second), np.maximum(first, second)
    pair = np.repeat(np.arange(pairs), 3)
    quality = np.linspace(0.6, -0.6, methods)
    latent = (quality[low] - quality[high] + rng.normal(0, 0.6, pairs))[pair] + rng.normal(0, 1, 3 * pairs)
    names = np.array([f"method-{number:02}" for number in range(methods)])
    a, b = names[low[pair]], names[high[pair]]
    return pd.DataFrame(
        {
            "pair_id": [f"{number:05x}" for number in pair],
            "prompt_id": [f"prompt-{number % max(2, pairs // 4)}" for number in pair],
            "dataset": np.array(["wikitext", "wikinews", "book"])[pair % max(2, pairs // 4) % 3],
            "method_a": a,
            "method_b": b,
            "rater": [f"rater-{number % 3}" for number in range(3 * pairs)],
            "criterion": "coherence",
            "verdict": np.select([latent > 0.5, latent < -0.5], [a, b], "tie"),
        }
    )


def crossed(verdicts: int) -> pd.DataFrame:
    """Return one criterion, 25 people each of whom rates every pair."""
    rng = np.random.default_rng(SEED)
    pairs = verdicts // 25
    pair, rater = np.repeat(np.arange(pairs), 25), np.tile(np.arange(25), pairs)
    latent = rng.normal(0.05, 0.8, pairs)[pair] + rng.normal(0, 0.9, len(pair))
    return pd.DataFrame(
        {
            "pair_id": [f"{number:08x}" for number in pair],
            "dataset": np.array(["wikitext", "wikinews", "book"])[pair % 3],
            "method_a": "guard",
            "method_b": "acs(q=1)",
            "rater": [f"rater-{number:02}" for number in rater],
            "criterion": "coherence",
            "verdict": np.array(["acs(q=1)", "tie", "guard"])[np.digitize(latent, (-0.5, 0.5))],
        }
    )


if __name__ == "__main__":
    sys.exit(main())
