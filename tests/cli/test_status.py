"""`guard-eval status`: every stage of a study, broken ones too, with its raters and the next command."""

import json
import os

import pytest
from factories import text_file
from rating import claim_pair, invite_people, save_choice

from analysis.demo import simulate_verdicts
from guard_eval.store import Store, notes, raters, unblind
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow


def parts(run, *arguments):
    status = json.loads(run("status", *arguments, "--json").out)
    return {state["name"]: state for state in status["steps"]}, status["next"]


def test_status_shows_each_step_until_the_report(run, study):
    result, then = parts(run, "small")
    states = " ".join(f"{name}:{state['state']}" for name, state in result.items())
    assert states == "settings:complete prompts:complete continuations:missing metrics:missing pairs:missing"
    assert then == ["guard-eval generate small --dry-run"]
    assert run("generate", "small").code == 0
    assert parts(run, "small")[1] == ["guard-eval pair small", "guard-eval measure small"]
    assert run("pair", "small").code == 0
    result, then = parts(run, "small")
    assert result["continuations"]["text"] == "24 of 24"
    assert result["pairs"]["text"] == "3 pairs"
    assert result["people"]["text"] == "0 of 6 ratings, 0 raters"
    assert result["judges"]["text"] == "gpt-4o-2024-11-20: 6 verdicts missing"
    # nothing is needed any more; what goes on is a choice
    assert then == [
        "guard-eval measure small",
        "guard-eval raters add small NAME",
        "guard-eval judge small --dry-run",
    ]
    simulate_verdicts(Study.open(study))
    assert parts(run, "small")[1][0] == "guard-eval report small"
    assert run("report", "small").code == 0
    assert run("backup", "small", "small/study.db.bak").code == 0  # newer, but not the database
    result, then = parts(run, "small")
    assert result["report"]["state"] == "complete"
    assert then == ["guard-eval judge small --dry-run", "guard-eval measure small"]
    screen = run("status", "small").out
    assert "6 of 6 ratings (100 %): 3 pairs, 2 SIMULATED raters each." in screen
    assert "Agreement, and preference for a side" in screen


@pytest.mark.postgres
def test_report_is_old_if_verdicts_on_a_server_are_newer(run, study, postgres_url):
    settings = study / "study.toml"
    settings.write_text(f'database = "{postgres_url}"\n{settings.read_text()}')
    assert run("generate", "small").code == run("pair", "small").code == 0
    simulate_verdicts(Study.open(study))
    assert run("report", "small").code == 0
    assert parts(run, "small")[0]["report"]["state"] == "complete"
    os.utime(study / "report" / "index.html", (0, 0))
    assert parts(run, "small")[0]["report"]["text"].endswith("older than the database")


def test_status_counts_missing_texts_of_changed_prompts(run, paired):
    path = text_file(paired, "greedy")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]) + '{"id": "torn')
    result, then = parts(run, "small")
    assert result["continuations"]["text"] == "22 of 24: greedy lacks 2"
    assert then[0] == "guard-eval generate small --dry-run"
    prompts = (paired / "prompts.jsonl").read_text()
    (paired / "prompts.jsonl").write_text(prompts.replace("a cat", "a bat"))
    assert parts(run, "small")[0]["continuations"]["text"].startswith("18 of 24: greedy lacks 3, top_k")


@pytest.mark.parametrize(
    ("setting", "drawn"),
    [
        ("pairs.compare=[['guard', 'acs(q=1)'], ['guard', 'greedy']]", "3 of 6 pairs"),
        ("pairs.per_dataset=5", "3 of 5 pairs"),
        ("pairs.compare=[['guard', 'greedy']]", "0 of 3 pairs"),  # as in the database of another study
    ],
)
def test_status_counts_pairs_that_were_added_to_the_plan(run, paired, setting, drawn):
    simulate_verdicts(Study.open(paired))
    before, _ = parts(run, "small")
    assert (before["pairs"]["state"], before["pairs"]["text"]) == ("complete", "3 pairs")
    result, then = parts(run, "small", "--set", setting)
    assert (result["pairs"]["state"], result["pairs"]["text"]) == ("partial", drawn)
    assert then[0].startswith("guard-eval pair small")
    page = run("report", "small", "--set", setting, "--output", "out")
    assert page.code == 0, page
    text = (paired.parent / "out" / "report.md").read_text("utf-8")
    assert f"Planned ratings are missing: {drawn.removesuffix(' pairs')} planned pairs were drawn" in text


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (
            "pairs.compare=[['guard', 'greedy']]",
            "pairs.compare does not name guard with acs(q=1), in this order",
        ),
        ("pairs.per_dataset=2", "prompts.file, pairs.per_dataset, [tuning] or seed give other prompts of"),
        ("pairs.human_pairs=2", "pairs.human_pairs gives people other pairs"),
        ("pairs.design=rounds", "pairs.design or pairs.rounds put prompts into other rounds"),
    ],
)
def test_status_names_pairs_that_are_no_longer_planned(run, paired, setting, reason):
    assert "no longer give" not in run("status", "small").err
    assert reason in " ".join(run("status", "small", "--set", setting).err.split())


