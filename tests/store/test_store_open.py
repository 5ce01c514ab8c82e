"""Databases that cannot be opened: one message each, with a remedy and without a password."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.store import Store, database, pairs


def refuse(url, *, create=False):
    with pytest.raises(StudyError) as caught:
        Store.open(url, create=create)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_file_is_not_made_unasked(tmp_path):
    message = refuse(f"sqlite:///{tmp_path / 'study.db'}")
    assert message == f"there is no database {tmp_path / 'study.db'}; run: guard-eval pair STUDY"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_is_not_filled_unasked(empty_url, tmp_path):
    if empty_url.startswith("sqlite"):
        (tmp_path / "study.db").touch()
    assert "holds no study yet; run: guard-eval pair STUDY" in refuse(empty_url)
    with Store.open(empty_url, create=True) as store:
        assert pairs.read(store) == []


def test_an_unwritable_folder_is_refused(tmp_path):
    if os.geteuid() == 0:  # root may write everywhere but where the kernel lets nobody
        folder = Path("/proc/self")
        if not folder.is_dir():
            pytest.skip("root may write everywhere on a system without /proc")
    else:
        folder = tmp_path
        folder.chmod(0o500)
    message = refuse(f"sqlite:///{folder / 'study.db'}", create=True)
    assert "unable to open" in message
    assert "make the file and its folder readable and writable" in message


@pytest.mark.parametrize("content", [b"name,value\n" * 500, b"\x89PNG\r\n\x1a\n" + bytes(5000)])
@pytest.mark.parametrize("create", [False, True])
def test_another_kind_of_file_is_refused_and_left_alone(tmp_path, content, create):
    path = tmp_path / "study.db"
    path.write_bytes(content)
    message = refuse(f"sqlite:///{path}", create=create)
    assert str(path) in message
    assert "file is not a database; name another file" in message
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("create", [False, True])
def test_another_programs_sqlite_file_is_refused_and_left_alone(tmp_path, create):
    path = tmp_path / "study.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE rater (x)")
    other.close()
    before = path.read_bytes()
    assert "is not a guard-eval database: it holds 'rater'; name another" in refuse(
        f"sqlite:///{path}", create=create
    )
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused(tmp_path, make_pairs):
    path = tmp_path / "study.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        pairs.add(store, make_pairs(50))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    assert "malformed; restore it from a copy" in refuse(f"sqlite:///{path}")


@pytest.mark.postgres
def test_another_programs_tables_are_refused(postgres_server, postgres_url):
    with Store.open(postgres_url, create=True) as store, store.write() as (opened, _):
        opened.exec_driver_sql("DELETE FROM setting")
    assert "is not a guard-eval database" in refuse(postgres_url, create=True)


@pytest.mark.postgres
def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server):
    url = postgres_server.new_database("ENCODING 'LATIN1' TEMPLATE template0")
    message = refuse(url, create=True)
    assert "encoding LATIN1" in message
    assert "createdb --encoding=UTF8" in message
    postgres_server.drop_database(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:hunter2@127.0.0.1:1/study",
        "postgresql://ann:hunter2@127.0.0.1:1/study",
        "postgresql+psycopg://ann:hunter2@host.invalid/study",
        "postgresql+psycopg://ann:hunter2@127.0.0.1:1/study?sslmode=hunter2",
        "postgresql://ann@127.0.0.1:1/study?password=hunter2",
        "mysql://ann:hunter2@localhost/study",
        "postgresql+asyncpg://ann:hunter2@localhost/study",
        "postgresql+psycopg://ann:hunter2@localhost:port/study",
        "postgresql+psycopg://ann:hunter2@127.0.0.1:1/study?no_such_option=hunter2",
        "postgresql://ann:hun@hunter2@127.0.0.1:1/study",
        "postgresql://ann:hun%40hunter2@127.0.0.1:1/study",
        "postgresql://ann@127.0.0.1:1/study?password=hunter2&password=hunter2",
        "sqlite://ann:hunter2@host/study.db",
        "sqlite://ann:hunter2@",
        "sqlite:///study.db?timeout=hunter2",
        "ann:hunter2",
        "hunter2",
    ],
)
def test_a_server_that_cannot_be_used_is_refused_without_its_password(url):
    pytest.importorskip("psycopg")
    for create in (False, True):
        with pytest.raises(StudyError) as caught:
            Store.open(url, create=create)
        error = caught.value
        assert "hunter2" not in str(error)
        assert error.__cause__ is None
        assert error.__context__ is None or error.__suppress_context__
        assert ";" in str(error)  # a remedy follows


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://ann:hunter2@host/v1, mail@host", "at http://ann:***@host/v1, mail@host"),
        ("'postgresql://ann:hun/ter@2@host'", "'postgresql://ann:***@host'"),
        ("postgres://h/db?sslpassword=hunter2&a=b", "postgres://h/db?sslpassword=***&a=b"),
        ("host=h password=hunter2", "host=h password=***"),
        ("http://localhost:8000/v1 and mail@host", "http://localhost:8000/v1 and mail@host"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_no_message_shows_the_password_of_a_url(text, shown):
    assert str(StudyError(text)) == shown


@pytest.mark.parametrize("password", ["hunter2", "hun ter/2+", "%41"])
def test_a_drivers_message_loses_the_password_however_it_is_written(password):
    for url in (
        URL.create("postgresql", username="ann", password=password, host="h"),
        URL.create("postgresql", host="h", query={"sslpassword": password}),
    ):
        for written in (password, quote(password, safe=""), quote_plus(password)):
            assert database.hide_passwords(f"no {written}!", url) == "no ***!"


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setattr(database.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"guard-eval\[postgres\]"):
        Store.open("postgresql://localhost/study")


def test_a_full_disk_is_explained_and_loses_nothing(tmp_path, make_pairs, plan):
    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        pairs.add(store, make_pairs(1))
        with store.engine.connect() as opened:
            pages = opened.exec_driver_sql("PRAGMA page_count").scalar_one()
            opened.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StudyError, match="disk is full; free some space, then do it again"):
            pairs.add(store, make_pairs(1000))
        assert pairs.read(store) == make_pairs(1)


def test_exceptions_hold_no_text_of_the_study(store, make_pairs):
    from sqlalchemy import insert

    from guard_eval.store import schema

    with pytest.raises(DBAPIError) as caught, store.write() as (opened, _):
        opened.execute(insert(schema.setting), {"key": "app address", "value": None})
    assert "SQL parameters hidden" in str(caught.value)
    assert "'value': None" not in str(caught.value)
