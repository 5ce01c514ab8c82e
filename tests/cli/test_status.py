"""`guard-eval status`: every stage of a study, and broken ones, in a screen with the next command."""

import json

import pytest
from made import text_file

from guard_eval.demo.run import simulate
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow


def parts(run, *arguments):
    ran = run("status", *arguments, "--json")
    found = json.loads(ran.out)
    return {each["part"]: each for each in found["parts"]}, found["next"]


def test_from_nothing_to_a_report(run, study):
    found, then = parts(run, "small")
    assert {name: each["state"] for name, each in found.items()} == {
        "settings": "complete",
        "prompts": "complete",
        "continuations": "missing",
        "metrics": "missing",
        "pairs": "missing",
    }
    assert then == ["guard-eval generate small --dry-run"]
    assert run("generate", "small").code == 0
    assert parts(run, "small")[1] == ["guard-eval pair small", "guard-eval measure small"]
    assert run("pair", "small").code == 0
    found, then = parts(run, "small")
    assert found["continuations"]["text"] == "24 of 24"
    assert found["pairs"]["text"] == "3 pairs"
    assert found["people"]["text"] == "0 of 6 ratings, 0 raters"
    assert found["judges"]["text"] == "gpt-4o-2024-11-20: 6 presentations left"
    # nothing is needed any more; what goes on is a choice
    assert then == [
        "guard-eval measure small",
        "guard-eval raters small add NAME …",
        "guard-eval judge small --dry-run",
    ]
    simulate(Study.open(study))
    _, then = parts(run, "small")
    assert then[0] == "guard-eval report small"
    assert run("report", "small").code == 0
    found, then = parts(run, "small")
    assert found["report"]["state"] == "complete"
    assert "guard-eval report small" not in then
    screen = run("status", "small").out
    assert len(screen.splitlines()) < 24


def test_some_texts_are_missing(run, paired):
    path = text_file(paired, "greedy")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    found, then = parts(run, "small")
    assert found["continuations"]["text"] == "22 of 24: greedy lacks 2"
    assert then[0] == "guard-eval generate small --dry-run"


def test_broken_parts_are_named_and_the_others_still_shown(run, paired):
    (paired / "study.db").write_bytes(b"no database" * 100)
    for place in paired.glob("study.db-*"):
        place.unlink()
    (paired / "prompts.jsonl").write_text("{oops\n")
    ran = run("status", "small")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert "✗ prompts" in ran.out
    assert "line 1: not valid JSON" in ran.out
    assert "✗ database" in ran.out
    assert "✓ settings" in ran.out


def test_settings_that_cannot_be_read(run, paired):
    (paired / "study.toml").write_text("name = ")
    ran = run("status", "small")
    assert ran.code == 2
    assert "is not valid TOML" in ran.out
    assert "✓ continuations  1 file" in ran.out
    assert "study.db" in ran.out
    assert "there is no folder 'nowhere'" in run("status", "nowhere").out


def test_nothing_is_changed(run, paired):
    before = {path: path.stat().st_mtime_ns for path in paired.rglob("*") if path.suffix != ".db-shm"}
    run("status", "small")
    after = {path: path.stat().st_mtime_ns for path in paired.rglob("*") if path.suffix != ".db-shm"}
    assert {path: after[path] for path in before if path.is_file()} == {
        path: time for path, time in before.items() if path.is_file()
    }
