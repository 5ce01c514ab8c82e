"""`guard-eval new`: make a study's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from guard_eval.cli.console import say, say_next
from guard_eval.errors import StudyError
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.prompts import read_dataset, read_prompts

TEMPLATE = """\
# What is compared, on what, by whom, and how it will be tested. Write it before there are verdicts: its hash
# is stored with the first one, and the report says where the analysis departs from it. Paths are relative to
# this folder.
name = {name}
question = "Which decoding strategy writes better continuations?"
# Of every random choice: the same seed gives the same texts, the same pairs, the same sides.
seed = {seed}
# Without this it is study.db in this folder; a password belongs into PGPASSWORD.
# database = "postgresql+psycopg://user@host/study"

[prompts]
file = "prompts.jsonl"            # a JSON object a line: "prompt", and if known "id", "dataset", "reference"
# limit = 60                      # the first so many

[model]
name = {model}                 # a Hugging Face id, a folder, or "bundled" (small, for trying things out)
revision = "main"
dtype = "auto"                    # auto (float32 on CPU, the model's own on GPU), float32, bfloat16, float16
device = "auto"                   # auto, cpu, cuda, cuda:1
# device_map = "auto"             # in place of device: spread a large model over GPUs (auto, balanced, …)
# amateur = "facebook/opt-125m"   # contrastive_decoding's smaller model, of the same vocabulary
# amateur_revision = "main"

[generation]
# Others: beam, temperature, typical, min_p, adaptive, contrastive_decoding; guard(formulation=released), …
strategies = ["greedy", "top_k(k=50)", "top_p(p=0.95)", "contrastive(k=10, alpha=0.6)", "acs(q=1)", "guard"]
max_new_tokens = {new_tokens}
# Longer prompts keep their last so many tokens; a beginning-of-text token, if the model has one, stays in
# front and counts.
max_prompt_tokens = {prompt_tokens}
batch_size = "auto"               # grows as long as memory holds it; or a number: never more at once
# Give the prompt as a user's words, through the model's chat template, whose tokens come on top:
# chat = true
# Run guard through torch.compile: it starts some 15 s later and needs a C++ compiler:
# compile = true

[metrics]
# Without a model: diversity, repetition, distinct, self_bleu, length, speed. mauve and bertscore compare with
# references. Nothing is asked of a model twice.
compute = [{compute}]
coherence_model = {scorer}     # of coherence and perplexity; under the generating model greedy wins
# mauve_model = "gpt2"            # whose last hidden state stands for a text
# mauve_tokens = 128              # texts and references are cut to so many; shorter ones do not count
# bertscore_model = "roberta-large"
# Every other strategy is compared with it, prompt by prompt, with Holm's correction:
baseline = "greedy"

[pairs]
compare = [["guard", "acs(q=1)"]]
per_dataset = 50                  # prompts drawn from each dataset
# human_pairs = 40                # people rate so many of a comparison, drawn at random; a judge all

[annotation]                      # people
criteria = ["coherence", "fluency"]
raters_per_pair = 4
lease_minutes = 30                # a pair handed out and not rated by then may go to somebody else
# pairs_per_rater = 30            # at most so many for one person
# gold_every = 10                 # mix in one gold pair for so many others
# repeats = 2                     # show so many of a rater's own pairs again, with the sides swapped
language = "en"                   # of the app: "en" or "de"
# wording = "wording.toml"        # a file in this folder with words of your own; see docs/wording.md

[annotation.pages]                # before the first pair, besides the instructions
consent = true                    # word it for your study: [consent] of the wording
background = false                # which languages a rater knows
practice = true
check = true                      # who fails it twice rates nothing

# [annotation.recruitment]        # raters without an invite
# prolific = true                 # whoever comes with Prolific's parameters
# oidc = true                     # whoever signs in with the provider of Streamlit's secrets.toml
# completion_code = "C1A2B3"      # shown with the thanks

[[judge]]                         # a model as one more rater; repeat the table for a panel
model = "gpt-4o-2024-11-20"
# Any server that speaks OpenAI's chat completions. OPENAI_API_KEY goes to OpenAI alone; for the key of
# another server, name the environment variable that holds it. You are asked before a key first goes there.
# base_url = "http://localhost:8000/v1"
# api_key_env = "MY_SERVER_KEY"
orders = "both"                   # each pair is judged in both orders

[analysis]
alpha = 0.05
correction = "holm"               # over all comparisons x criteria
"""

EXAMPLES = (
    "There was once a tailor who was so small that he slept in a shoe. One day",
    "The storm had passed, and when they opened the door they saw that",
    '"I have never told this to anybody," said the old captain, "but',
    "On the far side of the river lived a people who",
)


def command(
    folder: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder to make.")],
    model: Annotated[str, typer.Option(help="Hugging Face id, folder, or 'bundled'.")] = "bundled",
    prompts: Annotated[
        Path | None, typer.Option(help="Prompts (JSONL or .txt) to copy into the study.")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="A Hugging Face dataset, or a folder of one, whose texts become prompts."),
    ] = None,
    split: Annotated[str, typer.Option(help="The dataset's split.")] = "test",
    column: Annotated[str, typer.Option(help="The dataset's column of texts.")] = "text",
    words: Annotated[int, typer.Option(min=1, help="Words of a text that become the prompt.")] = 32,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only the first so many prompts.")] = None,
    seed: Annotated[int, typer.Option(help="The study's seed.")] = 1,
) -> None:
    """Make a study: study.toml to edit, and prompts.

    Prompts are copied into it: from a file, from a Hugging Face dataset, or a few examples to be replaced.
    """
    if (folder / "study.toml").exists():
        raise StudyError(f"{folder} is a study already; edit {folder / 'study.toml'}, or name another folder")
    if prompts and dataset:
        raise StudyError("prompts come from a file or from a dataset; give --prompts or --dataset, not both")
    found = read_prompts(prompts, limit=limit) if prompts else []
    if dataset:
        found = read_dataset(dataset, split=split, column=column, words=words, limit=limit)
    rows = [{"id": p.id, "dataset": p.dataset, "prompt": p.text, "reference": p.reference} for p in found]
    rows = rows or [
        {"id": f"example-{i}", "dataset": "examples", "prompt": text}
        for i, text in enumerate(EXAMPLES, start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / "prompts.jsonl").write_text(lines, encoding="utf-8")
    small = model == "bundled"
    compute = ["diversity", "coherence", "perplexity", "repetition", "length", "speed"]
    if not small:  # the bundled model is for trying things out, where there may be no network
        compute[1:1] = ["mauve", "bertscore"]
    text = TEMPLATE.format(
        name=json.dumps(folder.resolve().name),
        seed=seed,
        model=json.dumps(_seen_from(folder, model)),
        compute=", ".join(map(json.dumps, compute)),
        scorer=json.dumps("bundled" if small else MetricSettings().coherence_model),
        new_tokens=128 if small else 256,
        prompt_tokens=128 if small else 256,
    )
    (folder / "study.toml").write_text(text, encoding="utf-8")
    say(f"{folder / 'study.toml'}: the settings, to be edited")
    say(f"{folder / 'prompts.jsonl'}: {len(rows)} prompts" + ("" if found else ", examples to be replaced"))
    say_next(f"guard-eval generate {folder} --dry-run")


def _seen_from(folder: Path, model: str) -> str:
    """Return a model folder's path as study.toml needs it: seen from the study, if it was relative."""
    path = Path(model).expanduser()
    return model if not path.is_dir() or path.is_absolute() else os.path.relpath(path, folder)
