"""What the study's owner does while raters rate: links, decisions, a look, an export, a copy."""

import csv
import json
import sqlite3
import threading
from dataclasses import replace

import pytest
from made import STUDY_HEAD

from guard_eval.cli.administration import db, export, raters
from guard_eval.cli.administration.raters import Action
from guard_eval.cli.overview import progress
from guard_eval.errors import StudyError
from guard_eval.records import Rater
from guard_eval.store import Store, handout, notes, pairs, unblind
from guard_eval.store import raters as store_raters
from guard_eval.store import verdicts as store_verdicts
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow

TOML = (
    STUDY_HEAD
    + """[annotation]
criteria = ["fluency"]
raters_per_pair = 2
"""
)
NOT_A_FORMULA = "=HYPERLINK(1)"


def opened(folder):
    return Store.open(Study.open(folder).database)


@pytest.fixture
def folder(tmp_path, make_pairs):
    """Four pairs, rated by Ann and by somebody who calls himself a formula."""
    folder = tmp_path / "owned"
    folder.mkdir()
    (folder / "study.toml").write_text(TOML)
    study = Study.open(folder)
    with Store.open(study.database, create=True, declared=study.declared) as store:
        pairs.add(store, make_pairs(4))
        for name in ("Ann", NOT_A_FORMULA):
            rate(store, study, store_raters.invite(store, name)[0])
    return folder


def rate(store, study, rater, *, until=None):
    while not (until and until.is_set()) and (batch := handout.claim(store, rater, study.plan)):
        store_verdicts.save(
            store, batch[0].presentation, {"fluency": "A"}, rater=rater, seconds=30.0, active_seconds=20.0
        )


def token_in(text, name):
    return text.split(f"{name}: ")[1].split("invite=")[1].split()[0]


def test_a_new_link_in_place_of_the_old(folder, capsys):
    raters.command(folder, Action.add, ["Ben"], url="https://rate.example.org/")
    first = capsys.readouterr().out
    assert "Ben: https://rate.example.org/?invite=" in first
    raters.command(folder, Action.link, ["Ben"])
    second = capsys.readouterr().out
    with opened(folder) as store:
        assert store_raters.sign_in(store, token_in(first, "Ben")) is None
        assert store_raters.sign_in(store, token_in(second, "Ben")).name == "Ben"


def test_exclusion_is_a_decision_that_is_recorded(folder, capsys):
    with pytest.raises(StudyError, match="needs a reason"):
        raters.command(folder, Action.exclude, ["Ann"], reason=" ")
    raters.command(folder, Action.exclude, ["Ann"], reason="three seconds a pair", by="Eve")
    assert "excluded" in capsys.readouterr().out
    with opened(folder) as store:
        assert {row.rater for row in unblind.tidy(store)} == {NOT_A_FORMULA}
        (note,) = notes.read(store, kind="exclude")
        assert json.loads(note.detail) == {"by": "Eve", "reason": "three seconds a pair"}
    raters.command(folder, Action.include, ["Ann"], reason="the clock was wrong", by="Eve")
    with opened(folder) as store:
        assert len(unblind.tidy(store)) == 8


def test_a_roster_is_planned_before_anybody_rates(tmp_path, make_pairs, capsys):
    (tmp_path / "study.toml").write_text(TOML)
    with Store.open(Study.open(tmp_path).database, create=True) as store:
        pairs.add(store, make_pairs(4))
        for name in ("Ann", "Ben"):
            store_raters.invite(store, name)
    raters.command(tmp_path, Action.assign, ["Ann", "Ben"])
    assert "8 ratings are planned for 2 raters" in capsys.readouterr().out


