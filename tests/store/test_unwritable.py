"""A study on storage that cannot be written can be read completely, and is not changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from refusals import expect_refusal

from guard_eval.store import Store, pairs, raters

READ = """
import os, resource, signal, sys
from pathlib import Path
from guard_eval.store import Store, pairs
how, folder = sys.argv[1:]
if how == "other user":
    os.setuid(65534)
else:  # no file of this process may grow
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    with Store.open(f"sqlite:///{folder}/study.db") as store:
        print(len(pairs.read_pairs(store)))
        if how == "full disk":  # what is read may be a copy: no verdict may be written into it
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            with store.begin_write() as (db, _):
                db.exec_driver_sql("DELETE FROM setting")
except ValueError as error:
    print(error)
"""
"""Reads a study as a user without write access, or on a full disk."""


@pytest.fixture
def folder(tmp_path, make_pairs):
    """Make a study of 3 pairs. The third one is only in the log of a killed program."""
    live, folder = tmp_path / "live", tmp_path / "study"
    live.mkdir()
    folder.mkdir()
    with Store.open(f"sqlite:///{live / 'study.db'}", create=True) as store:
        pairs.add_pairs(store, make_pairs(2))
    with Store.open(f"sqlite:///{live / 'study.db'}") as store:
        pairs.add_pairs(store, make_pairs(3))
        for path in live.glob("study.db*"):
            shutil.copy(path, folder)
    (folder / "study.db-shm").unlink()
    assert (folder / "study.db-wal").stat().st_size
    return folder


def move_log_into_database(folder, mode):
    """Move the log's changes into the database, and set the journal mode."""
    with sqlite3.connect(folder / "study.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.execute(f"PRAGMA journal_mode = {mode}")
    database.close()
    assert not (folder / "study.db-wal").exists()


def make_readable(folder):
    for path in (folder, *folder.iterdir()):
        path.chmod(0o555 if path.is_dir() else 0o444)
    temporary = Path(tempfile.gettempdir())
    for parent in folder.parents:
        if temporary in parent.parents:
            parent.chmod(0o755)


def read_in_process(how, folder):
    command = [sys.executable, "-c", READ, how, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", check=False)
    assert ran.stderr == ""
    return ran.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [None, "WAL", "DELETE"])
def test_another_user_can_read_a_study_without_write_access(folder, mode):
    if mode is not None:
        move_log_into_database(folder, mode)
    make_readable(folder)
    assert read_in_process("other user", folder).splitlines()[0] == "3"


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_study_on_a_full_disk_can_be_read(folder, mode):
    move_log_into_database(folder, mode)
    lines = read_in_process("full disk", folder).splitlines()
    assert lines[0] == "3"
    assert mode == "DELETE" or "readonly" in lines[1]


def test_a_database_log_that_cannot_be_copied_is_an_error(folder):
    message = read_in_process("full disk", folder)
    assert "study.db, and copying this file to a temporary folder failed: " in message
    assert "set TMPDIR to a folder with free space" in message
    assert (folder / "study.db-wal").stat().st_size  # the newest verdicts are still there


@contextmanager
def mount(*options):
    """Mount on a new folder, which is the last option, and unmount at the end."""
    folder = options[-1]
    folder.mkdir()
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("free", [0, 8192])
def test_every_sqlite_error_on_a_full_disk_names_the_disk(folder, tmp_path, free):
    with mount("-t", "tmpfs", "-o", "size=2m", "none", tmp_path / "disk") as disk:
        shutil.copy(folder / "study.db", disk)
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - free))
        url = f"sqlite:///{disk / 'study.db'}"
        with expect_refusal("free some space"):
            raters.invite_rater(Store.open(url, to_write=True), "Ann")
        with expect_refusal("free some space"):
            Store.open(f"sqlite:///{disk / 'new.db'}", create=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_study_on_a_read_only_mount_can_be_read(folder, tmp_path):
    mounted = tmp_path / "mounted"
    url = f"sqlite:///{mounted / 'study.db'}"
    with mount("-o", "bind,ro", folder, mounted), Store.open(url) as store:
        assert len(pairs.read_pairs(store)) == 3
        with expect_refusal("unable to open database file; make the file and"):
            Store.open(url, to_write=True)
        says = "readonly database; make the file and its folder writable"
        with expect_refusal(says), store.begin_write() as (db, _):
            db.exec_driver_sql("DELETE FROM setting")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT 1",
        f"ALTER TABLE rater ADD COLUMN note TEXT DEFAULT '{'x' * 1000}'",
        "ALTER TABLE pair ADD COLUMN more TEXT AS (printf('%.1000000c', 'x'))",
        "CREATE TRIGGER more AFTER INSERT ON note BEGIN DELETE FROM slot; END",
        "CREATE TRIGGER sqliteXmore AFTER INSERT ON note BEGIN DELETE FROM slot; END",
        (
            "INSERT INTO sqlite_master VALUES ('trigger', 'sqlite_x', 'note', 0, "
            "'CREATE TRIGGER sqlite_x AFTER INSERT ON note BEGIN DELETE FROM slot; END')"
        ),
        "DROP TRIGGER verdict_no_delete",
        "UPDATE pair SET prompt_id = printf('%.100000c', 'x')",
        "INSERT INTO rater SELECT 9, printf('%.1001c', 'x'), 'person', datetime(), NULL, NULL, NULL, NULL",
    ],
    ids=[
        *("view", "default", "computed", "trigger", "trigger named like SQLite's tables", "reserved name"),
        *("no trigger", "long id", "long name"),
    ],
)
def test_a_database_with_changed_tables_is_refused(folder, statement):
    with sqlite3.connect(folder / "study.db") as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(statement)
    database.close()
    with expect_refusal("was changed by another program; restore the original file"):
        Store.open(f"sqlite:///{folder / 'study.db'}")
