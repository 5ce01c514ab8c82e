"""Texts from files become a published data set, and no system's name reaches a rater or a judge."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from app_browser import (
    DESKTOP,
    PageTraffic,
    choose_answer,
    close_instructions,
    read_heading,
    save_answers,
    serve_study,
)
from fake_openai import KEY, FakeOpenAI
from llama_server import LlamaServer
from read_files import write_json_lines

from analysis.demo import simulate_verdicts
from analysis.publication.publish import publish
from analysis.reports.command import report
from guard_eval.reporting.writing import write_atomically
from guard_eval.store import Store, handout, raters, unblind, verdicts
from guard_eval.study import Study
from guard_eval.texts.new import new
from guard_eval.texts.pair import pair

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[3] / "shared" / "data" / "generations"
GOOD, BAD = "Quokka-XL-confidential", "Numbat-9-undisclosed"
FILES = {GOOD: "quokka_outputs_file.jsonl", BAD: "numbat_outputs_file.csv"}
SECRETS = [
    *(
        GOOD,
        BAD,
        "quokka",
        "numbat",
        "confidential",
        "undisclosed",
        "outputs_file",
        "prompts.jsonl",
        "texts/",
    ),
    *("study.toml", "study.db", "wombat-data-set", "question-0"),
]


@pytest.fixture
def files(tmp_path):
    """Write two systems' answers to six questions, in two formats."""
    rows = [
        {"id": f"question-{n}", "dataset": "wombat-data-set", "question": f"Why is the sky blue on day {n}?"}
        for n in range(6)
    ]
    good = [
        row | {"response": f"Because marigold light scatters, as on day {n}.", "system": GOOD}
        for n, row in enumerate(rows)
    ]
    bad = [f'question-{n},{BAD},"It thistle is because of day {n}."' for n in reversed(range(6))]
    write_json_lines(tmp_path / FILES[GOOD], good)
    (tmp_path / FILES[BAD]).write_text("id,generator,output\r\n" + "\r\n".join(bad) + "\r\n")
    return [FILES[GOOD], FILES[BAD]]


@pytest.mark.browser
def test_imported_texts_lead_to_a_published_report(run, typed, files, tmp_path, chromium):
    assert run("new", "s", "--texts", *files).code == 0
    folder = tmp_path / "s"
    judge = FakeOpenAI()
    settings = (folder / "study.toml").read_text()
    settings = settings.replace('texts = "texts"', 'texts = "answers"')
    settings = settings.replace("# task = ", "task = ")
    settings = settings.replace("raters_per_pair = 4", "raters_per_pair = 1")
    settings = re.sub(r"pages = .*", "", settings)
    (folder / "study.toml").write_text(settings)
    assert run("measure", "s").code == 0
    assert run("pair", "s").code == 0
    rate_in_browser(folder, tmp_path / "log", chromium)
    judge_blindly(typed, judge)
    ran = run("report", "s")
    assert ran.code == 0
    assert "6\u00a0pairs of answers" in ran.out
    assert GOOD in (folder / "report" / "index.html").read_text()
    assert run("publish", "s", "out").code == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "Each rater saw two answers to one prompt without names." in card
    assert "continuation" not in card.split("## How the verdicts were collected")[1].split("## What")[0]
    rows = [json.loads(line) for line in (tmp_path / "out" / "pairs.jsonl").read_text().splitlines()]
    assert {row["method_a"] for row in rows} == {GOOD}
    assert "bundled" not in card


def rate_in_browser(folder, log, chromium):
    """Let a person prefer the first system, and check all data that the page received."""
    with serve_study(folder, log) as url:
        study = Study.open(folder)
        with Store.open(study.database) as store:
            token = raters.invite_rater(store, "ann")[1]
        page = chromium.new_page(**DESKTOP)
        page.set_default_timeout(15_000)
        wire = PageTraffic(page, url)
        page.goto(f"{url}/?invite={token}")
        page.get_by_text("You will see a prompt and two answers, A and B.").wait_for()
        page.get_by_text("The task was: Answer the question in at most three sentences.").wait_for()
        close_instructions(page)
        while read_heading(page) != "Thank you":
            first = page.get_by_role("region", name="Text A").inner_text()
            side = "A" if "marigold" in first else "B"
            for criterion in ("Coherence", "Fluency"):
                choose_answer(page, criterion, f"{side} is better")
            save_answers(page)
        page.close()
    assert wire.foreign == []
    assert wire.received.count(b"marigold") >= 6
    assert [secret for secret in SECRETS if secret.lower().encode() in wire.received] == []
    assert not any(name.encode() in log.read_bytes() for name in FILES)


def judge_blindly(typed, judge):
    """Let a judge compare the pairs, and check all data that its server received."""
    settings = ["judge[1].model=gpt-4o-2024-11-20", f"judge[1].base_url={judge.url}"]
    options = [text for setting in settings for text in ("--set", setting)]
    assert typed("judge", "s", "--yes", *options, OPENAI_API_KEY=KEY).code == 0
    sent = b"".join(request.raw + repr(request.headers).encode() for request in judge.seen).lower()
    judge.close()
    assert sent.count(b"marigold") == 12
    assert b"you will compare two answers (a and b)" in sent
    assert b"the task was: answer the question in at most three sentences." in sent
    assert b"continuation" not in sent
    assert [secret for secret in SECRETS if secret.lower().encode() in sent] == []


