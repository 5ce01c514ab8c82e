"""The demo as its user runs it."""

import csv
import json
import math
import sys
from pathlib import Path

import pytest
from command_line import run_here, run_process

from guard_eval.demo import PROMPTS
from guard_eval.texts.prompts import read_prompts

pytestmark = pytest.mark.slow

MODEL = PROMPTS.parent / "model"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    ran = run_process([sys.executable, "-m", "guard_eval", "demo"], folder, HF_HUB_OFFLINE="1")
    assert ran.code == 0, ran
    return folder / "demo-study", ran.out


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_demo_is_short_and_names_the_next_command(demo):
    folder, out = demo
    assert len(out.splitlines()) <= 60
    tail = out[out.index("Done in ") :]
    for words in (
        "/report/index.html",
        "guard-eval annotate demo-study",
        "guard-eval judge demo-study --dry-run",
    ):
        assert words in tail
    files = [path for path in folder.rglob("*") if path.is_file() and "report" not in path.parts]
    assert len(files) <= 25


def test_demo_is_marked_as_simulated_and_works_offline(demo):
    folder, out = demo
    assert "SIMULATED" in out
    scores = [row for row in rows_of(folder / "metrics" / "scores.csv") if row["metric"] == "diversity"]
    assert len(scores) == 6 * 3  # six strategies on two datasets, and both
    greedy, guard = (
        [float(row["value"]) for row in scores if row["strategy"] == name] for name in ("greedy", "guard")
    )
    assert max(greedy) < 50  # it loops
    assert min(guard) > 75
    for name in ("index.html", "report.md", "report.json"):
        text = (folder / "report" / name).read_text(encoding="utf-8")
        assert "Simulated verdicts: this report shows what a report looks like" in text
        for loading in ("<script src", '<link rel="stylesheet"', "@import", "url(http", '<img src="http'):
            assert loading not in text
    for path in (folder / "report" / "csv").glob("*.csv"):
        heads = path.read_text(encoding="utf-8").splitlines()[0]
        assert "simulated" in heads or path.stem == "metrics"  # which are measured from the texts alone


def test_simulated_judge_assists_simulated_people(demo):
    names = ("criterion", "simulated", "judge", "pairs_rated", "pairs_judged")
    rows = [[row[name] for name in names] for row in rows_of(demo[0] / "report" / "csv" / "assisted.csv")]
    same = ["true", "SIMULATED judge", "40", "48"]
    assert rows == [["coherence", *same], ["fluency", *same]]


def test_second_demo_changes_nothing(demo, monkeypatch, capsys):
    folder, _ = demo
    files = [path for path in folder.rglob("*") if path.is_file() and ".db" not in path.suffix]
    before = {path: path.read_bytes() for path in files}
    done = run_here(monkeypatch, capsys, folder.parent, "demo")
    assert done.code == 0, done
    assert "0 new ratings" in done.out
    assert "0 new answers" in done.out
    assert {path: path.read_bytes() for path in before} == before


def test_demo_has_forty_different_prompts():
    texts = [prompt.text for prompt in read_prompts(PROMPTS)]
    assert len(texts) == len(set(texts)) >= 40


def test_bundled_model_matches_its_card():
    weights = MODEL / "model.safetensors"
    assert weights.stat().st_size <= 8_000_000
    figures = json.loads((MODEL / "training.json").read_text())
    assert figures["parameters"] <= 4_000_000
    card = (MODEL / "README.md").read_text(encoding="utf-8")
    assert f"{figures['held_out_bits_per_character']:.3f}" in card
    assert f"{figures['parameters']:,}" in card


def test_model_has_the_bits_per_character_of_its_card():
    corpus = Path(__file__).parents[2].parent / "shared" / "corpus"
    if not corpus.is_dir():
        pytest.skip(f"{corpus} is not here: the held-out books do not lie in the repository")
    import torch

    from guard_eval.generation.engines.loading import load_pretrained

    loaded, nats, characters = load_pretrained(str(MODEL), device="cpu"), 0.0, 0
    held_out = ("Ozma-of-Oz", "The-Jungle-Book")
    for path in sorted(path for path in corpus.glob("*.txt") if path.name.startswith(held_out)):
        text = path.read_text(encoding="utf-8")
        ids = loaded.tokenizer(text, verbose=False, return_tensors="pt")["input_ids"][0]
        windows = ids.unfold(0, 512, 256)
        characters += sum(len(loaded.tokenizer.decode(window[256:])) for window in windows)
        with torch.inference_mode():
            for some in windows.split(8):
                logs = loaded.model(some, logits_to_keep=257).logits[:, :-1].log_softmax(-1)
                nats -= logs.gather(2, some[:, 256:, None]).sum().item()
    published = json.loads((MODEL / "training.json").read_text())["held_out_bits_per_character"]
    assert nats / math.log(2) / characters == pytest.approx(published, abs=0.01)