def test_the_list_says_how_far_and_how_long(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    raters.command(folder)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Ann"))
    assert line.split() == ["Ann", "person", "4", "4", "80", "s"]  # four pairs of 20 s


def test_progress_in_the_terminal_as_a_page_and_as_json(folder, capsys, tmp_path):
    progress.command(folder, output=tmp_path / "page.html")
    out = capsys.readouterr().out
    assert "8 of 8 ratings (100 %): 4 pairs, 2 people each." in out
    assert f"Next: guard-eval report {folder}" in out
    assert "8 of 8 ratings" in (tmp_path / "page.html").read_text(encoding="utf-8")
    progress.command(folder, as_json=True)
    assert json.loads(capsys.readouterr().out)["counted"] == 8
    with pytest.raises(StudyError, match=r"ends in \.html or \.json"):
        progress.command(folder, output=tmp_path / "page.pdf")


@pytest.mark.parametrize(
    "name", ["  ", " Ben", "Ben\n", "B\x1b[2Jen", "\u202eneB", "Be\u200bn", "\u3164", "B\u2028n"]
)
def test_a_name_that_cannot_be_seen_or_typed_is_refused(folder, capsys, name):
    with pytest.raises(StudyError, match="write") as refused:
        raters.command(folder, Action.add, [name])
    assert str(refused.value).isascii()
    assert "invite=" not in capsys.readouterr().out
    with opened(folder) as store:
        assert len(store_raters.read(store)) == 2


def test_a_comment_cannot_steer_the_owners_terminal(folder, capsys):
    with opened(folder) as store:
        first = unblind.tidy(store)[0]
        who = Rater(id=1 if first.rater == "Ann" else 2, name=first.rater, kind="person")
        notes.write(store, who, "comment", "\u202egnp.exe \x1b[2J", presentation=first.presentation)
    progress.command(folder)
    out = capsys.readouterr().out
    assert r"\u202egnp.exe" in out
    assert "changed" not in out
    progress.command(folder, as_json=True)
    assert out.replace("\n", "").isprintable()
    assert capsys.readouterr().out.isascii()


def test_watching_goes_on_while_the_database_is_away(folder, capsys, monkeypatch, tmp_path):
    database, waits = folder / "study.db", iter(("away", "back", "end"))

    def wait(seconds):
        turn = next(waits)
        if turn == "end":
            raise KeyboardInterrupt
        database.rename(tmp_path / "kept") if turn == "away" else (tmp_path / "kept").rename(database)

    monkeypatch.setattr("time.sleep", wait)
    progress.command(folder, watch=True, every=3, output=tmp_path / "page.html")
    out = capsys.readouterr().out
    assert out.count("8 of 8 ratings") == 2
    assert "error: there is no database" in out
    assert 'content="3"' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_export_says_side_button_and_method(folder, tmp_path):
    export.command(folder)
    with (folder / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["rater"] for row in rows} == {"Ann", f"'{NOT_A_FORMULA}"}
    # A was pressed throughout, so it is the method shown first.
    assert all(row["position"] == "A" and row["verdict"] == row["shown_first"] for row in rows)
    assert {row["active_seconds"] for row in rows} == {"20.0"}

    export.command(folder, output=tmp_path / "v.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["rater"] for line in lines} == {"Ann", NOT_A_FORMULA}
    assert [line["verdict"] for line in lines] == [row["verdict"] for row in rows]

    parquet = pytest.importorskip("pyarrow.parquet")
    export.command(folder, output=tmp_path / "v.parquet")
    table = parquet.read_table(tmp_path / "v.parquet")
    assert table.to_pylist() == lines
    assert str(table.schema.field("seconds").type) == "double"


def test_history_checks_and_notes_are_tables_of_their_own(folder, capsys):
    with opened(folder) as store:
        ann = next(row for row in unblind.tidy(store) if row.rater == "Ann")
        rater = notes.read(store)  # nothing is noted yet
        assert rater == []
    raters.command(folder, Action.exclude, ["Ann"], reason="why", by="Eve")
    for table in ("history", "checks", "notes"):
        export.command(folder, kind=export.Format.jsonl, **{table: True})
    out = capsys.readouterr().out
    assert "history.jsonl: 8 history" in out
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert sum(row["excluded"] for row in history) == 4
    assert ann.presentation in {row["presentation"] for row in history}
    assert (folder / "checks.jsonl").read_text() == ""
    (note,) = (json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines())
    assert (note["kind"], note["rater"]) == ("exclude", "Ann")
    with pytest.raises(StudyError, match="one at a time"):
        export.command(folder, history=True, notes=True)
    export.command(folder, excluded=True)
    assert "4 of them do not count" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "asked", "says"),
    [
        ("x.xls", None, r"writes no \.xls to .* name a file such as .*x\.csv"),
        ("x.json", None, r"it writes csv, jsonl, parquet;"),
        ("x.tsv", None, r"writes no \.tsv"),
        ("x.csv", "parquet", r"writes no \.csv .* such as .*x\.parquet"),
    ],
)
def test_an_export_is_in_the_format_that_its_name_says(folder, tmp_path, name, asked, says):
    with pytest.raises(StudyError, match=says):
        export.command(folder, output=tmp_path / name, kind=asked and export.Format(asked))
    assert not (tmp_path / name).exists()
    export.command(folder, output=tmp_path / "VERDICTS.JSONL")
    json.loads((tmp_path / "VERDICTS.JSONL").read_text().splitlines()[0])
    export.command(folder, output=tmp_path / "plain")
    assert (tmp_path / "plain").read_text().startswith("pair_id,")


