"""Studies for tests of the app, a server and a browser. Only tests can tell which method wrote a text."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import factories
import pytest
from app_browser import (
    ARGUMENTS,
    CHROMIUM,
    DESKTOP,
    FIRST_WORD,
    HOSTILE,
    LONG,
    SECOND_WORD,
    ServedStudy,
    close_instructions,
    serve_study,
)
from databases import format_database_line

from guard_eval.records import Gold, Pair
from guard_eval.store import Store, notes, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store import raters as store_raters
from guard_eval.store.schema import query
from guard_eval.study.folder import Study

SEED = 902104577
DATASET = "wikinews-heldout"
FIRST, SECOND = "contrastive(k=10, alpha=0.6)", "top_k(k=50)"

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
{more}
"""

FILES = """[[system]]
name = "{first}"
file = "texts/first.jsonl"

[[system]]
name = "{second}"
file = "texts/second.jsonl"
"""
"""Systems whose texts are in files. They replace the model and its strategies."""

_SENTENCES = (
    "The river had risen in the night and the lower road was under water by the time the bus came round the "
    "bend. Nobody spoke for a while, and then the driver switched off the engine and said that we would have "
    "to walk. It was {word} weather, he said, the kind that makes the hills look closer than they are. The "
    "older passengers laughed, took their bags from the rack and followed him along the bank, where the "
    "reeds lay flat and a heron stood as if it had been put there."
)


@dataclass(frozen=True)
class BuiltStudy:
    """A study on disk: the folder, the pairs and a token per rater."""

    folder: Path
    pairs: list[Pair]
    tokens: dict[str, str]
    seed: int = SEED
    dataset: str = DATASET
    first: str = FIRST
    second: str = SECOND

    @property
    def database(self):
        return Study.open(self.folder).database

    def open(self):
        return Store.open(self.database)

    def stored(self, what="tidy", **chosen):
        """Read data from the study's store."""
        reads = {"tidy": unblind.read_tidy_rows, "history": unblind.read_verdict_history}
        reads |= {"notes": notes.read_notes, "raters": store_raters.read_rater_progress}
        with self.open() as store:
            return reads[what](store, **chosen)

    def age(self):
        """Change the database as if all pairs had been handed out two days earlier."""
        with self.open() as store, store.begin_write() as (db, now):
            query("UPDATE presentation SET handed_out = :now")(db, now=now - timedelta(days=2))

    @property
    def hand_out_plan(self):
        return Study.open(self.folder).hand_out_plan


def make_text(word, number):
    """Return a text as a model writes it, with a leading space."""
    return " " + _SENTENCES.format(word=f"{word} {number}") + "\n"


def make_pair(number, **changes):
    """Return a pair. Only tests can tell which method wrote each text."""
    texts = {
        "prompt": f"Story {number}. We had been told that the valley would be dry at this time of the year.",
        "text_a": make_text(FIRST_WORD, number),
        "text_b": make_text(SECOND_WORD, number),
    }
    names = {"method_a": FIRST, "method_b": SECOND, "dataset": DATASET, "prompt_id": f"heldout-{number:04d}"}
    ids = f"c0ffee{number:010d}", f"deface{number:010d}"
    return factories.make_pair(number, ids=ids, **names, **(texts | changes))


def make_gold(number):
    """Return a pair with a clear answer. Its names are not used anywhere else."""
    pair = factories.make_pair(
        number,
        ids=(f"a11cab1e{number:08d}", f"b0a710ad{number:08d}"),
        method_a="written-by-hand",
        method_b="nothing-at-all",
        dataset="attention-probes",
        prompt_id=f"probe-{number:04d}",
        prompt=f"Letter {number}. Dear aunt, we have arrived at last, and the house is as you said.",
        text_a="The stove draws well, and from the kitchen one sees the sea.",
        text_b=" \n",
    )
    return Gold(pair=pair, expected={"fluency": "a"})


def build_study(
    folder,
    pairs,
    *,
    raters=("ann",),
    slots=2,
    criteria=("coherence", "fluency"),
    gold=(),
    more="",
    new_database=None,
    of_files=False,
):
    """Write a study to disk. `more` has additional lines for the table [annotation].

    The systems are strategies of a model, or files with `of_files`.

    `new_database` makes the database, as the fixture with this name does. Default: the file in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database = "" if new_database is None else format_database_line(new_database(folder))
    named = "[" + ", ".join(f'"{name}"' for name in criteria) + "]"
    template = TOML
    if of_files:
        template = TOML[: TOML.index("[model]")] + FILES + TOML[TOML.index("[pairs]") :]
    settings = template.format(seed=SEED, first=FIRST, second=SECOND, criteria=named, slots=slots, more=more)
    (folder / "study.toml").write_text(database + settings, encoding="utf-8")
    with Store.open(Study.open(folder).database, create=True) as store:
        if pairs:
            store_pairs.add_pairs(store, pairs)
        if gold:
            store_pairs.add_gold_pairs(store, gold)
        tokens = {name: store_raters.invite_rater(store, name)[1] for name in raters}
    return BuiltStudy(folder, pairs, tokens)


def build_hostile_study(folder, *, number, hostile, gold=0, **options):
    """Build a study of `number` ordinary pairs, one hostile pair, and `gold` gold pairs."""
    pairs = [make_pair(i) for i in range(number)]
    pairs.append(make_pair(number, text_a=hostile[0], text_b=hostile[1]))
    return build_study(folder, pairs, gold=[make_gold(i) for i in range(gold)], **options)


@pytest.fixture(scope="session")
def served(
    databases,
    tmp_path_factory,
    pytestconfig,
):
    """Serve a study of three pairs, the last one hostile, with a gold pair and a repeated pair."""
    folder = tmp_path_factory.mktemp("served")
    kind = pytestconfig.getoption("database") or "sqlite"
    built = build_hostile_study(
        folder / "study",
        number=2,
        hostile=(HOSTILE, LONG),
        gold=1,
        raters=(),
        slots=20,
        more="gold_every = 3\nrepeats = 1",
        new_database=lambda study_made: databases.new(kind, study_made),
    )
    log = folder / "log"
    with serve_study(built.folder, log) as url:
        yield ServedStudy(built, url)
    written = log.read_text()
    assert not [text for text in (*built.tokens.values(), FIRST_WORD, "Traceback") if text in written]


@pytest.fixture(scope="session")
def shared_browser():
    """Start Debian's browser once. All tests share its cache, because Streamlit's files are large.

    Between tests, Playwright's event loop must not appear to be running, or no other event loop could start.
    """
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing; run: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        loop = asyncio.get_running_loop()
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        shared = SimpleNamespace(browser=browser, desktop=browser.new_context(**DESKTOP), loop=loop)
        asyncio._set_running_loop(None)
        yield shared
        asyncio._set_running_loop(loop)
        browser.close()


@pytest.fixture
def chromium(shared_browser):
    """Return the browser for one test."""
    asyncio._set_running_loop(shared_browser.loop)
    yield shared_browser.browser
    asyncio._set_running_loop(None)


@pytest.fixture
def visit(chromium, shared_browser, served):
    """Open a tab. With a name, sign in and go to the first pair. With options, use another browser."""
    opened = []

    def open_page(name="", **options):
        context = chromium.new_context(**{**DESKTOP, **options}) if options else shared_browser.desktop
        page = context.new_page()
        opened.append(context if options else page)
        page.set_default_timeout(15_000)
        if name:
            page.goto(served.link(name))
            close_instructions(page)
        return page

    yield open_page
    for thing in opened:
        thing.close()
