"""Texts from a program equal those of a study, and `try` shows the numbers of their tokens."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import expect_refusal
from scipy.stats import entropy
from written_texts import make_prompts, write

import guard_eval
from guard_eval import Greedy, Guard, Prompt, Texts, TopP, generate, measure
from guard_eval.generation.library import show_text
from guard_eval.generation.strategies import STRATEGIES

pytestmark = pytest.mark.slow

SHORT = {"max_new_tokens": 12, "max_prompt_tokens": 32}
a_llama = pytest.mark.parametrize("loaded", ["llama"], indirect=True)
of_each_loop = pytest.mark.parametrize(
    "strategy", ["greedy", "top_p(p=0.9)", "guard", "mirostat", "contrastive(k=4)", "acs", "dry + min_p"]
)


@a_llama
@of_each_loop
def test_generate_writes_the_same_texts_as_a_study(loaded, strategy):
    prompts = make_prompts(4)
    studied = {
        text.prompt_id: text
        for batch in write(loaded, prompts, strategy, seed=3, batch_size=4, **SHORT)
        for text in batch
    }
    order = [2, 0, 3, 2, 1]
    texts = generate(
        [prompts[n] for n in order], strategy, loaded, seed=3, batch_size=1, progress=False, **SHORT
    )
    assert [text.id for text in texts] == [studied[f"p{n}"].id for n in order]
    assert [text.text for text in texts] == [studied[f"p{n}"].text for n in order]


@a_llama
@of_each_loop
def test_show_text_shows_the_tokens_of_the_text(loaded, strategy):
    result = show_text(loaded, "the cat sat", strategy=strategy, seed=3, max_new_tokens=12)
    (text,) = generate("the cat sat", strategy, loaded, seed=3, max_new_tokens=12, progress=False)
    assert result.text == text.text
    painted = "".join(token["text"] for token in result.tokens)
    assert text.text.startswith(painted)
    assert set(text.text[len(painted) :]) <= {"\N{REPLACEMENT CHARACTER}"}  # the limit cut a character
    assert len(result.tokens) == text.new_tokens
    adapts = any(name in strategy for name in ("guard", "mirostat", "acs"))
    assert (len(result.tokens[0]) > 3) == adapts


@a_llama
def test_show_text_has_entropies_and_probabilities(loaded):
    """Entropies are over the tokenizer's tokens, because the model's other tokens are never written."""
    first = show_text(loaded, "the cat sat", strategy="greedy", max_new_tokens=2).tokens[0]
    ids = loaded.tokenizer("the cat sat", return_tensors="pt")
    with torch.inference_mode():
        logits = loaded.model(**ids).logits[0, -1, : len(loaded.tokenizer)]
        p = logits.double().softmax(-1).numpy()
    assert first["entropy"] == pytest.approx(entropy(p), rel=1e-4)
    assert first["probability"] == pytest.approx(p.max(), rel=1e-4)


@a_llama
def test_show_text_traces_the_state_of_mirostat(loaded):
    """Basu et al. 2021, Algorithm 1: μ_1 = 2 τ, and then μ - η (S - τ) with S = -log2 p."""
    mu = 6.0
    for token in show_text(
        loaded, "the cat sat", strategy="mirostat(tau=3, eta=0.5)", max_new_tokens=12
    ).tokens:
        assert token["mu"] == pytest.approx(mu, rel=1e-6)
        mu -= 0.5 * (-math.log2(token["probability"]) - 3.0)


@a_llama
def test_show_text_lists_no_tokens_for_beam_search(loaded):
    result = show_text(loaded, "the cat sat", strategy="beam", max_new_tokens=12)
    assert result.text
    assert result.tokens == ()


@a_llama
def test_runs_differ_if_tokens_are_drawn(loaded):
    drawn = generate("the cat", TopP(p=1.0), loaded, runs=3, progress=False, **SHORT)
    assert [text.run for text in drawn] == [1, 2, 3]
    assert len({text.text for text in drawn}) == 3
    assert len(generate("the cat", Greedy(), loaded, runs=3, progress=False, **SHORT)) == 1


@a_llama
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": [3]}, "prompt 1 is of type int; give a string or a Prompt"),
        ({"prompts": {"a": 1}}, "prompts is of type dict; give a list"),
        ({"prompts": Texts([], []).to_frame()}, "prompts is of type DataFrame"),
        ({"prompts": None}, "prompt 1 is of type NoneType"),
        ({"prompts": "\ud800"}, r"the prompt '\\ud800': not valid Unicode"),
        (
            {"prompts": [Prompt(id="a", dataset="", text=text) for text in "xy"]},
            "two different prompts have the id 'a'",
        ),
        ({"strategy": Guard}, r"Guard'> is not a strategy; write Guard\(\)"),
        ({"strategy": "gaurd"}, "did you mean 'guard'"),
        ({"batch_size": 0}, "batch_size: 0: input should be greater"),
        ({"runs": "3"}, "runs: '3': input should be a valid integer"),
        ({"seed": "a"}, "seed: 'a': input should be a valid integer"),
        ({"stop": [5]}, r"stop\[1\]: 5: input should be"),
        ({"stop": ""}, r"stop\[1\]: '': string should"),
        ({"stop": 5}, "stop: 5: input should be a list in square brackets"),
        ({"on_step": 5}, "on_step = 5 is not a function"),
        ({"dtype": "float16"}, "dtype have no effect on a loaded model"),
        ({"model": "./missing"}, "there is no folder .*/missing, and"),
        ({"model": ""}, "the model's name is empty; give"),
        ({"model": None}, "model = None is not a model; give a Hugging Face"),
    ],
    ids=str,
)
def test_generate_refuses_wrong_values(loaded, options, message):
    with expect_refusal(message):
        generate(**{"prompts": "x", "model": loaded} | options)


@a_llama
def test_error_in_a_callback_is_not_reported_as_the_models(loaded):
    def fail(_step):
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        generate("the cat", "greedy", loaded, on_step=fail, progress=False, **SHORT)


def test_measure_refuses_wrong_texts_and_metrics():
    with expect_refusal("measure cannot read a list; pass the result of generate"):
        measure(["x"])
    with expect_refusal("'divers'"):
        measure(Texts([], []), metrics=["divers"])


@a_llama
def test_generate_accepts_numpy_numbers(loaded):
    number = np.int64(3)
    settings = {"seed": number, "max_new_tokens": number, "max_prompt_tokens": number, "batch_size": number}
    texts = generate("the cat sat", TopP(p=0.9), loaded, progress=False, **settings)
    assert texts[0] == replace(
        generate("the cat sat", TopP(p=0.9), loaded, progress=False, **dict.fromkeys(settings, 3))[0],
        seconds=texts[0].seconds,
    )


def test_the_package_lists_its_public_names():
    assert {"generate", "measure", "load_model", "Guard", "__version__"} <= set(dir(guard_eval))
    assert all(getattr(guard_eval, name) is not None for name in dir(guard_eval))
    assert {kind.__name__ for kind in STRATEGIES.values()} <= set(dir(guard_eval))
    with pytest.raises(AttributeError, match="no 'Gard'"):
        _ = guard_eval.Gard
