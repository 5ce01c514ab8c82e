"""An owner runs each command of a study twice: nothing is lost, and nothing is done twice."""

import csv

import pytest

from guard_eval.store import Store, handout, raters, verdicts
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow


def read_text_files(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "continuations").glob("*/*.jsonl"))}


def test_study_runs_from_prompts_to_report(typed, run, study):
    """Run each step in a new process. Repeated and refused commands run in this process."""
    dry = run("generate", "small", "--dry-run")
    assert "would make 24 continuations of at most 288 tokens with bundled" in dry.out
    assert not (study / "continuations").exists()

    ran = typed("generate", "small")
    assert ran.code == 0, ran
    assert "Next: guard-eval measure small" in ran.out
    before = read_text_files(study)
    assert sorted(before) == ["acs(q=1).jsonl", "greedy.jsonl", "guard.jsonl", "top_k(k=50).jsonl"]
    assert {len(data.splitlines()) for data in before.values()} == {6}

    assert run("generate", "small").code == 0
    assert read_text_files(study) == before

    measured = typed("measure", "small")
    assert measured.code == 0, measured
    with (study / "metrics" / "scores.csv").open() as file:
        rows = {row["strategy"]: row for row in csv.DictReader(file) if row["metric"] == "coherence"}
    assert "bundled scores its own texts" in measured.err
    assert float(rows["greedy"]["value"]) > float(rows["top_k(k=50)"]["value"])

    assert "3 pairs, 3 new" in typed("pair", "small").out
    assert "3 pairs, 0 new" in run("pair", "small").out

    assert "has no verdicts yet" in run("report", "small").refused()
    settings = (study / "study.toml").read_text()
    swapped = settings.replace('[["guard", "acs"]]', '[["acs", "guard"]]')
    (study / "study.toml").write_text(swapped)
    refused = run("pair", "small").refused()
    assert "pairs.compare does not name guard with acs(q=1), in this order" in refused
    assert "guard-eval pair small --redraw" in refused
    assert "3 pairs, 3 new" in run("pair", "small", "--redraw").out
    (study / "study.toml").write_text(settings)
    assert "3 pairs, 3 new" in run("pair", "small", "--redraw").out

    rate_all_pairs(study)
    redrawn = run("pair", "small", "--redraw")
    assert "cannot be drawn again: they have verdicts" in redrawn.refused()
    assert redrawn.out == ""
    (study / "study.toml").write_text(settings.replace("per_dataset = 3", "per_dataset = 2"))
    refused = run("pair", "small").refused()
    assert "prompts.file, pairs.per_dataset, [tuning] or seed" in refused
    assert "--redraw" not in refused
    (study / "study.toml").write_text(settings)
    assert run("raters", "list", "small").out.count("person") == 2
    exported = typed("export", "small")
    assert "12 rows" in exported.out
    reported = typed("report", "small")
    assert reported.code == 0, reported
    from_study = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "guard" in from_study
    assert "SIMULATED" not in from_study
    from_table = run("report", "small/verdicts.csv", "--output", "elsewhere")
    assert from_table.code == 0, from_table


def rate_all_pairs(folder):
    """Let two people rate all pairs, and always prefer the first text."""
    study = Study.open(folder)
    with Store.open(study.database, declared=study.declared) as store:
        for name in ("Ada", "Grace"):
            rater, _ = raters.invite_rater(store, name)
            while batch := handout.claim_pairs(store, rater, study.hand_out_plan):
                verdicts.save_verdict(
                    store, batch[0].presentation, {"coherence": "A", "fluency": "tie"}, rater=rater
                )
