"""Commands of the study's owner while raters rate: links, decisions, exports, backups, erasures."""

import inspect
import json
import shlex
import sqlite3
import subprocess
import threading
from contextlib import suppress

import pytest
from factories import STUDY_HEAD
from read_files import read_csv
from refusals import expect_refusal

from analysis.monitor.status import list_raters
from analysis.publication.export import export
from annotation_app.annotate import annotate, make_url
from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.store import (
    Store,
    handout,
    notes,
    pairs,
    settings,
    verdicts,
)
from guard_eval.store.export import backup
from guard_eval.store.manage import (
    assign_pairs,
    erase_raters,
    exclude_raters,
    include_raters,
    invite_raters,
    renew_links,
    revoke_raters,
)
from guard_eval.store.raters import RaterProgress, find_rater_by_token, get_or_add_rater, invite_rater
from guard_eval.store.unblind import read_tidy_rows
from guard_eval.study import Study

TOML = (
    STUDY_HEAD
    + """[annotation]
criteria = ["fluency"]
raters_per_pair = 2
"""
)
NOT_A_FORMULA = "=HYPERLINK(1)"


def make_study(folder, made_pairs):
    """Make a study of pairs in a new folder."""
    folder.mkdir()
    (folder / "study.toml").write_text(TOML)
    study = Study.open(folder)
    with Store.open(study.database, create=True, declared=study.declared) as store:
        pairs.add_pairs(store, made_pairs)
    return study


@pytest.fixture
def study(tmp_path, make_pairs):
    """Four pairs, rated by Ann and by a person whose name looks like a formula."""
    study = make_study(tmp_path / "owned", make_pairs(4))
    with Store.open(study.database, declared=study.declared) as store:
        for name in ("Ann", NOT_A_FORMULA):
            rate_until(store, study, invite_rater(store, name)[0])
    return study


def open_store(study):
    return Store.open(study.database)


def find_rater_of_link(study, link):
    """Return the name of the rater whom a link signs in, or None."""
    with open_store(study) as store:
        rater = find_rater_by_token(store, link.partition("invite=")[2])
    return rater and rater.name


def rate_until(store, study, rater, *, until=None):
    while not (until and until.is_set()) and (
        batch := handout.claim_pairs(store, rater, study.hand_out_plan)
    ):
        verdicts.save_verdict(
            store, batch[0].presentation, {"fluency": "A"}, rater=rater, seconds=30.0, active_seconds=20.0
        )


def test_a_renewed_link_replaces_the_old_one(study):
    first = invite_raters(study, "Ben", url="https://rate.example.org/").links["Ben"]
    assert first.startswith("https://rate.example.org/?invite=")
    second = invite_raters(study, "Ben", renew=True).links["Ben"]
    assert find_rater_of_link(study, first) is None
    assert find_rater_of_link(study, second) == "Ben"


def test_links_begin_with_the_address_of_the_served_app(study):
    """Before the app was served, links begin with the default address of `annotate`, and a line says so."""
    unserved = invite_raters(study, "Ben")
    options = inspect.signature(annotate).parameters
    default = make_url(options["address"].default, options["port"].default)
    assert unserved.links["Ben"].startswith(f"{default}/?invite=")
    assert "The links work only on this machine" in unserved.lines[-1]
    with open_store(study) as store:
        settings.store_setting(store, settings.APP_ADDRESS, "http://10.0.0.7:8600")
    served = invite_raters(study, "Cas")
    assert served.links["Cas"].startswith("http://10.0.0.7:8600/?invite=")
    assert served.lines[-1] == f"  Cas: {served.links['Cas']}"


def test_links_are_written_for_raters_without_verdicts(study, tmp_path):
    first = invite_raters(study, "Ben", "Cas").links["Ben"]
    revoke_raters(study, "Cas")
    result = renew_links(study, output=tmp_path / "links.csv", url="https://rate.example.org")
    (row,) = read_csv(tmp_path / "links.csv")
    assert "new links for Ben; their earlier links no longer work" in result.lines[0]
    assert row["link"].startswith("https://rate.example.org/?invite=")
    assert (tmp_path / "links.csv").stat().st_mode & 0o777 == 0o600
    assert find_rater_of_link(study, first) is None
    assert find_rater_of_link(study, row["link"]) == row["name"] == "Ben"
    renew_links(study, "Ann", output=tmp_path / "ann.csv")
    assert "Ann,http://127.0.0.1" in (tmp_path / "ann.csv").read_text()


def test_old_links_stay_valid_if_new_ones_cannot_be_written(study, tmp_path, failing_commits):
    invite_raters(study, "Ben")
    renew_links(study, output=tmp_path / "links.csv")
    earlier = (tmp_path / "links.csv").read_text()
    (tmp_path / "folder.csv").mkdir()
    with failing_commits(), expect_refusal("disk is full"):
        renew_links(study, output=tmp_path / "links.csv")
    assert (tmp_path / "links.csv").read_text() == earlier
    assert [path.name for path in tmp_path.iterdir() if "links" in path.name] == ["links.csv"]
    for output, says in (
        (tmp_path / "folder.csv", "not a regular file"),
        (tmp_path / "x.txt", "the ending .csv"),
    ):
        with expect_refusal(says):
            renew_links(study, output=output)
    assert find_rater_of_link(study, earlier.splitlines()[1]) == "Ben"


