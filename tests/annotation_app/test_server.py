"""The server around the page: whether it is well, what it tells nobody, and whom it believes."""

import asyncio
import json
import re
import socket
import threading
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest
from app_browser import serving

from annotation_app.server import application as server
from annotation_app.server import launch
from annotation_app.server.application import health
from annotation_app.server.middleware import SendAtOnce

pytestmark = pytest.mark.slow


def health_now():
    answer = asyncio.run(health(None))
    return answer.status_code, json.loads(answer.body)


@pytest.mark.both_databases
def test_health_is_the_databases(study, databases):
    built = study()
    assert health_now() == (200, {"status": "ok"})
    with databases.away(built.database):
        assert health_now() == (503, {"status": "unavailable"})
    assert health_now() == (200, {"status": "ok"})


def test_health_waits_no_longer_than_its_patience(study, monkeypatch):
    study()
    monkeypatch.setattr("annotation_app.server.application.PATIENCE", 0.05)
    answer, answered = threading.Event(), []

    def query():
        answer.wait(60)
        answered.append(True)

    monkeypatch.setattr("annotation_app.server.application._query_database", query)
    assert health_now()[0] == 503
    assert not answered  # the response did not wait for the database
    answer.set()


def test_nobody_is_believed_where_a_rater_comes_from_unless_named(study, monkeypatch):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    folder = study().folder
    assert launch._environment(folder)["FORWARDED_ALLOW_IPS"] == ""
    trusted = launch._proxies(" 127.0.0.1, 10.0.0.0/8")
    assert launch._environment(folder, trusted)["FORWARDED_ALLOW_IPS"] == "127.0.0.1,10.0.0.0/8"


def test_the_secret_of_replicas_comes_from_the_environment():
    """docs/deployment.md names the variable."""
    from streamlit import config

    assert config._config_options_template["server.cookieSecret"].env_var == "STREAMLIT_SERVER_COOKIE_SECRET"


def test_messages_leave_at_once():
    with (
        socket.create_server(("127.0.0.1", 0)) as here,
        socket.create_connection(here.getsockname()) as client,
    ):
        connection = SimpleNamespace(get_extra_info={"socket": client}.get)

        class Connection:
            transport = connection

            async def receive(self):
                return {}

        async def application(scope, receive, send):
            pass

        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        asyncio.run(SendAtOnce(application)({"type": "websocket"}, Connection().receive, None))
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_replicas_on_neighbouring_ports_take_different_cores(monkeypatch):
    taken = []
    monkeypatch.setattr(server.os, "sched_getaffinity", lambda _: {4, 2})
    monkeypatch.setattr(server.os, "sched_setaffinity", lambda _, cores: taken.append(cores))
    for port in (8501, 8502):
        server.stay_on_one_core(port)
    assert taken == [{4}, {2}]


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


@pytest.mark.both_databases
def test_a_running_server_tells_nothing_of_its_inside(study, databases, tmp_path):
    built = study()
    with serving(built.folder, tmp_path / "log") as url:
        status, headers, body = fetch(f"{url}/health")
        assert (status, body) == (200, '{"status":"ok"}')
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        for path in ("/_stcore/metrics", "/_stcore/agent/openapi.json", "/_stcore/agent/mcp"):
            assert fetch(f"{url}{path}")[0] == 404
        assert fetch(f"{url}/?invite={built.tokens['ann']}")[0] == 200
        with databases.away(built.database):
            assert fetch(f"{url}/health")[0] == 503
    log = (tmp_path / "log").read_text()
    assert built.tokens["ann"] not in log
    away = r"^20\d\d-\d\d-\d\d .* ERROR health: .*(No such file|not currently accepting)"
    assert re.search(away, log, re.MULTILINE)
    assert "Traceback" not in log
