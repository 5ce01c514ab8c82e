"""A made study for the judge's benchmark, the command that judges it, and what its database says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from judge_server import MODEL, PRICES

from guard_eval.records import Pair
from guard_eval.store import Store
from guard_eval.study import Study

METHODS = ("guard", "top_k(k=50)")
KEY = "sk-benchmark"
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
concurrency = 64
usd_per_million_input_tokens = {asked}
usd_per_million_output_tokens = {answered}
"""


def pairs_of(count: int) -> list[Pair]:
    """Return pairs of texts of 300 words, no two alike."""
    return [
        Pair(
            id=Pair.make_id(*METHODS, f"a{number}", f"b{number}"),
            dataset="made",
            prompt_id=f"p{number}",
            prompt=f"prompt {number} " * 20,
            method_a=METHODS[0],
            method_b=METHODS[1],
            continuation_a=f"a{number}",
            continuation_b=f"b{number}",
            text_a=f"text {number} word " * 100,
            text_b=f"other {number} word " * 100,
            position=number,
        )
        for number in range(count)
    ]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the database says.

    Attributes:
        verdicts: Pair × order with a verdict.
        failures: Those that failed, by kind.
        left: Those that have neither.
        usd: What is booked, lost or open requests included.
    """

    verdicts: int
    failures: dict[str, int]
    left: int
    usd: float


@dataclass(frozen=True)
class Made:
    """A study on disk whose judge asks the server at `url`."""

    folder: Path
    pairs: int
    url: str

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start `guard-eval judge`."""
        program = shutil.which("guard-eval", path=str(Path(sys.executable).parent)) or "guard-eval"
        environ = {**os.environ, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": self.url}
        command = [program, "judge", str(self.folder), "--yes", *options]
        out = subprocess.PIPE
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, env=environ)  # noqa: S603 (ours)

    def judge(self, *options: str) -> tuple[int, str, float]:
        """Run `guard-eval judge`; return its code, what it said and its seconds."""
        begun = time.perf_counter()
        process = self.start(*options)
        said, _ = process.communicate(timeout=600)
        return process.returncode, said, time.perf_counter() - begun

    def outcome(self) -> Outcome:
        """Read the database."""
        with Store.open(Study.open(self.folder).database) as store:
            verdicts = sum(rater.rated for rater in store.raters())
            failed = {failure.presentation: failure.kind for failure in store.failures()}
            usd = sum(spend.usd + spend.held_usd for spend in store.spend())
        left = 2 * self.pairs - verdicts - len(failed)
        return Outcome(verdicts=verdicts, failures=dict(Counter(failed.values())), left=left, usd=usd)

    def journalled(self) -> set[str]:
        """Return the request keys whose complete answer is in the journal."""
        with Store.open(Study.open(self.folder).database) as store:
            return store.answered()


def make(folder: Path, *, pairs: int, url: str, database: str | None = None) -> Made:
    """Make a study.

    Args:
        folder: Where; it is made.
        pairs: How many; each is judged in both orders.
        url: The server's.
        database: A database server's URL; default: the study's own SQLite file.
    """
    folder.mkdir(parents=True)
    asked, answered = (1e6 * price for price in PRICES)
    line = f'database = "{database}"' if database else ""
    text = _TOML.format(model=MODEL, asked=asked, answered=answered, database=line)
    (folder / "study.toml").write_text(text, encoding="utf-8")
    with Store.open(Study.open(folder).database, create=True) as store:
        store.add_pairs(pairs_of(pairs))
    return Made(folder, pairs, url)
