"""study.toml is a stranger's file: a server that it names gets no connection before the user names it too."""

import socket
import struct
import threading
from types import SimpleNamespace

import pytest

from guard_eval.database_url import HOSTS_VARIABLE, locate_database
from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.study.folder import Study


@pytest.fixture
def server(monkeypatch):
    """A server that asks for the password in clear text; `received` is what clients sent."""
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    monkeypatch.delenv(HOSTS_VARIABLE, raising=False)
    listener = socket.create_server(("127.0.0.1", 0))
    received = []
    thread = threading.Thread(target=_record, args=(listener, received), daemon=True)
    thread.start()
    yield SimpleNamespace(port=listener.getsockname()[1], received=received)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def _record(listener, received):
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            client.settimeout(10)
            packet = client.recv(1000)
            if packet[4:8] == struct.pack("!I", 80877103):  # asks for TLS
                client.sendall(b"N")
                packet = client.recv(1000)
            client.sendall(b"R" + struct.pack("!II", 8, 3))
            received.append(packet + client.recv(1000))


def write_database(study, url):
    path = study / "study.toml"
    path.write_text(f'database = "{url}"\n{path.read_text()}')


@pytest.mark.parametrize(
    "command",
    ["status small", "report small", "raters list small", "judge small --dry-run"],
)
def test_a_server_that_only_study_toml_names_receives_nothing(run, study, server, command):
    pytest.importorskip("psycopg")
    write_database(study, f"postgresql://me@127.0.0.1:{server.port}/x")
    ran = run(*command.split())
    assert ran.code == 2
    assert f"{HOSTS_VARIABLE}=127.0.0.1" in ran.out + ran.err
    assert server.received == []


def test_a_server_trusted_by_the_user_is_connected(run, study, server, monkeypatch):
    pytest.importorskip("psycopg")
    write_database(study, f"postgresql://me@127.0.0.1:{server.port}/x")
    monkeypatch.setenv(HOSTS_VARIABLE, f"db.example.org, 127.0.0.1:{server.port}")
    run("raters", "list", "small").refused()
    assert b"hunter2" in b"".join(server.received)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://evil.example/x",
        "postgresql://db.example@evil.example/x",
        "postgresql:///x?host=evil.example",
        "postgresql:///x?host=db.example,evil.example",
        "postgresql:///x?host=db.example&host=evil.example",
        "postgresql://db.example/x?host=evil.example",
        "postgresql://evil.example/x?host=db.example",
        "postgresql://db.example:5432/x?port=6543",
        "postgresql://db.example/x?hostaddr=203.0.113.9",
        "postgresql://db.example/x?service=mine",
        "postgresql://db.example/x?passfile=/home/me/.pgpass",
        "postgresql://db.example/x?sslkey=/home/me/key.pem",
        "postgresql://db.example/x?sslmode=disable",
        "postgresql:///host=evil.example",
        "postgresql://db.example:6543/x",
        "postgresql:///x?host=/tmp/evil",
        "postgresql://other.example:6543/x",
        "sqlite:////etc/passwd",
        "sqlite:///../study.db",
        "sqlite:///%2e%2e/study.db",
        "sqlite:///x%2F..%2F..%2Fstudy.db",
        "sqlite:///file:/etc/passwd?uri=true",
        "mysql://evil.example/x",
    ],
)
def test_unusual_database_urls_open_no_connection(monkeypatch, tmp_path, url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOSTS_VARIABLE, "db.example:5432,other.example:5432")
    with pytest.raises(StudyError) as caught:
        locate_database(url, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me@db.example/x",
        "postgresql+psycopg://DB.example:5432/x?sslmode=verify-full",
        "postgresql://any.example:99/x?tcp_user_timeout=10000",
        "postgresql:///x",  # the user's own PGHOST or socket
        "postgresql:///x?host=/run/pg",
        "sqlite:///study.db",
    ],
)
def test_database_named_by_the_user_is_opened(monkeypatch, tmp_path, url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOSTS_VARIABLE, "db.example:5432, any.example,/run/pg")
    locate_database(url, tmp_path)


def test_relative_database_file_is_in_the_studys_folder(study, monkeypatch):
    write_database(study, "sqlite:///other%201.db")
    monkeypatch.chdir("/")
    assert Study.open(study).database == f"sqlite:///{study}/other 1.db"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me%3Ahunter2@127.0.0.1:1/x",
        "postgresql://me%253Ahunter2@127.0.0.1:1/x",
        "postgresql://me%3ahunter2@127.0.0.1:1/x",
        "postgresql:///x?host=127.0.0.1&user=me%3Ahunter2",
        "postgresql://me@127.0.0.1:1/x%3Fpassword=hunter2@y",
    ],
)
def test_passwords_in_urls_are_never_printed(run, study, monkeypatch, url):
    pytest.importorskip("psycopg")
    monkeypatch.setenv(HOSTS_VARIABLE, "127.0.0.1")
    write_database(study, url)
    refused = run("raters", "list", "small").refused()
    assert "PGPASSWORD" in refused
    with pytest.raises(StudyError) as caught:
        Store.open(url)
    assert "hunter2" not in refused + str(caught.value)


def test_database_of_the_command_line_is_trusted(study, monkeypatch):
    monkeypatch.delenv(HOSTS_VARIABLE, raising=False)
    url = "postgresql://me@db.example/x"
    assert Study.open(study, [f"database={url}"]).database == url
    write_database(study, url)
    assert Study.open(study).settings.database == url  # read without asking it
