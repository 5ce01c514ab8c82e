"""`guard-eval measure`, for a study and for files, as it is typed."""

import json
import re
import socket

import pytest
from command_line import run_code
from read_files import read_csv

pytestmark = pytest.mark.slow

TEXTS = [
    {"prompt": "Once", "reference": "there was a cat on a mat", "text": "a b a b a", "method": "one"},
    {"prompt": "Then", "reference": "there was a dog who ran", "text": "c c c c c", "method": "one"},
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in TEXTS))
    return path


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """The Hub at a port where nothing listens, and an empty cache."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        yield


def test_measure_writes_every_table_and_figure(run, file, tmp_path):
    (tmp_path / "more.jsonl").write_text(
        "".join(json.dumps({**row, "method": "=two", "text": "x y z w v u"}) + "\n" for row in TEXTS)
    )
    arguments = ["measure", "texts.jsonl", "more.jsonl", "--metrics", "diversity,coherence,length"]
    arguments += ["--set", "metrics.coherence_model=bundled", "--baseline", "one", "--output", "out"]
    ran = run(*arguments)
    assert ran.code == 0, ran
    out = tmp_path / "out"
    files = {f"metrics.{suffix}" for suffix in ("md", "tex", "html", "json")}
    files |= {"scores.csv", "differences.csv", "scores.sqlite", "figures", "files.txt"}
    assert files == {path.name for path in out.iterdir()}
    assert {path.name for path in (out / "figures").iterdir()} == {"coherence.svg", "diversity.svg"}
    rows = {(row["strategy"], row["metric"]): row for row in read_csv(out / "scores.csv")}
    assert float(rows["one", "diversity"]["value"]) == 37.5
    assert {strategy for strategy, _ in rows} == {"one", "'=two", "human"}  # no formula for a spreadsheet
    settings = json.loads((out / "metrics.json").read_text())["settings"]
    assert settings["coherence_model"] == "bundled"
    assert "Differences from one\n" in ran.out


def test_measure_without_output_shows_every_table(run, tmp_path):
    """Nothing is saved, so the terminal has the scores on each dataset and all differences."""
    rows = [
        {**row, "prompt": f"{dataset} {number}", "dataset": dataset, "method": method}
        for method in ("one", "two")
        for dataset in ("news", "tales")
        for number, row in enumerate(TEXTS)
    ]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run("measure", "texts.jsonl", "--metrics", "diversity,repetition,length", "--baseline", "one")
    assert ran.code == 0, ran
    assert {"all datasets", "news", "tales", "Differences from one"} <= set(ran.out.splitlines())
    assert len(re.findall("^words +(?:news|tales|all datasets) +two", ran.out, re.MULTILINE)) == 3


def write_rows(folder, name, rows):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("heading", "cells"),
    [
        ("qid", [7, 7, 9, 9, 8]),
        ("nr", [1, 2, 3, 1, 2]),
        ("run", [1, 1, 1, 2, 2]),
        ("topic", ["cats", "dogs", "dogs", "cats", "birds"]),
        ("task", ["Write a tale.", "Write a tale.", "Tell a joke.", "Tell a joke.", "Tell a joke."]),
    ],
)
def test_column_that_may_name_prompts_is_asked_about(run, tmp_path, heading, cells):
    """Texts of one prompt are not independent, so the five rows are two or three prompts."""
    rows = [{heading: cell, "text": f"text {number}"} for number, cell in enumerate(cells)]
    message = run("measure", write_rows(tmp_path, "x.jsonl", rows), "--metrics", "length").refused()
    assert f"{heading!r} says that several texts may have one prompt" in message
    if heading == "run":
        named = [{"prompt_id": number % 3, **row} for number, row in enumerate(rows)]
    else:
        named = [{"prompt_id": row[heading], "text": row["text"]} for row in rows]
    write_rows(tmp_path, "x.jsonl", named)
    assert run("measure", tmp_path / "x.jsonl", "--metrics", "length").code == 0


@pytest.mark.parametrize(
    "columns",
    [
        {"request_id": range(40), "lang": ["en", "de"] * 20, "length": [5, 7, 7, 6, 8] * 8},
        {"system": ["a"] * 20 + ["b"] * 20, "words": [*range(20)] * 2, "correct": [True] * 40},
    ],
)
def test_labels_and_measures_are_not_asked_about(run, tmp_path, columns):
    table = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    rows = [row | {"text": f"text {number}"} for number, row in enumerate(table)]
    assert run("measure", write_rows(tmp_path, "x.jsonl", rows), "--metrics", "length").code == 0


@pytest.mark.parametrize("key", ["id", "prompt"])
def test_same_column_of_two_files_is_no_system(run, tmp_path, key):
    """Each file has a system with the columns `src` and `answer`. They are not two systems with six texts."""
    paths = []
    for name in ("x", "y"):
        rows = [{key: f"{n}", "src": f"some source {n}", "answer": f"{name} text {n}"} for n in range(3)]
        paths.append(write_rows(tmp_path, f"{name}.jsonl", rows))
    message = run("measure", *paths, "--metrics", "length").refused()
    assert "both have a text by 'src' to the prompt '0'" in message
    scores = run("measure", *paths, "--metrics", "length", "--column", "answer")
    assert scores.code == 0
    assert "texts: 6, strategies: 2" in scores.out


def test_missing_model_does_not_prevent_other_scores(run, file, tmp_path):
    arguments = ["texts.jsonl", "--metrics", "diversity,coherence", "--output", "o"]
    ran = run("measure", *arguments, "--set", "metrics.coherence_model=./no")
    assert ran.code == 2
    assert "37.50" in ran.out
    assert "coherence could not be measured" in ran.err
    assert "does not exist; correct the name" in ran.err
    assert (tmp_path / "o" / "scores.csv").exists()


def test_measure_compares_a_study_with_a_baseline(run, paired):
    ran = run("measure", "small", "--baseline", "guard", "--metrics", "diversity,length")
    assert ran.code == 0, ran
    assert "Differences from guard\n" in ran.out
    assert "): both scores are equal on every prompt. Measure more prompts" in ran.out
    differences = paired / "metrics" / "differences.csv"
    assert ",guard,0.95," in differences.read_text()
    assert "Next: guard-eval pair small" in ran.out
    second = run("measure", "small", "--metrics", "diversity")
    assert second.code == 0, second
    # An earlier measurement's would not belong to these scores.
    assert ",guard,0.95," not in differences.read_text()
    assert ",greedy,0.95," in differences.read_text()  # the baseline, unless another one is named
    assert (
        "the baseline 'beam(beams=5)' has no texts; choose"
        in run("measure", "small", "--baseline", "beam").refused()
    )


WITHOUT_MODELS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "faiss", "sklearn", "bert_score"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from guard_eval.cli.frame import main
sys.argv = ["guard-eval", *sys.argv[1:]]
main()
"""


def test_metrics_of_texts_alone_need_no_model_library(file):
    names = "diversity,repetition,distinct,self_bleu,length,speed"
    ran = run_code(WITHOUT_MODELS, "measure", file, "--metrics", names)
    assert ran.code == 0, ran
    assert "37.50" in ran.out
    assert "simctg|tokens:whitespace|n:2-4|last:dropped|rep:rounded2" in ran.out
    assert [path.name for path in file.parent.iterdir()] == ["texts.jsonl"]  # nothing is written unasked


def test_dry_run_names_models_to_download(run, paired, no_hub):
    ran = run("measure", "small", "--dry-run", "--set", "metrics.coherence_model=nobody/no-such-model")
    assert "texts: 24, strategies: 4, datasets: 1" in ran.out
    assert "nobody/no-such-model would be downloaded" in ran.out
    assert not (paired / "metrics").exists()
    assert ran.code == 2
    assert "from the Hugging Face Hub" in ran.err
    refused = run("measure", "small", "--dry-run", "--set", "metrics.coherence_model=./nope")
    assert refused.code == 2
    assert "the model './nope': there is no folder" in refused.err
