"""A database's files: nobody but the owner reads them, and where nothing can be written they are read."""

import ctypes
import os
import sqlite3
import subprocess

import pytest
from command_line import command, environment

from guard_eval.store import Store, handout, pairs, raters, verdicts

DROP, OVERRIDE, SEARCH = 24, 1, 2  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH of linux/*.h
TOML = """
name = "kept"
seed = 1
[model]
name = "bundled"
[generation]
strategies = ["guard", "top_k(k=50)"]
[pairs]
compare = [["guard", "top_k(k=50)"]]
[annotation]
criteria = ["fluency"]
"""


def rights(path):
    return path.stat().st_mode & 0o777


def beside(path):
    return sorted(path.parent.glob(f"{path.name}*"))


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_database_is_its_owners_from_the_start(tmp_path, make_pairs, open_umask, monkeypatch):
    made = []
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, *more: made.append(more) or opened(path, *more))
    url = f"sqlite:///{tmp_path / 'study.db'}"
    with Store.open(url, create=True) as store:
        pairs.add(store, make_pairs(3))
        assert len(beside(tmp_path / "study.db")) == 3  # the log and its index, too
        assert {rights(path) for path in tmp_path.iterdir()} == {0o600}
    assert {rights(path) for path in tmp_path.iterdir()} == {0o600}
    # never made with more rights, which somebody could use before they are taken
    assert (os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600) in made


def test_a_database_that_others_could_read_is_closed_to_them(tmp_path, make_pairs, open_umask):
    path = tmp_path / "study.db"
    with Store.open(f"sqlite:///{path}", create=True) as store:
        pairs.add(store, make_pairs(3))
        for each in beside(path):
            each.chmod(0o664)
        Store.open(f"sqlite:///{path}").close()
        assert {rights(each) for each in beside(path)} == {0o600}


@pytest.fixture
def kept(tmp_path, make_pairs, plan):
    """Make a finished study, which the test is to close."""
    study = tmp_path / "study"
    study.mkdir()
    (study / "study.toml").write_text(TOML)
    with Store.open(f"sqlite:///{study / 'study.db'}", create=True) as store:
        pairs.add(store, make_pairs(6, method_a="guard"))
        for name in ("ann", "ben"):
            rater, _ = raters.invite(store, name)
            while handed := handout.claim(store, rater, plan):
                verdicts.save(store, handed[0].presentation, {"fluency": "A"}, rater=rater, seconds=5.0)
    yield study
    study.chmod(0o700)


def close_folder(study):
    for path in study.iterdir():
        path.chmod(0o400)
    study.chmod(0o500)


def obey():
    """Let root be refused by a file's mode like everybody else, from the next program on."""
    prctl = ctypes.CDLL(None).prctl
    if os.geteuid() == 0 and any(prctl(DROP, each, 0, 0, 0) for each in (OVERRIDE, SEARCH)):
        os._exit(77)


def run(study, *arguments):
    """Run a command that cannot write to the study; return how it ended, and the folder of what it made."""
    own = study.parent / "own"
    own.mkdir()
    done = subprocess.run(
        [part.format(study=study, own=own) for part in command(*arguments)],
        cwd=own,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey,
    )
    if done.returncode == 77:
        pytest.skip("root may write everywhere, and cannot be kept from it here")
    return done, own


READING = {
    "status": ("status", "{study}"),
    "raters": ("raters", "list", "{study}"),
    "export": ("export", "{study}", "--output", "{own}/verdicts.csv"),
    "report": ("report", "{study}", "--output", "{own}/report"),
    "backup": ("backup", "{study}", "{own}/copy.db"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READING)
def test_a_study_on_storage_that_is_only_read_can_be_reported(kept, name):
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    assert sorted(before) == ["study.db", "study.toml"]
    close_folder(kept)
    done, own = run(kept, *READING[name])
    assert done.returncode == (2 if name == "status" else 0), done.stderr  # status names what is missing
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    if name == "export":
        assert (own / "verdicts.csv").read_text().count("\n") == 1 + 12
    if name == "report":
        assert list((own / "report").glob("*.html"))
    if name in {"status", "raters"}:
        assert "ann" in done.stdout


@pytest.mark.slow
def test_what_cannot_be_written_says_so(kept):
    close_folder(kept)
    done, _ = run(kept, "raters", "add", "{study}", "cas")
    assert done.returncode == 2
    assert "readonly" in done.stderr
    assert "make the file and its folder writable" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("index", [True, False], ids=["with its index", "alone"])
def test_rows_in_a_log_left_beside_it_count_or_are_named(kept, make_pairs, index):
    """As a server leaves it that was killed: its last verdicts stand in the log alone."""
    path = kept / "study.db"
    with Store.open(f"sqlite:///{path}") as store:
        raters.invite(store, "cas")
        saved = {each.name: each.read_bytes() for each in beside(path)}
    for name, data in saved.items():
        if index or not name.endswith("-shm"):
            (kept / name).write_bytes(data)
    assert (kept / "study.db-wal").stat().st_size
    with sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True) as alone:
        assert alone.execute("SELECT count(*) FROM rater").fetchone() == (2,)
    close_folder(kept)
    done, _ = run(kept, "raters", "list", "{study}")
    if done.returncode:
        assert done.returncode == 2
        assert "study.db-wal holds what was saved last" in done.stderr
        assert "copy all its files" in done.stderr
    else:
        assert "cas" in done.stdout
    if index:
        assert done.returncode == 0, done.stderr