def test_a_copy_taken_while_raters_rate_is_whole(folder, tmp_path, make_pairs):
    study, copy = Study.open(folder), tmp_path / "copies" / "first.db"
    with Store.open(study.database) as store:
        pairs.add(store, make_pairs(300))
        rater, _ = store_raters.invite(store, "Cas")
        end = threading.Event()
        writer = threading.Thread(target=rate, args=(store, study, rater), kwargs={"until": end})
        writer.start()
        while not store_verdicts.trail(store, rater):
            pass
        db.command(folder, db.DatabaseAction.backup, copy)
        db.command(folder, db.DatabaseAction.backup, tmp_path / "second.db")
        end.set()
        writer.join()
        after = len(unblind.tidy(store))
    assert [path.name for path in copy.parent.iterdir()] == ["first.db"]
    with Store.open(f"sqlite:///{copy}") as restored:
        verdicts = len(unblind.tidy(restored))
        assert 8 < verdicts <= after
    with sqlite3.connect(tmp_path / "second.db") as second:
        assert second.execute("SELECT count(*) FROM verdict").fetchone()[0] >= verdicts
    second.close()
    with pytest.raises(StudyError, match="overwrites nothing"):
        db.command(folder, db.DatabaseAction.backup, copy)


def test_a_person_is_erased_and_files_that_still_name_them_are_listed(folder, capsys):
    export.command(folder, notes=True)
    export.command(folder)
    progress.command(folder, output=folder / "progress.html")
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.*") if path.name != "study.toml"} == {
        0o600
    }
    with opened(folder) as store:  # a word of somebody else's: the database is not to be removed for it
        other = store_raters.get_or_add(store, NOT_A_FORMULA, "person")
        notes.write(
            store, other, "comment", "Ann sits beside me", presentation=store_verdicts.trail(store, other)[0]
        )
    capsys.readouterr()
    raters.command(folder, Action.erase, ["Ann"], yes=True)
    out = capsys.readouterr().out
    assert "whose verdicts stay" in out
    assert str(folder / "verdicts.csv") in out
    assert str(folder / "study.db") not in out
    assert "in what others wrote: guard-eval export STUDY --notes" in out
    with opened(folder) as store:
        assert [row.rated for row in store_raters.read(store)] == [4, 4]
        assert "Ann" not in repr(store_raters.read(store))
    raters.command(folder, Action.erase, [NOT_A_FORMULA], verdicts=True, yes=True)
    with opened(folder) as store:
        assert len(unblind.tidy(store)) == 4


def test_a_skipped_pair_is_a_remark_and_no_verdict(folder, capsys):
    with opened(folder) as store:
        plan = replace(Study.open(folder).plan, slots=4)
        for name in ("R1", "R2", "R3"):
            rater, _ = store_raters.invite(store, name)
            (given,) = handout.claim(store, rater, replace(plan, seed=1))
            handout.skip(store, given.presentation, ["unreadable"], rater=rater, comment="boxes")
    progress.command(folder)
    out = capsys.readouterr().out
    assert out.count("unreadable") == 3
    assert "skipped by 3 raters or more" in " ".join(out.split()) or out.count("boxes") == 3
    found = progress.progress(Study.open(folder))
    assert sum(line.skipped for line in found.pairs) == sum(line.skipped for line in found.raters) == 3
    assert found.counted == 8
