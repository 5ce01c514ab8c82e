"""`guard-eval replicate`: from a table's name to the table beside the paper's, with the bundled model."""

import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from guard_eval.cli.old import app
from guard_eval.cli.replication.needs import Machine, needs
from guard_eval.cli.replication.paper import ENTRIES, find
from guard_eval.cli.replication.studies import ReplicationOptions, planned
from guard_eval.demo.run import simulate
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def run(*arguments):
    ran = CliRunner().invoke(app, ["replicate", *map(str, arguments)], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


@pytest.mark.parametrize(("columns", "most"), [("80", 80), ("120", 120), ("170", 170)])
def test_the_list_has_a_line_for_each_and_fits(monkeypatch, columns, most):
    monkeypatch.setenv("COLUMNS", columns)
    lines = run("--list").split("\n")
    for entry in ENTRIES:
        (line,) = (line for line in lines if line.startswith(f"{entry.name} "))
        assert entry.label in line
    assert max(map(len, lines[: len(ENTRIES) + 2])) <= most


def test_the_list_as_json():
    rows = json.loads(run("--list", "--json"))
    assert [row["label"] for row in rows] == [entry.label for entry in ENTRIES]
    main = next(row for row in rows if row["name"] == "main")
    assert main["models"] == ["Qwen/Qwen2.5-7B"]
    assert main["tokens"] == 12 * 5261 * 256
    judged = next(row for row in rows if row["name"] == "llm")
    assert (judged["judge_requests"], judged["raters_per_pair"]) == (900, 0)


@pytest.mark.parametrize(
    ("torch", "gpu", "has", "words"),
    [
        (False, 0, True, "no: pip install 'guard-eval[generate,metrics]'"),
        (True, 0, True, "no: needs a GPU"),
        (True, 12, True, "no: its GPU has 12 GB"),
        (True, 24, False, "no: offline, without Qwen2.5-7B"),
        (True, 24, True, "yes"),
    ],
)
def test_whether_a_machine_can_run_it(torch, gpu, has, words):
    machine = Machine()
    vars(machine).update(torch=torch, gpu_gb=gpu)  # where cached properties are stored
    machine.has = lambda hub: has
    entry = find("main")
    assert machine.verdict(entry, needs(entry)) == words
    case = find("case1")
    for ram, cpu in ((64, "yes, slowly: no GPU"), (24, "no: needs a GPU")):
        vars(machine).update(torch=True, gpu_gb=0, ram_gb=ram)  # 7.6 billion parameters of four bytes
        assert machine.verdict(case, needs(case)) == cpu
    shown = find("form")
    assert machine.verdict(shown, needs(shown)) == "nothing to run"


def test_a_table_from_nothing_and_again(tmp_path):
    """Two prompts, eight tokens, five strategies: laid out, generated, measured, compared; again, nothing."""
    options = ("--model", "bundled", "--limit", 1, "--max-new-tokens", 8, "--metrics", "diversity")
    out = run("lambda", "made", *options)
    assert (
        "OTHER SETTING: model bundled, not openai-community/gpt2-xl; at most 8 tokens a text, not 256" in out
    )
    assert "not run: Wikitext, Wikinews, BookCorpus" in out
    assert re.search(r"^adventures: not in the paper, ours alone$", out, re.MULTILINE)
    assert len(re.findall(r"^λ=0\.9[13579] +\d+\.\d\d$", out, re.MULTILINE)) == 10
    page = tmp_path / "made" / "replication-lambda.html"
    assert {path.suffix for path in page.parent.glob("replication-*")} == {".html", ".csv", ".md", ".tex"}
    before = page.with_suffix(".csv").read_bytes()
    again = run("lambda", "made")
    assert "guard(decay=0.91): 2 of 2 continuations exist" in again
    assert page.with_suffix(".csv").read_bytes() == before
    more = [*options[:3], 2, *options[4:]]
    with pytest.raises(StudyError, match="made holds a replication with other prompts; name another FOLDER"):
        run("lambda", "made", *more)
    with pytest.raises(StudyError, match="made holds a replication with other settings"):
        run("lambda", "made", *options, "--device", "cpu")


def test_a_case_and_the_figure_of_entropies(tmp_path):
    out = run("case2", "cases", "--model", "bundled", "--max-new-tokens", 8)
    assert "two people have died" not in out  # the prompt stands as printed
    assert "Two people have died as the result of a road traffic accident" in out
    assert "the accident on 8 October, near Okehampton" in out
    assert re.search(r"GUARD, ours  \S+", out)
    out = run("entropy", "figure", "--model", "bundled", "--max-new-tokens", 8)
    assert "house was warm, though." in out
    drawing = (tmp_path / "figure" / "replication-entropy.svg").read_text()
    assert "local entropy" in drawing
    assert "local entropy" in (tmp_path / "figure" / "replication-entropy.html").read_text()
    assert [*(tmp_path / "figure" / "continuations").glob("*/guard.trace.jsonl")]


def test_pairs_for_people_and_what_to_do_next():
    out = run("humaneval", "people", "--model", "bundled", "--limit", 1, "--max-new-tokens", 8)
    assert "2 pairs, 2 of them new; 4 people see each" in out
    assert "There are no verdicts yet." in out
    assert "guard-eval raters people add NAME NAME NAME NAME" in out
    assert "guard-eval judge" not in out  # this table asks people alone
    assert "would make 0 continuations" in run("humaneval", "people", "--dry-run")
    simulate(Study.open(Path("people")))
    out = run("humaneval-counts", "people")
    assert "SIMULATED raters: no person rated" in out
    assert "OTHER SETTING: model bundled" in out
    ours = r" +(?:\[[\d., ]+\] )?([\d.]+)"  # the interval stands before a share where it has one
    (row,) = re.findall(rf"^All +26{ours} +32{ours} +42{ours}$", out, re.MULTILINE)
    assert sum(map(float, row)) == pytest.approx(100, abs=0.2)


def test_a_dry_run_writes_nothing(tmp_path):
    out = run("llm", "--model", "bundled", "--limit", 3, "--dry-run")
    assert "6 prompts (3 of adventures, 3 of fairy_tales), and make 24 texts of at most 6,144 tokens" in out
    assert "judge: 900 requests, about $" in out
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def _prompts(tmp_path):
    (tmp_path / "prompts").mkdir()
    for name in ("wikitext", "wikinews", "tales"):
        (tmp_path / "prompts" / f"{name}.jsonl").write_text('{"prompt": "Once"}\n{"prompt": "Twice"}\n')


@pytest.mark.usefixtures("_prompts")
def test_a_table_of_several_models_is_several_studies(tmp_path):
    entry = find("models")
    found = planned(entry, tmp_path / "out", ReplicationOptions())
    assert [one.folder.name for one in found] == ["Gemma-7B", "Llama-3.1", "Mistral-v0.3", "Deepseek-7B"]
    assert 'name = "mistralai/Mistral-7B-v0.3"' in found[2].text
    (one,) = planned(entry, tmp_path / "out", ReplicationOptions(models=("Llama-3.1",)))
    assert 'name = "meta-llama/Llama-3.1-8B"' in one.text
    with pytest.raises(StudyError, match="tab:lambda_selection is about one model; give --model once"):
        planned(find("lambda"), tmp_path / "out", ReplicationOptions(models=("a", "b")))


@pytest.mark.usefixtures("_prompts")
def test_contrastive_decoding_needs_an_amateur(tmp_path, capsys):
    (paper,) = planned(find("main"), tmp_path / "a", ReplicationOptions())
    assert '"contrastive_decoding",' in paper.text
    (other,) = planned(find("main"), tmp_path / "b", ReplicationOptions(models=("gpt2-xl",)))
    assert "contrastive_decoding" not in other.text
    assert "contrastive_decoding is left out" in capsys.readouterr().out
    (both,) = planned(find("main"), tmp_path / "c", ReplicationOptions(models=("gpt2-xl",), amateur="gpt2"))
    assert 'amateur = "gpt2"' in both.text
    assert '"contrastive_decoding",' in both.text


@pytest.mark.usefixtures("_prompts")
def test_prompts_of_other_datasets_are_left_out(tmp_path):
    (one,) = planned(find("median"), tmp_path / "out", ReplicationOptions())
    assert {prompt.dataset for prompt in one.prompts} == {"Wikinews", "tales"}
    (timed,) = planned(find("speed"), tmp_path / "out", ReplicationOptions())
    assert [prompt.dataset for prompt in timed.prompts][:3] == ["tales", "Wikinews", "Wikitext"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope",), "the paper has no table or figure 'nope': choose from: method, entropy, main"),
        (("main",), r"there are no prompts; name files with --prompts.*data_from_CD_repo/benchmarks"),
        (("main", "--list"), "give either --list or a table's name"),
        (
            ("main", "--model", "bundled", "--metrics", "speed"),
            "none of tab:ablation_resultglacs's; choose from: diversity",
        ),
        (("case1", "--prompts", "x.jsonl"), "tab:case1 has prompts of its own"),
        (("main", "--verdicts", "v.csv"), "not a table of verdicts; --verdicts goes with: humaneval, llm"),
        (("llm", "--verdicts", "v.csv", "--rater-kind", "robot"), "--rater-kind 'robot' is unknown"),
        (("llm", "--verdicts", "v.csv"), "v.csv"),
        (("llm", "--verdicts", "v.csv", "--limit", 3), "--limit has no effect; leave one of them out"),
        (("llm", "--verdicts", "v.csv", "--model", "bundled"), "--model has no effect"),
        (("llm", "--rater-kind", "model"), "--rater-kind model has no effect without --verdicts"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(StudyError, match=message):
        run(*arguments)


def test_what_cannot_be_run_says_where_it_is():
    assert "guard-eval annotate demo-study" in run("form")
    assert "guard_eval/decoding/guard/step.py" in run("fig:figure_two")


def test_texts_that_were_lost_are_written_again(tmp_path):
    out = tmp_path / "cases"
    run("case1", out, "--model", "bundled", "--max-new-tokens", 4)
    before = {path.name: len(path.read_text().splitlines()) for path in out.glob("continuations/*/*.jsonl")}
    assert sorted(before.values()) == [3, 3, 3]
    shutil.rmtree(out / "continuations")
    assert "guard: 3 of 3 continuations exist" in run("case1", out)
    after = {path.name: len(path.read_text().splitlines()) for path in out.glob("continuations/*/*.jsonl")}
    assert after == before


def test_a_dry_run_on_verdicts_writes_nothing():
    counts = "dataset,criterion,n_judgements,guard_wins,acs_wins,ties\nwikitext,coherence,200,88,38,74\n"
    Path("v.csv").write_text(counts)
    run("humaneval-counts", "R", "--verdicts", "v.csv", "--dry-run")
    assert not Path("R").exists()
