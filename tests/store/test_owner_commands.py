"""What the study's owner does while raters rate: links, decisions, exports, copies, erasures."""

import csv
import inspect
import json
import shlex
import sqlite3
import subprocess
import threading
from contextlib import suppress

import pytest
from factories import STUDY_HEAD

from analysis.monitor.rater_list import list_raters
from annotation_app.annotate import annotate, make_url
from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.store import Store, handout, manage, notes, pairs, raters, settings, unblind, verdicts
from guard_eval.store.export import backup, export
from guard_eval.study import Study

TOML = (
    STUDY_HEAD
    + """[annotation]
criteria = ["fluency"]
raters_per_pair = 2
"""
)
NOT_A_FORMULA = "=HYPERLINK(1)"


@pytest.fixture
def study(tmp_path, make_pairs):
    """Four pairs, rated by Ann and by somebody who calls himself a formula."""
    folder = tmp_path / "owned"
    folder.mkdir()
    (folder / "study.toml").write_text(TOML)
    study = Study.open(folder)
    with Store.open(study.database, create=True, declared=study.declared) as store:
        pairs.add(store, make_pairs(4))
        for name in ("Ann", NOT_A_FORMULA):
            rate(store, study, raters.invite(store, name)[0])
    return study


def opened(study):
    return Store.open(study.database)


def rate(store, study, rater, *, until=None):
    while not (until and until.is_set()) and (batch := handout.claim(store, rater, study.hand_out_plan)):
        verdicts.save(
            store, batch[0].presentation, {"fluency": "A"}, rater=rater, seconds=30.0, active_seconds=20.0
        )


def test_a_renewed_link_replaces_the_old_one(study):
    first = manage.add(study, "Ben", url="https://rate.example.org/").links["Ben"]
    assert first.startswith("https://rate.example.org/?invite=")
    second = manage.add(study, "Ben", renew=True).links["Ben"]
    with opened(study) as store:
        assert raters.sign_in(store, first.partition("invite=")[2]) is None
        assert raters.sign_in(store, second.partition("invite=")[2]).name == "Ben"


def test_a_link_has_the_address_of_the_served_app(study):
    """Before that it is where `annotate` serves by default, which the sentence below the links says."""
    unserved = manage.add(study, "Ben")
    options = inspect.signature(annotate).parameters
    default = make_url(options["address"].default, options["port"].default)
    assert unserved.links["Ben"].startswith(f"{default}/?invite=")
    assert "The links work only on this machine" in unserved.lines[-1]
    with opened(study) as store:
        settings.put(store, settings.APP_ADDRESS, "http://10.0.0.7:8600")
    served = manage.add(study, "Cas")
    assert served.links["Cas"].startswith("http://10.0.0.7:8600/?invite=")
    assert served.lines[-1] == f"  Cas: {served.links['Cas']}"


def test_links_are_written_for_raters_without_verdicts(study, tmp_path):
    first = manage.add(study, "Ben", "Cas").links["Ben"]
    manage.revoke(study, "Cas")
    result = manage.links(study, output=tmp_path / "links.csv", url="https://rate.example.org")
    with (tmp_path / "links.csv").open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert "new links for Ben; their earlier links no longer work" in result.lines[0]
    assert row["link"].startswith("https://rate.example.org/?invite=")
    assert (tmp_path / "links.csv").stat().st_mode & 0o777 == 0o600
    with opened(study) as store:
        assert raters.sign_in(store, first.partition("invite=")[2]) is None
        assert raters.sign_in(store, row["link"].partition("invite=")[2]).name == row["name"] == "Ben"
    manage.links(study, "Ann", output=tmp_path / "ann.csv")
    assert "Ann,http://127.0.0.1" in (tmp_path / "ann.csv").read_text()


def test_old_links_stay_valid_if_new_ones_cannot_be_written(study, tmp_path, failing_commits):
    link = manage.add(study, "Ben").links["Ben"]
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "links.csv").write_text("earlier links")
    with failing_commits(), pytest.raises(StudyError, match="disk is full"):
        manage.links(study, output=tmp_path / "links.csv")
    assert (tmp_path / "links.csv").read_text() == "earlier links"
    assert [path.name for path in tmp_path.iterdir() if "links" in path.name] == ["links.csv"]
    for output, says in ((tmp_path / "folder.csv", "not a regular file"), (tmp_path / "x.txt", "as .csv")):
        with pytest.raises(StudyError, match=says):
            manage.links(study, output=output)
    with opened(study) as store:
        assert raters.sign_in(store, link.partition("invite=")[2]).name == "Ben"


