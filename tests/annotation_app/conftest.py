"""A study with pairs whose texts tell the test, but nobody else, which method wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import streamlit as st

from annotation_app import session
from annotation_app.launch import STUDY_VARIABLE
from guard_eval.records import Pair
from guard_eval.store import Plan, Store
from guard_eval.study import Study

SEED = 902104577
DATASET = "wikinews-heldout"
FIRST, SECOND = "contrastive(k=10, alpha=0.6)", "top_k(k=50)"
FIRST_WORD, SECOND_WORD = "marigold", "thistle"

TOML = """
name = "contrastive against top_k"
seed = {seed}

[model]
name = "bundled"

[generation]
strategies = ["{first}", "{second}"]

[pairs]
compare = [["{first}", "{second}"]]

[annotation]
criteria = {criteria}
raters_per_pair = {slots}
lease_minutes = 30
"""

_SENTENCES = (
    "The river had risen in the night and the lower road was under water by the time the bus came round the "
    "bend. Nobody spoke for a while, and then the driver switched off the engine and said that we would have "
    "to walk. It was {word} weather, he said, the kind that makes the hills look closer than they are. The "
    "older passengers laughed, took their bags from the rack and followed him along the bank, where the "
    "reeds lay flat and a heron stood as if it had been put there. Half an hour later we saw the lights of "
    "the village, and someone began to sing."
)


@dataclass(frozen=True)
class Built:
    """A study on disk: its folder, its pairs and a token per rater."""

    folder: Path
    pairs: list[Pair]
    tokens: dict[str, str]
    seed: int = SEED
    dataset: str = DATASET
    first: str = FIRST
    second: str = SECOND
    first_word: str = FIRST_WORD

    def open(self) -> Store:
        return Store.open(Study.open(self.folder).database)

    @property
    def plan(self) -> Plan:
        asked = Study.open(self.folder).settings
        return Plan(
            seed=asked.seed,
            slots=asked.annotation.raters_per_pair,
            lease=timedelta(minutes=asked.annotation.lease_minutes),
        )


def text_of(word: str, number: int) -> str:
    return _SENTENCES.format(word=f"{word} {number}")


def make_pair(
    number: int, *, text_a: str | None = None, text_b: str | None = None, prompt: str | None = None
) -> Pair:
    ids = f"c0ffee{number:010d}", f"deface{number:010d}"
    return Pair(
        id=Pair.make_id(FIRST, SECOND, *ids),
        dataset=DATASET,
        prompt_id=f"heldout-{number:04d}",
        prompt=prompt
        or f"Story {number}. We had been told that the valley would be dry at this time of the year.",
        method_a=FIRST,
        method_b=SECOND,
        continuation_a=ids[0],
        continuation_b=ids[1],
        text_a=text_of(FIRST_WORD, number) if text_a is None else text_a,
        text_b=text_of(SECOND_WORD, number) if text_b is None else text_b,
        position=number,
    )


def build(
    folder: Path,
    pairs: list[Pair],
    *,
    raters: tuple[str, ...] = ("ann",),
    slots: int = 2,
    criteria: tuple[str, ...] = ("coherence", "fluency"),
) -> Built:
    folder.mkdir(parents=True, exist_ok=True)
    named = "[" + ", ".join(f'"{name}"' for name in criteria) + "]"
    settings = TOML.format(seed=SEED, first=FIRST, second=SECOND, criteria=named, slots=slots)
    (folder / "study.toml").write_text(settings, encoding="utf-8")
    with Store.open(Study.open(folder).database, create=True) as store:
        if pairs:
            store.add_pairs(pairs)
        tokens = {name: store.invite(name)[1] for name in raters}
    return Built(folder, pairs, tokens)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Built]]:
    """Build a study in a temporary folder and point the page at it."""

    def make(number: int = 3, **options: object) -> Built:
        pairs = [make_pair(i) for i in range(number)]
        built = build(tmp_path / "study", pairs, **options)  # type: ignore[arg-type]
        monkeypatch.setenv(STUDY_VARIABLE, str(built.folder))
        return built

    yield make
    if (tmp_path / "study" / "study.db").exists():
        monkeypatch.setenv(STUDY_VARIABLE, str(tmp_path / "study"))
        session.open_desk().store.close()
    st.cache_resource.clear()


@pytest.fixture(scope="session")
def build_study() -> Callable[..., Built]:
    """Build a study of `number` ordinary pairs and a hostile one."""

    def make(folder: Path, *, number: int, hostile: tuple[str, str], **options: object) -> Built:
        pairs = [make_pair(i) for i in range(number)]
        pairs.append(make_pair(number, text_a=hostile[0], text_b=hostile[1]))
        return build(folder, pairs, **options)  # type: ignore[arg-type]

    return make
