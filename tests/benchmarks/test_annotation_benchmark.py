"""The annotation benchmark's client can rate, and its check finds what is lost. No test looks at times."""

import asyncio
import shutil
import subprocess

import pytest
from sqlalchemy import create_engine, insert

from guard_eval.store import handout, raters, schema, verdicts
from guard_eval.study.folder import Study

pytest.importorskip("streamlit", reason="streamlit is not installed")

pytestmark = pytest.mark.slow


@pytest.fixture
def client(load):
    return load("annotation_client")


@pytest.fixture
def compare(load):
    """Compare a log with a database: what is acknowledged, lost and doubled."""

    def counts(study, log):
        result = load("annotation_server").compare(study, log)
        return result.acknowledged, result.lost, result.doubled

    return counts


@pytest.fixture
def rated(client, tmp_path):
    """A study of four pairs, three of them rated by one rater in the store itself, and that rater's log."""
    study = client.make(tmp_path / "study", raters=2, overlap=2, pairs=4)
    log, plan = client.Log(), Study.open(study.folder).plan
    with study.open() as store:
        rater = raters.sign_in(store, study.tokens["rater-000"])
        for _ in range(3):
            (blind,) = handout.claim(store, rater, plan)
            number = int(client.MARK.search(blind.prompt.encode())[1])
            first = client.MARK.search(blind.text_a.encode())[2].decode()
            verdicts.save(store, blind.presentation, {"coherence": "A", "fluency": "tie"}, rater=rater)
            log.acknowledged["rater-000", number, "coherence"] = client.METHODS[first]
            log.acknowledged["rater-000", number, "fluency"] = "tie"
    log.pressed |= set(log.acknowledged)
    return study, log


def test_the_check_finds_what_is_lost_and_what_is_stored_twice(compare, rated):
    study, log = rated
    assert compare(study, log) == (3, 0, 0)
    with create_engine(Study.open(study.folder).database).begin() as connection:
        row = connection.execute(schema.VERDICT.select()).first()
        connection.execute(insert(schema.VERDICT).values({**row._mapping, "revision": 1}))
    assert compare(study, log) == (3, 0, 1)
    # One rating that never reached the database, and one that stands there as another verdict.
    (unrated,) = set(range(4)) - {number for _, number, _ in log.acknowledged}
    other = next(key for key in log.acknowledged if key[2] == "fluency")
    log.acknowledged |= {("rater-000", unrated, "fluency"): "tie", other: "top_k(k=50)"}
    assert compare(study, log)[1] == 2


def test_a_client_rates_a_whole_study_on_the_real_page(load, client, compare, tmp_path):
    """Fails when the page changes and `annotation_client.py` does not."""

    async def rate_all(study, url):
        log = client.Log()
        rater = client.Rater(study, "rater-000", url, log)
        await rater.enter()
        for _ in range(4):
            await rater.rate()
        assert rater.view.ended
        await client.leave([rater])
        return log

    size = {"raters": 1, "overlap": 1, "pairs": 4}
    with load("annotation").serving(tmp_path, **size) as (study, server):
        log = asyncio.run(rate_all(study, server.url))
        assert server.tracebacks() == 0
    assert log.counts.total() == 0
    assert compare(study, log) == (4, 0, 0)


def test_the_documented_configuration_takes_several_servers(load, tmp_path):
    shown = load("annotation_server").documented(tmp_path, port=4443, servers=[5001, 5002])
    assert "    server 127.0.0.1:5001 max_fails=0;\n    server 127.0.0.1:5002 max_fails=0;\n" in shown
    assert f"ssl_certificate     {tmp_path}/fullchain.pem;" in shown
    for other in ("8501", "/etc/", "/var/", "listen 443", "listen 80;"):
        assert other not in shown


@pytest.mark.skipif(
    shutil.which("nginx") is None or shutil.which("openssl") is None,
    reason="nginx or openssl is not installed; run: apt-get install nginx-light openssl",
)
def test_nginx_takes_the_documented_configuration(load, tmp_path):
    nginx = load("annotation_server")
    nginx.configure(tmp_path, port=4443, servers=[5001, 5002])
    done = subprocess.run([*nginx.command(tmp_path), "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr
