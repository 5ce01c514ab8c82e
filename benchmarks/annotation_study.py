"""A made study for the annotation benchmark: its folder, its database and an invite per rater.

Every text carries a mark such as `no17a`: the prompt of pair 17 has `p`, the first method's text `a`, the
second's `b`. By the marks a client knows which pair it was shown and which side is whose, whatever the page
is made of; a rater's page would of course never say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import guard_eval
from guard_eval.records import Pair
from guard_eval.store import Store
from guard_eval.study import Study

METHODS = {"a": "top_k(k=50)", "b": "top_p(p=0.95)"}
MARK = re.compile(rb"\bno(\d+)([pab])\b")
CRITERIA = ("coherence", "fluency")

_TOML = """
name = "benchmark"
seed = 1
{database}
[model]
name = "bundled"

[generation]
strategies = ["{a}", "{b}"]

[pairs]
compare = [["{a}", "{b}"]]

[annotation]
criteria = {criteria}
raters_per_pair = {overlap}
{more}
"""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A study on disk.

    Attributes:
        folder: Where `guard-eval annotate` finds it.
        pairs: Its pairs, by the number in their marks.
        tokens: The invites, by rater.
    """

    folder: Path
    pairs: list[Pair]
    tokens: dict[str, str]

    def open(self) -> Store:
        """Return its store."""
        return Store.open(Study.open(self.folder).database)


def make(
    folder: Path,
    *,
    raters: int,
    overlap: int,
    pairs: int = 150,
    database: str | None = None,
    settings: str = "",
) -> Made:
    """Make a study.

    Args:
        folder: Where; it is made.
        raters: How many are invited.
        overlap: How many of them rate each pair.
        pairs: How many pairs there are.
        database: A server's URL; default: the study's own SQLite file.
        settings: More lines for the end of study.toml, in its table `[annotation]`.
    """
    folder.mkdir(parents=True)
    url = f"database = {json.dumps(database)}" if database else ""
    text = _TOML.format(
        **METHODS, criteria=json.dumps(CRITERIA), overlap=overlap, database=url, more=settings
    )
    (folder / "study.toml").write_text(text, encoding="utf-8")
    made = _pairs(pairs)
    with Store.open(Study.open(folder).database, create=True) as store:
        store.add_pairs(made)
        names = [f"rater-{number:03d}" for number in range(raters)]
        tokens = {name: store.invite(name)[1] for name in names}
    return Made(folder=folder, pairs=made, tokens=tokens)


def _pairs(count: int) -> list[Pair]:
    """Return pairs as long as the paper's: prompts of 35 to 200 words, continuations of about 190."""
    rng = np.random.default_rng(1)
    lines = (Path(guard_eval.__file__).parent / "demo" / "prompts.jsonl").read_text(encoding="utf-8")
    words = [word for line in lines.splitlines() for word in json.loads(line)["prompt"].split()]

    def text(number: int, letter: str, length: int) -> str:
        chosen = rng.choice(words, length).tolist()
        # A paragraph now and then, and the mark among the first words.
        chosen[0] = f"{chosen[0]} no{number}{letter}"
        chosen[length // 2] += ".\n\n"
        return " ".join(chosen)

    return [
        Pair(
            id=Pair.make_id(METHODS["a"], METHODS["b"], f"made-{number}-a", f"made-{number}-b"),
            dataset="made",
            prompt_id=f"made-{number}",
            prompt=text(number, "p", int(rng.integers(35, 200))),
            method_a=METHODS["a"],
            method_b=METHODS["b"],
            continuation_a=f"made-{number}-a",
            continuation_b=f"made-{number}-b",
            text_a=text(number, "a", int(rng.integers(170, 210))),
            text_b=text(number, "b", int(rng.integers(170, 210))),
            position=number,
        )
        for number in range(count)
    ]