@pytest.mark.parametrize(
    "url", ["", "rate.example.org", "ftp://x", "https://", "https://x/?a=b", "http://a b"]
)
def test_an_invalid_link_address_is_refused(study, url):
    with expect_refusal("is not a web address; write one such as https://"):
        invite_raters(study, "Ben", url=url)
    assert "Ben" not in {rater.name for rater in list_raters(study).raters}


def test_exclusions_are_recorded_with_name_and_reason(study, monkeypatch):
    monkeypatch.setattr("getpass.os.environ", {"LOGNAME": "Eve"})
    result = exclude_raters(study, "Ann", reason="three seconds")
    assert [row[0] for row in result.tables[0].rows] == ["Ann"]  # only the changed rater is printed
    states = {rater.name: rater.state for rater in result.raters}
    assert states == {"Ann": "excluded", NOT_A_FORMULA: ""}
    with open_store(study) as store:
        assert {row.rater for row in read_tidy_rows(store)} == {NOT_A_FORMULA}
        (note,) = notes.read_notes(store, kind="exclude")
        assert json.loads(note.detail) == {"by": "Eve", "reason": "three seconds", "results_seen": False}
    include_raters(study, "Ann", reason="the clock was wrong")
    with open_store(study) as store:
        assert len(read_tidy_rows(store)) == 8


def test_raters_list_shows_each_raters_state(study):
    with open_store(study) as store:
        who = get_or_add_rater(store, "Ann", "person")
        notes.write_note(store, who, "finished", json.dumps({"rated": 4}))
        other = get_or_add_rater(store, NOT_A_FORMULA, "person")
        notes.write_note(store, other, "consent", '{"agreed": false}')
    listed = list_raters(study)
    assert [(rater.name, rater.rated, rater.state) for rater in listed.raters] == [
        ("Ann", 4, "finished"),
        (NOT_A_FORMULA, 4, "declined"),
    ]
    assert listed.flags == {}
    assert listed.tables[0].columns == ("name", "kind", "handed out", "rated", "state")


def test_raters_list_shows_signs_of_careless_rating(study):
    with open_store(study) as store:
        ann = get_or_add_rater(store, "Ann", "person")
        for number in verdicts.read_rated_presentations(store, ann)[:3]:
            notes.write_note(store, ann, "conduct", '{"copies": 1}', presentation=number)
    listed = list_raters(study)
    assert listed.flags == {"Ann": "like a model (copied text and left the page on 3 pairs)"}
    assert listed.tables[-1].rows == tuple(listed.flags.items())


