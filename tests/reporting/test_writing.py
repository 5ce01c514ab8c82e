"""Files are written whole or not at all."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from guard_eval.errors import StudyError
from guard_eval.reporting.writing import (
    LIST,
    check_database_file,
    claim_results_folder,
    open_to_append,
    write_atomically,
    write_folder,
)


def test_replacing_a_file_leaves_no_other_file(tmp_path):
    path = tmp_path / "f.txt"
    for data in (b"one", b"two"):
        write_atomically(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_write_makes_a_folder_only_on_request(tmp_path):
    path = tmp_path / "a" / "b" / "f.txt"
    with pytest.raises(StudyError, match=r"cannot write .*f\.txt: .*; fix that and run the command again"):
        write_atomically(path, b"")
    assert not list(tmp_path.iterdir())
    write_atomically(path, b"x", make_folder=True)
    assert path.read_bytes() == b"x"


def test_failed_replacement_leaves_no_temporary_file(tmp_path):
    (tmp_path / "f").mkdir()
    with pytest.raises(StudyError, match="f exists and is not a regular file; name another file"):
        write_atomically(tmp_path / "f", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_two_writers_of_a_file_do_not_mix(tmp_path):
    path, sizes = tmp_path / "f.json", [10, 2_000_000, 3_000_000]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write_atomically(path, b"x" * sizes[n % 3]), range(48)))
    assert path.stat().st_size in sizes
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_owner_reads_a_private_file(tmp_path):
    for private, mode in ((True, 0o600), (False, 0o644), (True, 0o600)):
        write_atomically(tmp_path / "f", b"x", private=private)
        assert (tmp_path / "f").stat().st_mode & 0o777 == mode


@pytest.fixture
def study(tmp_path):
    """Make a study's folder with links: one stays in it, the others lead to a folder of its reader."""
    study, home = tmp_path / "study", tmp_path / "home"
    (study / "inner").mkdir(parents=True)
    home.mkdir()
    (home / "thesis.txt").write_text("mine")
    (study / "study.toml").touch()
    (study / "up").symlink_to("..")
    (study / "csv").symlink_to(home)
    (study / "page.html").symlink_to(home / "thesis.txt")
    (study / "new.html").symlink_to(home / "new.html")
    (study / "stays").symlink_to("inner")
    return study


@pytest.mark.parametrize(
    "name", ["csv/thesis.txt", "up/home/thesis.txt", "page.html", "new.html", "inner/../up/home/a", "csv/a/b"]
)
def test_writers_follow_no_link_outside_the_study(study, name):
    with pytest.raises(StudyError, match=r"leads out of the folder .*study, to .*home.*; remove the link"):
        write_atomically(study / name, b"x", make_folder=True)
    with pytest.raises(StudyError, match="leads out of the folder"), open_to_append(study / name):
        pass
    with pytest.raises(StudyError, match="leads out of the folder"):
        check_database_file(study / name)
    assert [path.name for path in (study.parent / "home").iterdir()] == ["thesis.txt"]
    assert (study.parent / "home" / "thesis.txt").read_text() == "mine"


def test_explicit_paths_outside_the_study_are_written(study, monkeypatch):
    monkeypatch.chdir(study)
    write_atomically(Path("../out.csv"), b"x")
    assert (study.parent / "out.csv").read_bytes() == b"x"


def test_a_link_within_the_study_is_followed(study):
    write_atomically(study / "stays" / "deep" / "f", b"x", make_folder=True)
    assert (study / "inner" / "deep" / "f").read_bytes() == b"x"
    with open_to_append(study / "stays" / "log") as file:
        file.write(b"y")
    assert (study / "inner" / "log").read_bytes() == b"y"


def test_a_link_created_during_writing_is_not_followed(study, monkeypatch):
    (study / "report").mkdir()
    real = os.mkdir

    def swap(name, *arguments, **options):
        real(name, *arguments, **options)
        (study / "report" / "figures").rmdir()
        (study / "report" / "figures").symlink_to(study.parent / "home")

    monkeypatch.setattr(os, "mkdir", swap)
    with pytest.raises(StudyError, match="cannot write"):
        write_atomically(study / "report" / "figures" / "a.svg", b"x", make_folder=True)
    assert [path.name for path in (study.parent / "home").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["pipe", "device", "folder"])