def test_a_change_shows_only_who_changed(study):
    result = manage.exclude(study, "Ann", reason="three seconds")
    assert [row[0] for row in result.tables[0].rows] == ["Ann"]
    assert len(result.raters) == 2
    assert len(list_raters(study).tables[0].rows) == 2


@pytest.mark.parametrize(
    "url", ["", "rate.example.org", "ftp://x", "https://", "https://x/?a=b", "http://a b"]
)
def test_an_invalid_link_address_is_refused(study, url):
    with pytest.raises(StudyError, match="links cannot begin with this; write an address such as https://"):
        manage.add(study, "Ben", url=url)
    assert "Ben" not in {rater.name for rater in list_raters(study).raters}


def test_exclusions_are_recorded_with_name_and_reason(study, monkeypatch):
    monkeypatch.setattr("getpass.os.environ", {"LOGNAME": "Eve"})
    states = {
        rater.name: rater.state for rater in manage.exclude(study, "Ann", reason="three seconds").raters
    }
    assert states == {"Ann": "excluded", NOT_A_FORMULA: ""}
    with opened(study) as store:
        assert {row.rater for row in unblind.read_tidy_rows(store)} == {NOT_A_FORMULA}
        (note,) = notes.read(store, kind="exclude")
        assert json.loads(note.detail) == {"by": "Eve", "reason": "three seconds"}
    manage.include(study, "Ann", reason="the clock was wrong")
    with opened(study) as store:
        assert len(unblind.read_tidy_rows(store)) == 8


def test_raters_list_shows_each_raters_state(study):
    with opened(study) as store:
        who = raters.get_or_add(store, "Ann", "person")
        notes.write(store, who, "finished", json.dumps({"rated": 4}))
        notes.write(store, raters.get_or_add(store, NOT_A_FORMULA, "person"), "consent", '{"agreed": false}')
    listed = list_raters(study)
    assert [(rater.name, rater.rated, rater.state) for rater in listed.raters] == [
        ("Ann", 4, "finished"),
        (NOT_A_FORMULA, 4, "declined"),
    ]
    assert listed.flags == {}
    assert listed.tables[0].columns == ("name", "kind", "handed out", "rated", "state")


def test_raters_list_shows_signs_of_careless_rating(study):
    with opened(study) as store:
        ann = raters.get_or_add(store, "Ann", "person")
        for number in verdicts.read_rated_presentations(store, ann)[:3]:
            notes.write(store, ann, "conduct", '{"copies": 1}', presentation=number)
    listed = list_raters(study)
    assert listed.flags == {"Ann": "like a model (copied text and left the page on 3 pairs)"}
    assert listed.tables[-1].rows == (("Ann", "like a model (copied text and left the page on 3 pairs)"),)
    assert {rater.name: rater.rated for rater in listed.raters}["Ann"] == 4