NAMES = [
    ("right", "left"),
    ("left", "right"),
    ("model_b", "model_a"),
    ("=1+1", "<script>alert(1)</script>"),
    ("second", "first"),
    ("2", "1"),
    ("draw", "neither"),
    ("A wins", "B, \"C\"; 'D'"),
    ("GPT (base)", "GPT (BASE) v2"),
]


@pytest.mark.parametrize("names", NAMES, ids=[" and ".join(names) for names in NAMES])
def test_report_on_published_data_equals_the_studys_report(tmp_path, names):
    """Let the first system win 9 of 12 pairs for each of two people, with three kinds of names."""
    rows = [
        {"prompt": f"Why {n}?", "system": name, "text": f"{k} says {n}."}
        for n in range(12)
        for k, name in enumerate(names)
    ]
    write_json_lines(tmp_path / "texts.jsonl", rows)
    folder = tmp_path / "s"
    new(folder, texts=[tmp_path / "texts.jsonl"])
    settings = (folder / "study.toml").read_text().replace('["coherence", "fluency"]', '["fluency"]')
    write_atomically(
        folder / "study.toml", settings.replace("raters_per_pair = 4", "raters_per_pair = 2").encode()
    )
    study = Study.open(folder)
    pair(study)
    with Store.open(study.database, declared=study.declared) as store:
        for who in ("ann", "ben"):
            rater = raters.invite_rater(store, who)[0]
            for blind in handout.claim_pairs(store, rater, study.hand_out_plan, limit=12):
                number = int(re.search(r"\d+", blind.prompt)[0])
                first_is_a = blind.text_a.startswith("0 says")
                side = "A" if first_is_a == (number < 9) else "B"
                verdicts.save_verdict(store, blind.presentation, {"fluency": side}, rater=rater, seconds=1)
        assert sum(row.verdict == names[0] for row in unblind.read_tidy_rows(store)) == 18
    publish(study, tmp_path / "out")
    report(folder)
    ours, published = (parent / "report" for parent in (folder, tmp_path / "out"))
    assert shares_of(ours) == shares_of(published)
    assert shares_of(published)[0][-1] == "0.75"
    answers = [
        json.loads((folder_of / "report.json").read_text())["answer"] for folder_of in (ours, published)
    ]
    assert [names[0] in answer for answer in answers] == [True, True]


def shares_of(folder):
    with (folder / "csv" / "win_shares.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [(row["method_a"], row["method_b"], row["win_share"]) for row in rows]


def test_published_generations_become_pairs_in_three_commands(run, tmp_path):
    names = ["GUARD_wikitext_guard_w7.jsonl", "CSvsCD_wikitext_contrastive_k5_a0.6.jsonl"]
    if not all((DATA / name).is_file() for name in names):
        pytest.skip(f"the published generations are not beside the repository: {DATA}")
    for name in names:
        shutil.copy(DATA / name, tmp_path / name)
    message = run("new", "s", "--texts", *names).refused()
    assert "has no text to 557 of" in message
    assert "on the 757 prompts that" in message
    assert run("new", "s", "--common", "--texts", *names).code == 0
    assert "50 pairs, 50 new" in run("pair", "s").out
    with serve_study(tmp_path / "s", tmp_path / "log") as url:
        assert url


MIXED = """
name = "mixed"
seed = 3
texts = "continuations"
[model]
name = "bundled"
[generation]
strategies = ["greedy"]
max_new_tokens = 12
[[system]]
name = "people"
file = "prompts.jsonl"
column = "reference"
[[system]]
name = "llama.cpp, top-nσ"
base_url = "{url}"
model = "qwen2.5-7b"
chat = false
temperature = 1.5
body = {{top_n_sigma = 1, min_p = 0}}
[metrics]
compute = ["diversity", "length"]
[pairs]
compare = [["greedy", "people"], ["llama.cpp, top-nσ", "greedy"], ["llama.cpp, top-nσ", "people"]]
[annotation]
raters_per_pair = 2
"""


def test_report_compares_systems_of_all_three_sources(run, tmp_path):
    server = LlamaServer()
    folder = tmp_path / "mixed"
    folder.mkdir()
    rows = [
        {"prompt": f"Once there was a {animal} who", "reference": f" ran {animal}."}
        for animal in ("cat", "dog", "owl", "hen")
    ]
    write_json_lines(folder / "prompts.jsonl", rows)
    (folder / "study.toml").write_text(MIXED.format(url=server.url), encoding="utf-8")
    assert "texts" in run("status", "mixed").out
    ran = run("generate", "mixed")
    assert (ran.code, len(server.bodies)) == (0, 4), ran
    server.close()
    assert "people" not in json.dumps(server.bodies)
    assert run("measure", "mixed").code == 0
    assert "12 pairs, 12 new" in run("pair", "mixed").out
    assert "12 of 12" in run("status", "mixed").out
    simulate_verdicts(Study.open(folder))
    assert run("report", "mixed").code == 0
    assert run("describe", "mixed").code == 0
    page = (folder / "description.md").read_text()
    assert "people" in page
    assert "qwen2.5-7b" in page
    assert run("publish", "mixed", "out").code == 0
