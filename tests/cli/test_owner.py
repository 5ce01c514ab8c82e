"""What the study's owner does while raters rate: links, decisions, a look, an export, a copy."""

import json
from dataclasses import replace

import pytest
from made import STUDY_HEAD

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
