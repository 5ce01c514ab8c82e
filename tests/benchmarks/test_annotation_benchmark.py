"""The annotation benchmark's client can rate, and its check finds what is lost. No test looks at times."""

import asyncio
import shutil
import subprocess

import psycopg
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
    """Compare a log with a database: what is acknowledged, lost, doubled, unasked, in doubt."""

    def counts(study, log):
        result = load("annotation_server").compare(study, log)
        return result.acknowledged, result.lost, result.doubled, result.unasked, result.in_doubt

    return counts


@pytest.fixture
def rated(client, tmp_path):
    """A study of four pairs, three of them rated by one rater, and that rater's log."""
    study = client.make(tmp_path / "study", raters=2, overlap=2, pairs=4)
    log = client.Log()
    rate(client, study, log, "rater-000", times=3)
    return study, log


def rate(client, study, log, name, *, times):
    """Let a rater rate by the store itself, and write it into the log; return A's less B's first texts."""
    plan, balance = Study.open(study.folder).plan, 0
    with study.open() as store:
        rater = raters.sign_in(store, study.tokens[name])
        for _ in range(times):
            (blind,) = handout.claim(store, rater, plan)
            number = int(client.MARK.search(blind.prompt.encode())[1])
            first = client.MARK.search(blind.text_a.encode())[2].decode()
            balance += 1 if first == "a" else -1
            verdicts.save(store, blind.presentation, {"coherence": "A", "fluency": "tie"}, rater=rater)
            log.acknowledged[name, number, "coherence"] = client.METHODS[first]
            log.acknowledged[name, number, "fluency"] = "tie"
    log.pressed |= set(log.acknowledged)
    return balance


def test_what_was_acknowledged_is_stored_once(compare, rated):
    assert compare(*rated) == (3, 0, 0, 0, 0)


def test_the_check_finds_what_is_lost(compare, rated):
    study, log = rated
    # One rating that never reached the database, and one that stands there as another verdict.
    (unrated,) = set(range(4)) - {number for _, number, _ in log.acknowledged}
    log.acknowledged["rater-000", unrated, "fluency"] = "tie"
    other = next(key for key in log.acknowledged if key[1] != unrated and key[2] == "fluency")
    log.acknowledged[other] = "top_k(k=50)"
    assert compare(study, log)[1] == 2


def test_the_check_finds_what_is_stored_twice_or_was_never_sent(compare, rated):
    study, log = rated
    engine = create_engine(Study.open(study.folder).database)
    with engine.begin() as connection:
        row = connection.execute(schema.verdict.select()).first()
        connection.execute(insert(schema.verdict).values({**row._mapping, "revision": 1}))
    engine.dispose()
    sent = log.pressed.copy()
    key = next(iter(sent))
    log.pressed = {other for other in sent if other[1] != key[1]}
    assert compare(study, log)[1:4] == (0, 1, 1)


def test_a_rating_in_doubt_may_be_stored(compare, rated):
    study, log = rated
    number = next(iter(log.acknowledged))[1]
    log.acknowledged = {key: verdict for key, verdict in log.acknowledged.items() if key[1] != number}
    assert compare(study, log) == (2, 0, 0, 0, 1)


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
    assert compare(study, log) == (4, 0, 0, 0, 0)


# Several servers: the configuration that is documented, and what the check finds on PostgreSQL.


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


@pytest.mark.postgres
def test_the_check_finds_half_ratings_and_counts_sides(load, client, tmp_path, postgres_url):
    study = client.make(tmp_path / "study", raters=2, overlap=2, pairs=4, database=postgres_url)
    log = client.Log()
    sides = {abs(rate(client, study, log, name, times=4)) for name in study.tokens}
    compare = load("annotation_server").compare
    whole = compare(study, log)
    assert (whole.acknowledged, whole.wrong, whole.in_doubt) == (8, 0, 0)
    assert (whole.half, whole.overlap) == (0, {2: 4})
    assert (whole.pair_sides, sum(whole.rater_sides.values())) == ({0: 4}, 2)
    assert set(whole.rater_sides) == sides
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        connection.execute("ALTER TABLE verdict DISABLE TRIGGER USER")
        (first,) = connection.execute("SELECT min(id) FROM presentation").fetchone()
        connection.execute(
            "DELETE FROM verdict WHERE presentation_id = %s AND criterion = 'fluency'", [first]
        )
    spoilt = compare(study, log)
    assert (spoilt.acknowledged, spoilt.lost, spoilt.doubled, spoilt.half) == (8, 1, 0, 1)