def test_raters_assign_works_only_before_the_first_rating(tmp_path, make_pairs):
    study = make_study(tmp_path / "new", make_pairs(4))
    invite_raters(study, "Ann", "Ben")
    assert "8 ratings are planned" in assign_pairs(study, "Ann", "Ben").lines[0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda study: renew_links(study, output=study.folder / "l.csv"),
            "invite more: guard-eval raters add",
        ),
        (invite_raters, "add needs at least one name: guard-eval raters add .*owned NAME"),
        (lambda study: invite_raters(study, "Ben", "Ann"), "a rater named 'Ann' already exists; choose"),
        (lambda study: invite_raters(study, "Eve", renew=True), "there is no rater named 'Eve'"),
        (lambda study: revoke_raters(study, "Ann", "Eve"), "there is no rater named 'Eve'"),
        (
            lambda study: exclude_raters(study, "Ann", reason=" "),
            "the reason to exclude 'Ann' is empty",
        ),
        (
            lambda study: exclude_raters(study, "Ann", "Eve", reason="x"),
            "there is no rater named 'Eve'",
        ),
        (lambda study: include_raters(study, "Ann", reason="x"), "'Ann' may already rate"),
        (lambda study: erase_raters(study, "Ann"), "nobody was erased, because no terminal .*; add --yes"),
        (lambda study: erase_raters(study, "Ann", "Eve", yes=True), "there is no rater named 'Eve'"),
        (lambda study: export(study, output=study.folder / "x.xlsx"), "written as CSV; give"),
        (lambda study: backup(study, study.folder / "study.toml"), "exists already; name another file"),
    ],
)
def test_refused_commands_change_nothing(study, call, says, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    before = read_all_rows(study)
    with expect_refusal(says):
        call(study)
    assert read_all_rows(study) == before


def read_all_rows(study):
    with sqlite3.connect(study.folder / "study.db") as database:
        rows = list(database.iterdump())
    database.close()
    return rows


def test_export_has_side_choice_and_method_of_each_verdict(study, tmp_path):
    assert export(study).path == study.folder / "verdicts.csv"
    rows = read_csv(study.folder / "verdicts.csv")
    assert {row["rater"] for row in rows} == {"Ann", f"'{NOT_A_FORMULA}"}
    # A was pressed throughout, so it is the method shown first.
    assert all(row["position"] == "A" and row["verdict"] == row["shown_first"] for row in rows)
    assert {row["active_seconds"] for row in rows} == {"20.0"}
    assert export(study, output=tmp_path / "new" / "V.CSV").path.stat().st_mode & 0o777 == 0o600


def test_export_writes_history_and_notes_as_separate_tables(study):
    exclude_raters(study, "Ann", reason="why")
    history, (note,) = (read_csv(export(study, table=table).path) for table in ("history", "notes"))
    assert [row["excluded"] for row in history] == ["true"] * 4 + ["false"] * 4
    assert (note["kind"], note["rater"]) == ("exclude", "Ann")
    assert [export(study, table=table).rows for table in ("verdicts", "all")] == [4, 8]


def test_a_backup_during_ratings_is_complete(study, tmp_path, make_pairs):
    copy = tmp_path / "copies" / "first.db"

    def back_up_again():
        with suppress(StudyError):  # the other backup may have ended before this one begins
            backup(study, tmp_path / "second.db")

    with Store.open(study.database) as store:
        pairs.add_pairs(store, make_pairs(300))
        rater, _ = invite_rater(store, "Cas")
        end = threading.Event()
        writer = threading.Thread(target=rate_until, args=(store, study, rater), kwargs={"until": end})
        writer.start()
        while not verdicts.read_rated_presentations(store, rater):
            pass
        backup(study, copy)
        two = [threading.Thread(target=back_up_again) for _ in range(2)]
        for thread in two:
            thread.start()
        for thread in two:
            thread.join()
        end.set()
        writer.join()
        after = len(read_tidy_rows(store))
    assert [path.name for path in copy.parent.iterdir()] == ["first.db"]
    assert copy.stat().st_mode & 0o777 == 0o600
    with Store.open(f"sqlite:///{copy}") as restored:
        rated = len(read_tidy_rows(restored))
        assert 8 < rated <= after
    with sqlite3.connect(tmp_path / "second.db") as second:
        assert second.execute("SELECT count(*) FROM verdict").fetchone()[0] >= rated
    second.close()


@pytest.mark.parametrize("name", ["x%20y", "run #2", "why?", "f\udcff"])
def test_databases_and_backups_work_in_folders_of_any_name(tmp_path, make_pairs, name):
    study = make_study(tmp_path / name, make_pairs(1))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    copy = study.folder / f"{name}.db"
    backup(study, copy)
    assert copy.read_bytes()[:15] == (study.folder / "study.db").read_bytes()[:15]


def test_backup_refuses_damaged_and_postgresql_databases(study, tmp_path, monkeypatch):
    with (study.folder / "study.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with expect_refusal("malformed; restore it from a copy"):
        backup(study, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))
    monkeypatch.setattr(Study, "database", "postgresql://me@server/db")
    with expect_refusal(r"pg_dump --format=custom .*--dbname=postgresql://me@server/db"):
        backup(study, tmp_path / "copy.db")


class AnsweringReporter:
    """A reporter for a person who gives one answer to all questions."""

    def __init__(self, answer):
        self.answer = answer

    def confirm(self, question):
        assert question.startswith("Erase Ann for good?")
        return self.answer


def test_erase_prints_a_search_for_files_with_the_name(study, monkeypatch):
    paid = RaterProgress(name="Ann", kind="person", rated=4, handed_out=4)
    monkeypatch.chdir(study.folder.parent)
    study = Study.open(study.folder.rename("-owned"))
    export(study)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with progress.use_reporter(AnsweringReporter(answer=False)):
        assert paid in erase_raters(study, "Ann").raters
    with progress.use_reporter(AnsweringReporter(answer=True)):
        erased = erase_raters(study, "Ann")
    assert "and the verdicts stay" in erased.lines[0]
    command = erased.lines[1].partition(": ")[2]
    listing = subprocess.check_output(shlex.split(command), text=True)
    assert listing.split() == ["-owned/verdicts.csv"]
    assert [row.rated for row in erased.raters] == [4, 4]
    assert "Ann" not in repr(erased.raters)
    erase_raters(study, NOT_A_FORMULA, verdicts=True, yes=True)
    with open_store(study) as store:
        assert len(read_tidy_rows(store)) == 4


def test_new_raters_get_pairs_by_the_current_plan(study):
    """The app was started with a plan of two raters per pair, and both have rated all pairs."""
    more = study.folder / "study.toml"
    more.write_text(more.read_text().replace("raters_per_pair = 2", "raters_per_pair = 3"))
    invite_raters(Study.open(study.folder), "Ben")
    with open_store(study) as store:
        ben = get_or_add_rater(store, "Ben", "person")
        assert handout.count_rated_and_remaining_pairs(store, ben, study.hand_out_plan) == (0, 4)
        assert len(handout.claim_pairs(store, ben, study.hand_out_plan)) == 1
