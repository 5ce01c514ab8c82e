"""The annotation benchmark's client can rate, and its check finds what is lost. No test looks at times."""

import asyncio
import importlib
from pathlib import Path

import pytest
from sqlalchemy import create_engine, insert

from guard_eval.store import schema
from guard_eval.study.folder import Study

pytest.importorskip("streamlit", reason="streamlit is not installed")

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports one of the benchmark's modules, whose folder is no package."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.fixture
def rated(load, tmp_path):
    """A study of four pairs, three of them rated by one rater, and that rater's log."""
    made, raters = load("annotation_client"), load("annotation_client")
    study = made.make(tmp_path / "study", raters=2, overlap=2, pairs=4)
    log = raters.Log()
    plan = Study.open(study.folder).plan
    with study.open() as store:
        rater = store.sign_in(study.tokens["rater-000"])
        for _ in range(3):
            (blind,) = store.hand_out(rater, plan)
            number = int(made.MARK.search(blind.prompt.encode())[1])
            first = made.MARK.search(blind.text_a.encode())[2].decode()
            store.save(blind.presentation, {"coherence": "A", "fluency": "tie"}, rater=rater)
            verdicts = {"coherence": made.METHODS[first], "fluency": "tie"}
            log.acknowledged |= {(rater.name, number, name): verdict for name, verdict in verdicts.items()}
    log.pressed |= set(log.acknowledged)
    return study, log


def test_what_was_acknowledged_is_there_once(load, rated):
    found = load("annotation_server").compare(*rated)
    assert (found.acknowledged, found.lost, found.doubled, found.unasked, found.in_doubt) == (3, 0, 0, 0, 0)


def test_the_check_finds_what_is_lost(load, rated):
    study, log = rated
    # One rating that never reached the database, and one that stands there as another verdict.
    (unrated,) = set(range(4)) - {number for _, number, _ in log.acknowledged}
    log.acknowledged["rater-000", unrated, "fluency"] = "tie"
    other = next(key for key in log.acknowledged if key[1] != unrated and key[2] == "fluency")
    log.acknowledged[other] = "top_k(k=50)"
    assert load("annotation_server").compare(study, log).lost == 2


def test_the_check_finds_what_is_there_twice_or_was_never_sent(load, rated):
    study, log = rated
    engine = create_engine(Study.open(study.folder).database)
    with engine.begin() as connection:
        row = connection.execute(schema.verdict.select()).first()
        connection.execute(insert(schema.verdict).values({**row._mapping, "revision": 1}))
    engine.dispose()
    sent = log.pressed.copy()
    key = next(iter(sent))
    log.pressed = {other for other in sent if other[1] != key[1]}
    found = load("annotation_server").compare(study, log)
    assert (found.lost, found.doubled, found.unasked) == (0, 1, 1)


def test_a_rating_in_doubt_may_be_stored(load, rated):
    study, log = rated
    number = next(iter(log.acknowledged))[1]
    log.acknowledged = {key: verdict for key, verdict in log.acknowledged.items() if key[1] != number}
    found = load("annotation_server").compare(study, log)
    assert (found.acknowledged, found.lost, found.doubled, found.unasked, found.in_doubt) == (2, 0, 0, 0, 1)


def test_a_client_rates_a_whole_study_on_the_real_page(load, tmp_path):
    """Fails when the page changes and `annotation_client.py` does not."""
    raters, loading = load("annotation_client"), load("annotation")

    async def rate_all(study, url):
        log = raters.Log()
        (rater,) = await raters.gather(study, url, log, 1)
        for _ in range(4):
            await rater.rate()
        assert rater.view.ended
        await raters.leave([rater])
        return log

    with loading.serving(tmp_path, raters=1, overlap=1, pairs=4) as (study, server):
        log = asyncio.run(rate_all(study, server.url))
        assert server.tracebacks() == 0
    assert log.counts.total() == 0
    found = load("annotation_server").compare(study, log)
    assert (found.acknowledged, found.lost, found.doubled, found.unasked) == (4, 0, 0, 0)