def test_ratings_beyond_the_plan_do_not_fill_other_pairs(run, paired):
    fluency = "annotation.criteria=['fluency']"
    study = Study.open(paired, [fluency])
    with Store.open(study.database, declared=study.declared) as store:
        for person in invite_people(store, "ann", "ben", "cyd"):
            save_choice(store, person, claim_pair(store, person, study.hand_out_plan))
    steps, _ = parts(run, "small", "--set", fluency, "--set", "annotation.raters_per_pair=1")
    assert steps["people"]["text"].startswith("3 of 3 ratings")
    assert steps["people"]["state"] == "partial"


def test_status_names_broken_steps_and_shows_the_others(run, paired):
    (paired / "study.db").write_bytes(b"no database" * 100)
    for index in paired.glob("study.db-*"):
        index.unlink()
    (paired / "prompts.jsonl").write_text("{oops\n")
    ran = run("status", "small")
    assert (ran.code, ran.err) == (2, "")
    for words in ("✗ prompts", "line 1: not valid JSON", "✗ database", "✓ settings"):
        assert words in ran.out
    (paired / "study.toml").write_text("name = ")
    ran = run("status", "small")
    assert ran.code == 2
    assert "is not valid TOML" in ran.out
    assert "there is no study.toml in 'nowhere'" in run("status", "nowhere").out


def test_ratings_that_lack_a_criterion_are_not_complete(run, paired):
    simulate_verdicts(Study.open(paired))
    line = "… people         6 of 6 ratings, 4 raters (SIMULATED), 6 without factuality"
    ran = run("status", "small", "--set", 'annotation.criteria=["fluency", "coherence", "factuality"]')
    assert line in ran.out, ran.out
    assert "6 ratings without a verdict on factuality, which was added later" in ran.err


def test_status_names_all_criteria_without_agreement(run, paired):
    simulate_verdicts(Study.open(paired))
    with Store.open(Study.open(paired).database) as store:
        for rater in raters.read_rater_progress(store)[1:]:
            raters.decide_about_rater(store, rater.name, "exclude", by="owner", reason="for the test")
    note = " ".join(run("status", "small").out.split())
    assert (
        "coherence and fluency: no item was rated twice." in note or "fluency and coherence: no item" in note
    )


def test_status_changes_nothing(run, paired):
    def times():
        files = [path for path in paired.rglob("*") if path.is_file() and path.suffix != ".db-shm"]
        return {path: path.stat().st_mtime_ns for path in files}

    before = times()
    run("status", "small")
    assert before.items() <= times().items()


def test_control_characters_in_comments_are_escaped(run, paired):
    simulate_verdicts(Study.open(paired))
    with Store.open(Study.open(paired).database) as store:
        first = next(row for row in unblind.read_tidy_rows(store) if row.rater_kind == "simulated")
        who = raters.get_or_add_rater(store, first.rater, first.rater_kind)
        text = "<script> \u202egnp.exe \x1b[2J [bold]"
        notes.write_note(store, who, "comment", text, presentation=first.presentation)
        notes.write_note(store, who, "conduct", '{"driven": 1}', presentation=first.presentation)
    screen = run("status", "small").out
    assert "\ufffdgnp.exe" in screen
    assert "[bold]" in screen
    assert "like a model" in screen
    assert ".." not in screen  # each meaning of a flag ends in one full stop
    assert screen.replace("\n", "").replace("\u00a0", "").isprintable()
    as_json = run("status", "small", "--json").out
    assert as_json.isascii()
    assert json.loads(as_json)["ratings"]["remarks"][0]["text"] == text


def test_status_watch_continues_without_the_database(run, paired, monkeypatch, tmp_path):
    database, copy, turns = paired / "study.db", tmp_path / "kept", iter(("away", "back", "end"))

    def wait(seconds):
        turn = next(turns)
        if turn == "end":
            raise KeyboardInterrupt
        if turn == "away":
            database.rename(copy)
            database.write_bytes(b"no database" * 100)
        else:
            copy.replace(database)

    monkeypatch.setattr("time.sleep", wait)
    ran = run("status", "small", "--watch")
    assert ran.code == 0
    assert ran.out.count("✓ pairs") == 2
    assert ran.out.count("✗ database") == 1