def test_a_roster_is_planned_before_anybody_rates(tmp_path, make_pairs):
    (tmp_path / "study.toml").write_text(TOML)
    study = Study.open(tmp_path)
    with Store.open(study.database, create=True) as store:
        pairs.add(store, make_pairs(4))
        for name in ("Ann", "Ben"):
            raters.invite(store, name)
    assert "8 ratings are planned" in manage.assign(study, "Ann", "Ben").lines[0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda study: manage.links(study, output=study.folder / "l.csv"),
            "invite others: guard-eval raters add",
        ),
        (manage.add, "add needs at least one name: guard-eval raters add .*owned NAME"),
        (lambda study: manage.add(study, "Ben", "Ann"), "a rater named 'Ann' exists; choose"),
        (lambda study: manage.add(study, "Eve", renew=True), "there is no rater named 'Eve'"),
        (lambda study: manage.revoke(study, "Ann", "Eve"), "there is no rater named 'Eve'"),
        (lambda study: manage.exclude(study, "Ann", reason=" "), "the reason to exclude 'Ann' is empty"),
        (lambda study: manage.exclude(study, "Ann", "Eve", reason="x"), "there is no rater named 'Eve'"),
        (lambda study: manage.include(study, "Ann", reason="x"), "'Ann' is not excluded"),
        (lambda study: manage.erase(study, "Ann"), "nobody was erased; add --yes"),
        (lambda study: manage.erase(study, "Ann", "Eve", yes=True), "there is no rater named 'Eve'"),
        (lambda study: export(study, output=study.folder / "x.xlsx"), r"written as \.csv; name"),
        (lambda study: backup(study, study.folder / "study.toml"), "a backup overwrites no file"),
    ],
)
def test_refused_commands_change_nothing(study, call, says, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    before = dump(study)
    with pytest.raises(StudyError, match=says):
        call(study)
    assert dump(study) == before


def dump(study):
    with sqlite3.connect(study.folder / "study.db") as database:
        rows = list(database.iterdump())
    database.close()
    return rows


def test_an_export_has_columns_of_side_choice_and_method(study, tmp_path):
    assert export(study).path == study.folder / "verdicts.csv"
    with (study.folder / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["rater"] for row in rows} == {"Ann", f"'{NOT_A_FORMULA}"}
    # A was pressed throughout, so it is the method shown first.
    assert all(row["position"] == "A" and row["verdict"] == row["shown_first"] for row in rows)
    assert {row["active_seconds"] for row in rows} == {"20.0"}
    assert export(study, output=tmp_path / "new" / "V.CSV").path.stat().st_mode & 0o777 == 0o600


def test_history_and_notes_are_separate_tables(study):
    manage.exclude(study, "Ann", reason="why")
    rows = {}
    for table in ("history", "notes"):
        with export(study, table=table).path.open(encoding="utf-8", newline="") as file:
            rows[table] = list(csv.DictReader(file))
    assert [row["excluded"] for row in rows["history"]].count("true") == 4
    assert len(rows["history"]) == 8
    assert [(note["kind"], note["rater"]) for note in rows["notes"]] == [("exclude", "Ann")]
    assert [export(study, table=table).rows for table in ("verdicts", "all")] == [4, 8]


def test_a_backup_during_ratings_is_complete(study, tmp_path, make_pairs):
    copy = tmp_path / "copies" / "first.db"

    def back_up_again():
        with suppress(StudyError):  # the other backup may have ended before this one begins
            backup(study, tmp_path / "second.db")

    with Store.open(study.database) as store:
        pairs.add(store, make_pairs(300))
        rater, _ = raters.invite(store, "Cas")
        end = threading.Event()
        writer = threading.Thread(target=rate, args=(store, study, rater), kwargs={"until": end})
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
        after = len(unblind.read_tidy_rows(store))
    assert [path.name for path in copy.parent.iterdir()] == ["first.db"]
    assert copy.stat().st_mode & 0o777 == 0o600
    with Store.open(f"sqlite:///{copy}") as restored:
        rated = len(unblind.read_tidy_rows(restored))
        assert 8 < rated <= after
    with sqlite3.connect(tmp_path / "second.db") as second:
        assert second.execute("SELECT count(*) FROM verdict").fetchone()[0] >= rated
    second.close()


def test_backup_refuses_damaged_and_postgresql_databases(study, tmp_path, monkeypatch):
    with (study.folder / "study.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    with pytest.raises(StudyError, match="malformed; restore it from a copy"):
        backup(study, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))
    monkeypatch.setattr(Study, "database", "postgresql://me@server/db")
    with pytest.raises(StudyError, match=r"pg_dump --format=custom .*--dbname=postgresql://me@server/db"):
        backup(study, tmp_path / "copy.db")


class Answers:
    """A person at the terminal."""

    def __init__(self, answer):
        self.answer = answer

    def confirm(self, question):
        assert question.startswith("Erase Ann for good?")
        return self.answer


def test_erase_names_files_that_still_hold_the_name(study, monkeypatch):
    paid = raters.RaterProgress(name="Ann", kind="person", rated=4, handed_out=4)
    export(study)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with progress.use_reporter(Answers(answer=False)):
        assert paid in manage.erase(study, "Ann").raters
    with progress.use_reporter(Answers(answer=True)):
        erased = manage.erase(study, "Ann")
    assert "and the verdicts stay" in erased.lines[0]
    command = erased.lines[1].partition(": ")[2]
    assert subprocess.run(
        shlex.split(command), capture_output=True, text=True, check=True
    ).stdout.split() == [str(study.folder / "verdicts.csv")]
    assert [row.rated for row in erased.raters] == [4, 4]
    assert "Ann" not in repr(erased.raters)
    manage.erase(study, NOT_A_FORMULA, verdicts=True, yes=True)
    with opened(study) as store:
        assert len(unblind.read_tidy_rows(store)) == 4


def test_new_raters_get_pairs_by_the_current_plan(study):
    """The app that is served began with two raters a pair, and both have rated all."""
    more = study.folder / "study.toml"
    more.write_text(more.read_text().replace("raters_per_pair = 2", "raters_per_pair = 3"))
    manage.add(Study.open(study.folder), "Ben")
    with opened(study) as store:
        ben = raters.get_or_add(store, "Ben", "person")
        assert handout.count_progress(store, ben, study.hand_out_plan) == (0, 4)
        assert len(handout.claim(store, ben, study.hand_out_plan)) == 1
