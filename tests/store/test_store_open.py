"""A database that cannot be opened gives one message with a remedy and without a password."""

import os
import sqlite3
from pathlib import Path

import pytest
from refusals import expect_refusal
from sqlalchemy.exc import DBAPIError

from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.store import (
    Store,
    schema,
)
from guard_eval.store.pairs import add_pairs, read_pairs


def read_refusal(url, *, create=False):
    with pytest.raises(StudyError) as caught:
        Store.open(url, create=create)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.both_databases
def test_a_database_is_created_only_on_request(empty_url, tmp_path):
    if empty_url.startswith("sqlite"):
        assert read_refusal(empty_url).startswith(
            f"there is no database {tmp_path / 'study.db'}; run: guard-eval pair"
        )
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "study.db").touch()
    assert "has no study yet; run: guard-eval pair STUDY" in read_refusal(empty_url)
    with Store.open(empty_url, create=True) as store:
        assert read_pairs(store) == []


def test_an_unwritable_folder_is_refused():
    if not Path("/proc/self").is_dir():
        pytest.skip("no folder here in which even root cannot write")
    message = read_refusal("sqlite:////proc/self/study.db", create=True)
    assert "unable to open" in message
    assert "make the file and its folder readable and writable" in message


@pytest.mark.parametrize("create", [False, True])
def test_a_foreign_file_is_refused_and_not_changed(tmp_path, create):
    path = tmp_path / "study.db"
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE rater (x)")
    other.close()
    for content, says in (
        (b"name,value\n" * 500, "file is not a database; name another file"),
        (b"\x89PNG\r\n\x1a\n" + bytes(5000), "file is not a database; name another file"),
        (
            (tmp_path / "other.db").read_bytes(),
            "is not a study's database, because it has the table 'rater'; name another",
        ),
    ):
        path.write_bytes(content)
        message = read_refusal(f"sqlite:///{path}", create=create)
        assert str(path) in message
        assert says in message
        assert path.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.db", "study.db"]


def test_damaged_files_and_other_schemas_are_refused(tmp_path, make_pairs):
    path = tmp_path / "study.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        add_pairs(store, make_pairs(50))
        with store.begin_write() as (db, _):
            db.exec_driver_sql("UPDATE setting SET value = '9' WHERE key = 'schema'")
    assert "has schema 9, and this guard-eval needs 1" in read_refusal(f"sqlite:///{path}")
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    assert "malformed; restore it from a copy" in read_refusal(f"sqlite:///{path}")


@pytest.mark.postgres
def test_foreign_tables_and_other_encodings_are_refused(postgres_server, postgres_url):
    with Store.open(postgres_url, create=True) as store, store.begin_write() as (db, _):
        db.exec_driver_sql("DELETE FROM setting")
    assert "is not a study's database" in read_refusal(postgres_url, create=True)
    url = postgres_server.new_database("ENCODING 'LATIN1' TEMPLATE template0")
    message = read_refusal(url, create=True)
    assert "is not in UTF-8, so it cannot store all characters" in message
    assert "createdb -E UTF8" in message
    postgres_server.drop_database(url)


@pytest.mark.postgres
def test_missing_rights_in_postgresql_are_explained(postgres_server, postgres_url, make_pairs, monkeypatch):
    assert "permission denied" in read_refusal(postgres_server.make_role(postgres_url), create=True)
    Store.open(postgres_url, create=True).close()
    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    says = "read-only transaction; connect to the primary server"
    with Store.open(postgres_url) as store, expect_refusal(says):
        add_pairs(store, make_pairs(1))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:hunter2@127.0.0.1:1/study",
        "postgresql+psycopg://ann:hunter2@127.0.0.1:1/study?sslmode=hunter2",
        "postgresql://ann@127.0.0.1:1/study?password=hunter2",
        "mysql://ann:hunter2@localhost/study",
        "postgresql://ann:hun@hunter2@127.0.0.1:1/study",
        "postgresql://ann:hun%40hunter2@127.0.0.1:1/study",
        "sqlite://ann:hunter2@host/study.db",
        "sqlite:///study.db?timeout=hunter2",
        "hunter2",
    ],
)
def test_an_unusable_server_is_named_without_its_password(url):
    pytest.importorskip("psycopg")
    with pytest.raises(StudyError) as caught:
        Store.open(url, create=True)
    error = caught.value
    assert "hunter2" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
    assert ";" in str(error)  # a remedy follows


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"\[postgres\]'"):
        Store.open("postgresql://localhost/study")


def test_a_full_disk_is_explained_and_loses_nothing(tmp_path, make_pairs):
    with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
        add_pairs(store, make_pairs(1))
        with store.engine.connect() as opened:
            pages = opened.exec_driver_sql("PRAGMA page_count").scalar_one()
            opened.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with expect_refusal("disk is full; free some space, then try again"):
            add_pairs(store, make_pairs(1000))
        assert read_pairs(store) == make_pairs(1)


def test_exceptions_contain_no_text_of_the_study(store):
    with pytest.raises(DBAPIError) as caught, store.begin_write() as (db, _):
        schema.add_rows(db, "setting", [{"key": "app address", "value": None}])
    assert "SQL parameters hidden" in str(caught.value)
    assert "'value': None" not in str(caught.value)


def test_a_new_database_is_readable_only_by_its_owner(tmp_path, make_pairs, monkeypatch):
    flags_used = []
    opened = os.open
    monkeypatch.setattr(
        os, "open", lambda path, *more, **at: flags_used.append(more) or opened(path, *more, **at)
    )
    before = os.umask(0)
    try:
        with Store.open(f"sqlite:///{tmp_path / 'study.db'}", create=True) as store:
            add_pairs(store, make_pairs(3))
            rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert rights == dict.fromkeys(["study.db", "study.db-wal", "study.db-shm"], 0o600)
    # never made with more rights, which somebody could use before they are taken
    assert (os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600) in flags_used
