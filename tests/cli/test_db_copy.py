"""`guard-eval db STUDY copy|checksum|backup`: a study that moves to PostgreSQL and back, and its copies."""

import subprocess
import tomllib

import pytest

from guard_eval.cli.administration import db
from guard_eval.cli.administration.copy import rename, target_of
from guard_eval.errors import StudyError
from guard_eval.store import Store
from guard_eval.store.copying import checksum
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow

TOML = """\
# what is asked
name = "moved"
seed = 7  # not to be changed

[model]
name = "bundled"
[generation]
strategies = ["guard", "top_k(k=50)"]
[pairs]
compare = [["guard", "top_k(k=50)"]]
[annotation]
criteria = ["fluency"]
"""


def rate(study):
    with Store.open(study.database, study_hash=study.hash) as store:
        rater, _ = store.invite(f"rater {len(store.raters())}")
        for blind in store.hand_out(rater, study.plan, limit=2):
            store.save(blind.presentation, {"fluency": "A"}, rater=rater)
        return len(store.tidy())


@pytest.fixture
def folder(tmp_path, make_pairs):
    """A study of four pairs, two of them rated."""
    folder = tmp_path / "moved"
    folder.mkdir()
    (folder / "study.toml").write_text(TOML)
    with Store.open(Study.open(folder).database, create=True) as store:
        store.add_pairs(make_pairs(4))
    rate(Study.open(folder))
    return folder


@pytest.fixture
def server_url(postgres_server):
    url = postgres_server.new_database()
    yield url
    postgres_server.drop_database(url)


@pytest.mark.postgres
def test_a_study_moves_to_a_server_and_back(folder, server_url, capsys):
    before = Study.open(folder)
    digest = checksum(before.database)
    db.command(folder, db.DatabaseAction.copy, to=server_url, switch=True)
    out = capsys.readouterr().out
    assert digest.sha256 in out
    assert f"Next: guard-eval progress {folder}" in out
    text = (folder / "study.toml").read_text()
    assert text == TOML.replace("changed\n", f'changed\ndatabase = "{server_url}"\n')
    there = Study.open(folder)
    assert there.database == server_url
    assert there.hash == before.hash  # the report finds the settings that the first verdict came under
    assert rate(there) == 4
    assert checksum(before.database) == digest  # what it came from stays as it was

    with pytest.raises(StudyError, match=r"holds .* rows already"):
        db.command(folder, db.DatabaseAction.copy, to=str(folder / "study.db"), switch=True)
    (folder / "study.db").rename(folder / "before.db")
    db.command(folder, db.DatabaseAction.copy, to=str(folder / "study.db"), switch=True)
    assert (folder / "study.toml").read_text() == TOML
    assert checksum(Study.open(folder).database) == checksum(server_url) != digest
    assert rate(Study.open(folder)) == 6


@pytest.mark.postgres
def test_without_switch_the_study_stays_and_the_line_is_said(folder, server_url, capsys):
    db.command(folder, db.DatabaseAction.copy, to=server_url, dry_run=True)
    out = capsys.readouterr().out
    assert "dry run: nothing was copied" in out
    with pytest.raises(StudyError, match="holds no study yet"):
        Store.open(server_url)
    with Store.open(Study.open(folder).database):  # somebody is at work
        db.command(folder, db.DatabaseAction.copy, to=server_url)
    out = capsys.readouterr().out
    assert f'write the line:  database = "{server_url}"' in out
    assert (folder / "study.toml").read_text() == TOML
    found = []
    for _ in range(2):
        db.command(folder, db.DatabaseAction.checksum)
        found.append(capsys.readouterr().out.splitlines()[-1])
        (folder / "study.toml").write_text(f'database = "{server_url}"\n{TOML}')
    assert found[0] == found[1] == f"{checksum(server_url).rows} rows, SHA-256 {checksum(server_url).sha256}"


def test_whoever_has_it_open_stops_a_move(folder, tmp_path):
    with Store.open(Study.open(folder).database) as store:
        store.raters()
        with pytest.raises(
            StudyError, match=r"another program has .*study\.db open; stop guard-eval annotate"
        ):
            db.command(folder, db.DatabaseAction.copy, to=str(tmp_path / "new.db"), switch=True)
    assert not (tmp_path / "new.db").exists()
    assert (folder / "study.toml").read_text() == TOML


