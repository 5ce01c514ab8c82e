"""A tuned study: texts of all settings are written, and the chosen settings are compared."""

import csv
import json

import pytest

from analysis.demo import simulate_verdicts
from guard_eval.study import Study
from guard_eval.texts.continuations import read_continuations

pytestmark = pytest.mark.slow

GRIDS = {
    "top_p": "top_p(p=[0.8, 0.95])",
    "top_k": "top_k(k=[3, 50])",
    "min_p": "min_p(p=[0.05, 0.3])",
    "contrastive": "contrastive(k=[4, 8], alpha=[0.4, 0.6])",
}
STUDY = f"""
name = "tuned"
seed = 3
[model]
name = "bundled"
[generation]
strategies = {json.dumps(["guard", *GRIDS.values()])}
max_new_tokens = 16
max_prompt_tokens = 24
[tuning]
prompts = 5
maximize = "coherence"
where = ["diversity >= 20"]
[metrics]
compute = ["diversity", "coherence"]
coherence_model = "bundled"
baseline = "guard"
[pairs]
compare = {json.dumps([["guard", name] for name in GRIDS])}
per_dataset = 4
[annotation]
raters_per_pair = 2
"""


def count_texts(folder):
    """Count the texts of each strategy."""
    files = (folder / "continuations").glob("*/*.jsonl")
    return {path.stem: len(list(read_continuations(path))) for path in files}


def test_tuned_study_runs_from_grid_to_report(run, tmp_path):
    """Count by hand: GUARD and 10 settings on 5 prompts, then GUARD and 4 chosen settings on 4 prompts."""
    folder = tmp_path / "tuned"
    assert run("new", "tuned").code == 0
    (folder / "study.toml").write_text(STUDY)
    lines = [f'{{"prompt": "There once was a {letter} who", "dataset": "tales"}}\n' for letter in "ABCDEFGHI"]
    (folder / "prompts.jsonl").write_text("".join(lines))
    dry = run("generate", "tuned", "--dry-run").out
    assert "5 prompts are for choosing among 10 settings of top_p, top_k, min_p, contrastive" in dry
    assert "would make 55 continuations" in dry
    ran = run("generate", "tuned")
    assert ran.code == 0, ran
    assert "Next: guard-eval measure tuned --tune" in ran.out
    counts = count_texts(folder)
    assert len(counts) == 11
    assert set(counts.values()) == {5}
    assert "nothing is chosen" in run("status", "tuned").out
    assert "no setting is chosen yet" in run("pair", "tuned").refused()

    chose = run("measure", "tuned", "--tune")
    assert chose.code == 0, chose
    assert "top_p 2, top_k 2, min_p 2, contrastive 4, guard 1 (nothing to choose)" in chose.out
    assert "Only 5 prompts chose the settings" in chose.err
    assert "bundled scores its own texts" in chose.err
    study = Study.open(folder)
    chosen = {name: study.choice.chosen[name] for name in GRIDS}

    assert "would make 20 continuations" in run("generate", "tuned", "--dry-run").out
    assert run("generate", "tuned").code == 0
    counts = count_texts(folder)
    assert {name for name, count in counts.items() if count == 9} == {"guard", *chosen.values()}
    assert sum(counts.values()) == 75
    assert run("generate", "tuned").code == 0
    assert count_texts(folder) == counts  # nothing is missing

    measured = run("measure", "tuned")
    assert measured.code == 0, measured
    assert "texts: 20, strategies: 5" in measured.out
    assert "16 pairs, 16 new" in run("pair", "tuned").out
    simulate_verdicts(study)
    reported = run("report", "tuned")
    assert reported.code == 0, reported
    page = (folder / "report" / "index.html").read_text()
    screen, search = page.split('id="search"')
    assert "coherence chose the settings on 5 separate prompts · tested by raters and judge" in screen
    assert "Strategies had unequal numbers of settings to choose from" in screen
    with (folder / "report" / "csv" / "search.csv").open() as file:
        rows = {row["setting"] for row in csv.DictReader(file) if row["chosen"] == "true"}
    assert rows == {"guard", *chosen.values()}
    assert "Bold: chosen" in search
    assert "coherence against diversity of all settings; diamonds: chosen" in search.lower()
    assert "was the largest tried" in search or "was the smallest tried" in search
