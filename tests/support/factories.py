"""Make pairs, recipes, continuations and studies for tests, with ordinary default values."""

from dataclasses import replace

from guard_eval.records import Continuation, Gold, Pair, Prompt, Recipe, make_content_id
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
"""The beginning of a study.toml that compares two strategies."""

STUDY_OF_THREE = """
name = "s"
seed = 3
[model]
name = "bundled"
[generation]
strategies = ["greedy", "acs", "guard"]
[pairs]
compare = [["guard", "acs"]]
[criteria.wit]
title = "Wit"
definition = "How witty it is."
"""
"""A complete study.toml with three strategies and the study's own criterion."""

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
    text_made = Continuation(
        id=made_by.make_continuation_id(prompt),
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
    return replace(text_made, **changes)


def make_pair(number=0, *, method_a="guard", method_b="top_k(k=50)", ids=None, **changes):
    """Return a pair of two methods. `ids` are the ids of the two continuations."""
    ids = ids or tuple(make_content_id("test", number, method) for method in (method_a, method_b))
    values = {
        "id": Pair.make_id(method_a, method_b, *ids),
        "dataset": ("wikinews", "wikitext")[number % 2],
        "prompt_id": f"prompt-{number}",
        "prompt": f"The prompt of number {number}",
        "text_a": f"text {number} of the first method",
        "text_b": f"words {number} of the second",
        "position": number,
    }
    methods = {"method_a": method_a, "method_b": method_b}
    return Pair(**methods, continuation_a=ids[0], continuation_b=ids[1], **(values | changes))


def make_gold(count):
    """Return gold pairs. The first text is better on fluency, the second on coherence."""
    texts = [{"text_a": f"right {number}", "text_b": f"{number} wrong"} for number in range(count)]
    methods = {"method_a": "human", "method_b": "shuffled", "dataset": "gold"}
    return [
        Gold(
            pair=make_pair(number, prompt=f"A gold prompt {number}", **methods, **texts[number]),
            expected={"fluency": "a", "coherence": "b"},
        )
        for number in range(count)
    ]


SETTINGS = Settings.model_validate(
    {
        "name": "s",
        "seed": 3,
        "model": {"name": "bundled"},
        "generation": {"strategies": ["guard", "acs"], "max_new_tokens": 8, "max_prompt_tokens": 8},
        "pairs": {"compare": [["guard", "acs"]]},
    }
)
"""The settings of a study of two strategies."""

OF_SETTINGS = recipe(model="bundled", revision="sha256:00", seed=3)
"""The recipe of the GUARD continuations of this study."""


def edit_settings(study, before, after):
    """Replace a text in a study's study.toml."""
    text = (study / "study.toml").read_text()
    assert before in text
    (study / "study.toml").write_text(text.replace(before, after))


def text_file(study, name):
    """Return the only file with a strategy's texts in a study's folder."""
    (path,) = (study / "continuations").glob(f"*/{name}.jsonl")
    return path


def prolific_id(name):
    """Return an id in Prolific's form. Each name has its own id."""
    return f"{make_content_id('participant', name)}5f0c0ffe"