def test_only_a_regular_file_is_replaced(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    for write in (lambda path: write_atomically(path, b"x"), lambda path: open_to_append(path).__enter__()):
        with pytest.raises(StudyError, match="exists and is not a regular file"):
            write(tmp_path / name)
    assert (tmp_path / name).exists()


def test_hard_links_are_not_written_through(study):
    os.link(study.parent / "home" / "thesis.txt", study / "guard.jsonl")
    with pytest.raises(StudyError, match="a second name"), open_to_append(study / "guard.jsonl"):
        pass
    os.link(study.parent / "home" / "thesis.txt", study / "study.db-wal")
    with pytest.raises(StudyError, match="a second name"):
        check_database_file(study / "study.db")
    write_atomically(study / "guard.jsonl", b"new")  # replaced, not written through
    assert (study.parent / "home" / "thesis.txt").read_text() == "mine"


def test_a_database_with_a_link_beside_it_is_refused(study):
    (study / "study.db").touch()
    check_database_file(study / "study.db")
    (study / "study.db-wal").symlink_to(study.parent / "home" / "thesis.txt")
    with pytest.raises(StudyError, match=r"study\.db-wal leads out of the folder"):
        check_database_file(study / "study.db")


def test_only_files_of_earlier_results_are_replaced(tmp_path):
    folder = tmp_path / "out"
    write_folder(folder, {"index.html": "1", "csv/old.csv": "1"})
    (folder / "csv" / "mine.csv").write_text("mine")
    write_folder(folder, {"index.html": "2", "csv/new.csv": b"2"})
    assert sorted(path.name for path in folder.rglob("*.*")) == [
        "files.txt",
        "index.html",
        "mine.csv",
        "new.csv",
    ]
    assert (folder / LIST).read_text() == "csv/new.csv\nfiles.txt\nindex.html\n"
    with pytest.raises(StudyError, match=r"csv/mine\.csv exists, and guard-eval did not write it; move it"):
        write_folder(folder, {"csv/mine.csv": "3"})
    assert (folder / "index.html").read_text() == "2"


@pytest.mark.parametrize("listed", [None, "index.html\n", "thesis.txt\nfiles.txt\n"])
def test_foreign_folder_is_not_overwritten(tmp_path, listed):
    (tmp_path / "index.html").write_text("mine")
    if listed is not None:
        (tmp_path / LIST).write_text(listed)
    with pytest.raises(StudyError, match=r"has no results of guard-eval|did not write it"):
        write_folder(tmp_path, {"index.html": "x"})
    assert (tmp_path / "index.html").read_text() == "mine"


def test_interrupted_results_are_written_again(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f".{LIST}.0123456789ab").write_text("half")  # of a process that was killed
    claim_results_folder(tmp_path / "out", ["index.html", "scores.sqlite"])
    (tmp_path / "out" / "index.html").write_text("half")
    write_folder(tmp_path / "out", {"index.html": "whole"})
    assert (tmp_path / "out" / "index.html").read_text() == "whole"


@pytest.mark.parametrize("within", ["csv", "figures"])
def test_links_cannot_lead_results_outside_their_folder(tmp_path, within):
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.csv").write_text("mine")
    write_folder(tmp_path / "out", {"index.html": "1", f"{within}/a.csv": "1"})
    (tmp_path / "out" / within / "a.csv").unlink()
    (tmp_path / "out" / within).rmdir()
    (tmp_path / "out" / within).symlink_to(home)
    for files in ({"index.html": "2"}, {"index.html": "2", f"{within}/a.csv": "2"}):
        with pytest.raises(StudyError, match="leads out of the folder"):
            write_folder(tmp_path / "out", files)
    assert (home / "a.csv").read_text() == "mine"
