"""Several servers of one study: the configuration that is documented, and the benchmark's look at a database.

The run itself, with nginx, two hundred raters and kills, is benchmarks/annotation.py: servers that
start again take as long as a busy machine lets them, and raters would be through before the next kill.
"""

import importlib
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports one of the benchmark's modules, whose folder is no package."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


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
def test_the_database_says_what_is_lost_doubled_and_half(load, tmp_path, postgres_url):
    made, raters = load("annotation_client"), load("annotation_client")
    study = made.make(tmp_path / "study", raters=2, overlap=2, pairs=4, database=postgres_url)
    log, sides = raters.Log(), dict.fromkeys(("rater-000", "rater-001"), 0)
    with study.open() as store:
        for name in sides:
            rater = store.sign_in(study.tokens[name])
            while handed := store.hand_out(rater, Study.open(study.folder).plan):
                number = int(made.MARK.search(handed[0].prompt.encode())[1])
                first = made.MARK.search(handed[0].text_a.encode())[2].decode()
                sides[name] += 1 if first == "a" else -1
                store.save(handed[0].presentation, {"coherence": "A", "fluency": "tie"}, rater=rater)
                log.acknowledged[name, number, "coherence"] = made.METHODS[first]
                log.acknowledged[name, number, "fluency"] = "tie"
    log.pressed |= set(log.acknowledged)
    compare = load("annotation_server").compare

    whole = compare(study, log)
    assert (whole.acknowledged, whole.lost, whole.doubled, whole.unasked, whole.in_doubt) == (8, 0, 0, 0, 0)
    assert (whole.half, whole.overlap, whole.quotas) == (0, {2: 4}, {4: 2})
    assert (whole.pair_sides, sum(whole.rater_sides.values())) == ({0: 4}, 2)
    assert set(whole.rater_sides) == {abs(difference) for difference in sides.values()}

    # one verdict is gone, one is another, one is there twice
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        first, second, third = (
            row[0] for row in connection.execute("SELECT id FROM presentation ORDER BY id LIMIT 3")
        )
        connection.execute(
            "ALTER TABLE verdict DISABLE TRIGGER USER",
        )
        connection.execute(
            "DELETE FROM verdict WHERE presentation_id = %s AND criterion = 'fluency'", [first]
        )
        connection.execute(
            "UPDATE verdict SET choice = 'B' WHERE presentation_id = %s AND criterion = 'fluency'", [second]
        )
        connection.execute(
            "INSERT INTO verdict SELECT presentation_id, criterion, 1, choice, at FROM verdict "
            "WHERE presentation_id = %s AND criterion = 'fluency'",
            [third],
        )
    spoilt = compare(study, log)
    assert (spoilt.acknowledged, spoilt.lost, spoilt.doubled, spoilt.half) == (8, 2, 1, 2)
    log.acknowledged.clear()
    log.pressed = {key for key in log.pressed if key[0] == "rater-000"}
    assert (compare(study, log).unasked, compare(study, log).in_doubt) == (4, 8)
