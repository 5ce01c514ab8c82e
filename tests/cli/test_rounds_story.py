"""A study in rounds from the command line: pairs, status within a round, and a report without fixed tests."""

import json
import re

import pytest
from rating import claim_pair, invite_people, save_choice
from read_files import read_csv

from analysis.demo import simulate_verdicts
from guard_eval.demo.raters import NAMES
from guard_eval.store import Store, raters
from guard_eval.study import Study

pytestmark = pytest.mark.slow

WORDS = ("amber", "birch", "cedar", "dusty", "ember", "fable", "grove", "hazel")
TEXTS = {
    "rich": lambda n: " ".join(f"{word}{at}" for at in range(8) for word in (*WORDS, str(n))),
    "plain": lambda n: " ".join(f"{word}{at}" for at in range(8) for word in (str(n), *WORDS)),
    "loop": lambda n: " ".join([f"again{n}"] * 64),
}
"""Simulated raters like the first two, and not the last one."""


@pytest.fixture
def folder(tmp_path):
    study = tmp_path / "s"
    study.mkdir()
    prompts = [{"id": f"p{n}", "prompt": f"Tale number {n} begins"} for n in range(40)]
    (study / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    for name, text in TEXTS.items():
        lines = [json.dumps({"id": prompt["id"], "text": text(n)}) for n, prompt in enumerate(prompts)]
        (study / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    systems = "".join(f'[[system]]\nname = "{name}"\nfile = "{name}.jsonl"\n' for name in TEXTS)
    head = 'name = "s"\nseed = 4\n[annotation]\ncriteria = ["fluency", "coherence"]\nraters_per_pair = 2\n'
    pairs = '[pairs]\ncompare = [["rich", "plain", "loop"]]\ndesign = "rounds"\nrounds = 4\n'
    (study / "study.toml").write_text(f"{head}{pairs}per_dataset = 30\n{systems}")
    return study


def status_of(run):
    return run("status", "s").out


def read_rows(folder, name):
    return read_csv(folder / "csv" / f"{name}.csv")


def read_rounded(folder, name):
    """Return the rows of a table with nine decimals. Sums in another order differ after them."""
    return [
        {key: re.sub(r"\d\.\d+", lambda number: f"{float(number[0]):.9f}", cell) for key, cell in row.items()}
        for row in read_rows(folder, name)
    ]


def by_people(folder, name, *key):
    """Return the rows of people by some of their columns."""
    rows = read_rows(folder / "report", name)
    return {tuple(row[column] for column in key): row for row in rows if not row["judge"]}


def test_tournament_reports_no_fixed_sample_test(run, folder):
    assert "90 pairs, 90 new" in run("pair", "s").out
    assert run("describe", "s").code == 0
    plan = (folder / "plan.md").read_text()
    assert "into 4 rounds" in plan
    assert "3 comparisons on fluency, which decides" in plan
    assert "Results are looked at once" not in plan
    first = status_of(run)
    assert "people: round 1 of 4; " in first
    refused = run("report", "s").refused()
    assert "has no round that is over" in refused
    simulate_verdicts(Study.open(folder))
    after = status_of(run)
    assert "people: over after 4 of 4 rounds; loop left" in after
    assert "waits for" not in after
    ran = run("report", "s", "--paper")
    assert ran.code == 0, ran
    assert "comparisons are decided; loop left. They took" in ran.out
    assert ran.out.count("there is no test: comparisons stopped when they were decided") == 1
    sentence = (folder / "report" / "paper" / "sentence.txt").read_text()
    assert "(largest |z| t^¼ over the rounds; guard-eval" in sentence  # the test of fluency
    page = (folder / "report" / "index.html").read_text()
    assert "Which comparisons are decided?" in page
    assert "Would other analyses say the same?" not in page
    # who left, and which ranks that leaves
    ranked = by_people(folder, "ranking", "criterion", "method")
    loop = ranked["fluency", "loop"]
    assert (loop["possible_best"], loop["possible_worst"]) == ("3", "3")
    assert {ranked["fluency", name]["possible_worst"] for name in ("rich", "plain")} == {"2"}
    assert ranked["coherence", "loop"]["possible_best"] == ""
    rows = by_people(folder, "rounds", "method_a", "method_b")
    assert rows["rich", "loop"]["stopped_after"] == rows["plain", "loop"]["stopped_after"]
    assert rows["rich", "loop"]["stopped_after"] == loop["left_after"]
    assert rows["rich", "plain"]["stopped_after"] == ""
    assert rows["rich", "loop"]["ahead"] == "rich"
    # what was handed out ends with the round
    shares = by_people(folder, "win_shares", "criterion", "method_a", "method_b")
    assert shares["fluency", "rich", "plain"]["pairs"] == "30"
    assert shares["fluency", "rich", "loop"]["pairs"] == rows["rich", "loop"]["prompts"] < "30"
    # nothing is tested as if the prompts had been fixed
    for row in read_rows(folder / "report", "win_shares"):
        assert {row[name] for name in ("p", "p_adjusted", "low", "high", "p_pooled_binomial")} == {""}
        assert "comparisons stopped when they were decided" in row["note"]
    assert not (folder / "report" / "csv" / "sensitivity.csv").exists()


def test_report_names_a_stop_that_verdicts_do_not_support(run, folder):
    run("pair", "s")
    simulate_verdicts(Study.open(folder))
    with Store.open(Study.open(folder).database) as store:
        for name in NAMES[1:]:
            raters.decide_about_rater(store, name, "exclude", by="who", reason="why")
    run("report", "s", "--by", "dataset")
    page = (folder / "report" / "report.md").read_text()
    assert "against loop: recorded as stopped, but the present verdicts do not support it" in page
    status = " ".join(status_of(run).split())
    assert "to go in this round" in status
    assert re.search("(rich|plain) / (plain|loop) on (fluency|coherence)", status)  # no item was rated twice


def test_published_tournament_reports_no_fixed_sample_test(run, folder, tmp_path):
    run("pair", "s")
    simulate_verdicts(Study.open(folder))
    assert run("export", "s").code == 0
    assert run("report", str(folder / "verdicts.csv")).code == 0
    assert run("publish", "s", "data").code == 0
    assert run("report", "s").code == 0
    for report in (tmp_path / "verdicts-report", tmp_path / "data" / "report"):
        assert {row["p"] for row in read_rows(report, "win_shares")} == {""}
        assert "stopped when they were decided" in (report / "report.md").read_text()
        # the leads, p-values and stops of the rounds come from the table and its record
        assert read_rounded(report, "rounds") == read_rounded(folder / "report", "rounds")


def test_exported_verdicts_of_an_open_round_do_not_count(run, folder):
    """The record says that only the first round is over, and the table has verdicts of all rounds."""
    run("pair", "s")
    simulate_verdicts(Study.open(folder))
    run("export", "s")
    path = folder / "verdicts.study.json"
    record = json.loads(path.read_text())
    for rounds in record["rounds"]:
        rounds |= {"done": 1, "stopped": []}
    path.write_text(json.dumps(record))
    assert run("report", str(folder / "verdicts.csv"), "--output", "again").code == 0
    rows = read_rows(folder.parent / "again", "win_shares")
    assert {int(row["pairs"]) for row in rows} == {record["rounds"][0]["sizes"][0]}
    second = folder.parent / "second.csv"
    second.write_text((folder / "verdicts.csv").read_text().replace("SIMULATED", "OTHER"))
    refused = run("report", str(folder / "verdicts.csv"), str(second)).refused()
    assert "has rounds. Report its table alone" in refused


def test_verdicts_of_the_first_open_round_are_described(run, folder):
    run("pair", "s")
    study = Study.open(folder)
    with Store.open(study.database, declared=study.declared) as store:
        (person,) = invite_people(store, "ann")
        save_choice(store, person, claim_pair(store, person, study.hand_out_plan))
    assert run("describe", "s").code == 0
    assert "Verdicts when this page was written: 1" in (folder / "description.md").read_text()


def test_study_in_rounds_gets_no_further_prompts(run, folder):
    run("pair", "s")
    simulate_verdicts(Study.open(folder))
    words = run("pair", "s", "--set", "pairs.per_dataset=40").refused()
    assert "systems or prompts were added, but the rounds" in words
    assert "put prompts into other rounds" in run("pair", "s", "--set", "pairs.rounds=5").refused()