def test_what_cannot_be_edited_is_refused_before_anything_is_copied(folder, tmp_path):
    odd = 'question = """\nWhich?\nseed = 1\n"""\n' + TOML
    (folder / "study.toml").write_text(odd)
    with pytest.raises(StudyError, match="cannot edit; copy without it, then change it yourself"):
        db.command(folder, db.DatabaseAction.copy, to=str(tmp_path / "new.db"), switch=True)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    ("before", "database", "after"),
    [
        ("seed = 1\n[model]\n", "x", 'seed = 1\ndatabase = "x"\n[model]\n'),
        ("seed = 1\r\n[model]\r\n", "x", 'seed = 1\r\ndatabase = "x"\r\n[model]\r\n'),
        ("seed = 1", "x", 'database = "x"\nseed = 1'),
        ("  database='y' # here\nseed = 1\n", 'a"\\🦔', 'database = "a\\"\\\\🦔"\nseed = 1\n'),
        ("database = 'y'\n[m]\ndatabase = 2\n", None, "[m]\ndatabase = 2\n"),
        ("[m]\ndatabase = 2\n", None, "[m]\ndatabase = 2\n"),
        ("[m]\ndatabase = 2\n", "x", 'database = "x"\n[m]\ndatabase = 2\n'),
    ],
)
def test_study_toml_is_edited_in_one_line(tmp_path, before, database, after):
    path = tmp_path / "study.toml"
    path.write_bytes(before.encode())
    assert rename(path, database).decode() == after
    assert tomllib.loads(after).get("database") == database


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://ann:hunter2@host/study",
        "postgresql://ann@host/study?password=hunter2",
        "postgresql://ann@host/study?sslpassword=hunter2",
        "postgres://ann:hunter2@host:port/study",
        "mysql://ann:hunter2@host/study",
        "ann:hunter2@host/study",
        "postgresql://ann@x:hunter2@host/study",
        "postgresql://host/study?pass%77ord=hunter2",
        "host=h dbname=study password=hunter2",
    ],
)
def test_a_password_is_refused_and_not_repeated(url):
    pytest.importorskip("psycopg")
    with pytest.raises(StudyError) as caught:
        target_of(url)
    assert "hunter2" not in str(caught.value)


def test_options_that_belong_elsewhere_are_refused(folder, tmp_path):
    for action, options in (
        (db.DatabaseAction.copy, {}),
        (db.DatabaseAction.copy, {"file": tmp_path / "x"}),
        (db.DatabaseAction.backup, {"to": "x"}),
        (db.DatabaseAction.backup, {"file": tmp_path / "x", "switch": True}),
        (db.DatabaseAction.checksum, {"to": "x"}),
        (db.DatabaseAction.upgrade, {"dry_run": True}),
    ):
        with pytest.raises(StudyError, match=f"write: guard-eval db {folder} {action.value}"):
            db.command(folder, action, **options)
    assert not (tmp_path / "x").exists()


@pytest.mark.postgres
def test_a_servers_backup_is_restored_to_the_last_row(folder, server_url, postgres_server, tmp_path, capsys):
    db.command(folder, db.DatabaseAction.copy, to=server_url, switch=True)
    db.command(folder, db.DatabaseAction.backup, tmp_path / "copy.dump")
    out = capsys.readouterr().out
    assert f"pg_restore --clean --if-exists --dbname=… {tmp_path / 'copy.dump'}" in out
    before = checksum(server_url)
    rate(Study.open(folder))
    assert checksum(server_url) != before
    program = postgres_server.binaries / "pg_restore"
    address = server_url.replace("+psycopg", "")
    subprocess.run(
        [program, "--clean", "--if-exists", f"--dbname={address}", tmp_path / "copy.dump"], check=True
    )
    assert checksum(server_url) == before
    db.command(folder, db.DatabaseAction.upgrade)
    assert rate(Study.open(folder)) == 4
