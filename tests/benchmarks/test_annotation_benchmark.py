"""The annotation benchmark's client can rate, and its servers take the documented configuration."""

import asyncio
import importlib
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed")

pytestmark = pytest.mark.slow


@pytest.fixture
def load(monkeypatch):
    """Return a function that imports one of the benchmarks' modules, whose folder is no package."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module


def test_a_client_rates_a_whole_study_on_the_real_page(load, tmp_path):
    """Fails when the page changes and `annotation_client.py` does not."""
    client = load("annotation_client")

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
    result = load("annotation_server").compare(study, log)
    assert (result.acknowledged, result.lost, result.doubled) == (4, 0, 0)


def test_the_documented_configuration_takes_several_servers(load, tmp_path):
    text = load("annotation_server").documented(tmp_path, port=4443, servers=[5001, 5002])
    assert "    server 127.0.0.1:5001 max_fails=0;\n    server 127.0.0.1:5002 max_fails=0;\n" in text
    assert f"ssl_certificate     {tmp_path}/fullchain.pem;" in text
    for other in ("8501", "/etc/", "/var/", "listen 443", "listen 80;"):
        assert other not in text


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
