"""Recipes and continuations for tests: what a test does not name is something ordinary."""

from dataclasses import replace

from guard_eval.records import Continuation, Prompt, Recipe
from guard_eval.store import TidyRow
from guard_eval.study.settings import Settings

STUDY_HEAD = """
name = "s"
seed = 11
[model]
name = "bundled"
[generation]
strategies = ["guard", "top_k(k=50)"]
[pairs]
compare = [["guard", "top_k(k=50)"]]
"""
"""How a study.toml begins that compares two strategies."""

PROMPT = Prompt(id="p1", dataset="d", text="Once")

RECIPE = Recipe(
    model="m",
    revision="r",
    strategy="guard",
    seed=1,
    max_new_tokens=8,
    max_prompt_tokens=8,
    dtype="float32",
)


def recipe(**changes):
    return replace(RECIPE, **changes)


def continuation(text="a text", prompt=PROMPT, made_by=RECIPE, **changes):
    made = Continuation(
        id=made_by.continuation_id(prompt),
        prompt_id=prompt.id,
        dataset=prompt.dataset,
        recipe=made_by,
        text=text,
        prompt_tokens=1,
        new_tokens=2,
        finish="length",
        seconds=0.5,
        batch=1,
        device="cpu",
        versions="torch 2",
    )
    return replace(made, **changes)


SETTINGS = Settings.model_validate(
    {
        "name": "s",
        "seed": 3,
        "model": {"name": "bundled"},
        "generation": {"strategies": ["guard", "acs"], "max_new_tokens": 8, "max_prompt_tokens": 8},
        "pairs": {"compare": [["guard", "acs"]]},
    }
)
"""A study of two strategies."""

OF_SETTINGS = recipe(model="bundled", revision="sha256:00", seed=3)
"""How that study's continuations by GUARD are made."""


def edit_settings(study, before, after):
    """Replace what stands in a study's study.toml."""
    text = (study / "study.toml").read_text()
    assert before in text
    (study / "study.toml").write_text(text.replace(before, after))


def text_file(study, name):
    """Return the one file of a study's folder with a strategy's texts."""
    (path,) = (study / "continuations").glob(f"*/{name}.jsonl")
    return path


TIDY = TidyRow(
    pair_id="pair",
    dataset="news",
    prompt_id="prompt-0",
    method_a="a",
    method_b="b",
    rater="anna",
    criterion="fluency",
    verdict="a",
    rater_kind="person",
    presentation=1,
    slot=0,
    shown_first="b",
    seconds=None,
    active_seconds=None,
    at="2026-11-22T21:26:14.000+00:00",
    length_a=7,
    length_b=7,
    surplus=False,
    position="B",
)
"""A verdict as the store un-blinds it."""
