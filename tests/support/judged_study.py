"""A judged study whose exchanges are known by hand: two judges, failures, a hostile text."""

import json
from dataclasses import dataclass
from pathlib import Path

from factories import make_pair
from fake_openai import FakeOpenAI, answer, failure

from guard_eval.records import Pair
from guard_eval.store import Store
from guard_eval.store import pairs as store_pairs
from guard_eval.study.judge_settings import Judge
from judge.providers.price import find_price
from judge.providers.server import connect_to
from judge.questions import read_left
from judge.run import Run

HOSTILE = (
    "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    "\x1b[31mred\x1b]0;title\x07 \u202egnorw <!--"
)
METHODS = ("guard", "top_k(k=50)")
PAIRS = 12
REFUSED, PROSE, HOSTILE_PAIR = 5, 6, 3
SEED = 11


@dataclass
class Judged:
    """The study's folder, its judges, and its pairs by number."""

    folder: Path
    judges: list[Judge]
    pairs: list[Pair]

    def open(self):
        return Store.open(f"sqlite:///{self.folder / 'study.db'}")


def _pair(number):
    hostile = HOSTILE if number == HOSTILE_PAIR else ""
    return make_pair(
        number,
        ids=(f"a{number}", f"b{number}"),
        dataset="wikitext",
        prompt_id=f"p{number}",
        prompt=f"prompt number {number}.{hostile}",
        text_a=f"first text number {number}{hostile}",
        text_b=f"second text number {number}",
    )


def _act(ask):
    """Judge as the model's name says: always the same text, or always the one that stands first."""
    if ask["model"] == "always-a":
        return answer(ask, json.dumps({"fluency": "A", "coherence": "A"}))
    if f"prompt number {REFUSED}." in ask.words:
        return failure(400, f"no such text {HOSTILE}", code="content_filter")
    if f"prompt number {PROSE}." in ask.words:
        return answer(ask, f"I would rather not. {HOSTILE}")
    fluency = "A" if ask.texts[0].startswith("first") else "B"
    thought = f"<think>I think {HOSTILE} of it.</think>"
    return answer(ask, thought + json.dumps({"fluency": fluency, "coherence": "tie"}))


def judged_study(folder):
    """Make twelve pairs in both orders before two judges."""
    pairs = [_pair(number) for number in range(PAIRS)]
    server = FakeOpenAI()
    server.act = _act
    common = {"base_url": server.url, "criteria": ["fluency", "coherence"], "concurrency": 4}
    cost = {"usd_per_million_input_tokens": 2.0, "usd_per_million_output_tokens": 8.0}
    judges = [
        Judge(model="steady", **common, **cost),
        Judge(model="always-a", name="a judge <img src=x>", **common),
    ]
    (folder / "study.toml").write_text(
        f'name = "s"\nseed = {SEED}\n[model]\nname = "bundled"\n[generation]\nstrategies = {list(METHODS)}\n'
        f"[pairs]\ncompare = [{list(METHODS)}]\n"
        + "".join(
            f"[[judge]]\nmodel = {json.dumps(judge.model)}\nname = {json.dumps(judge.name or judge.model)}\n"
            f'base_url = "{server.url}"\ncriteria = ["fluency", "coherence"]\n'
            for judge in judges
        )
    )
    with Store.open(f"sqlite:///{folder / 'study.db'}", create=True) as store:
        store_pairs.add(store, pairs)
        for judge in judges:
            price = find_price(judge, server.url)
            run = Run(store, judge, seed=SEED, server=connect_to(judge, {}), price=price, pace=0.02)
            run.judge_questions(read_left(store, judge, seed=SEED))
    server.close()
    return Judged(folder=folder, judges=judges, pairs=pairs)
