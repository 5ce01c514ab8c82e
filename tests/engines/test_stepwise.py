"""Strategies of steps, whole texts: against transformers' `generate`, slow definitions, and in any batch."""

import math

import pytest
import torch
from transformers.generation.logits_process import (
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from guard_eval.decoding.noise import gumbel, row_key
from guard_eval.decoding.processor import breaker_ids
from guard_eval.engines.decode import Batch, check_vocabulary, decode
from guard_eval.engines.generation import generate
from guard_eval.engines.loading import LoadedModel
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.strategies import parse, signature

STEPS = 40
TEXTS = [
    "the cat sat on the mat and the cat sat on",
    "the",
    "the dog ran to the old red house and the dog ran to the",
    "a red",
    "the mat",
]
COMBINED = (
    "repetition_penalty(penalty=1.3) + no_repeat_ngram(n=3) + temperature(tau=0.7) "
    "+ top_k(k=20) + top_p(p=0.9)"
)
NAMES = [
    "epsilon(epsilon=0.02)",
    "eta(epsilon=0.05)",
    "top_n_sigma(n=1.5)",
    "top_h",
    "p_less(temperature=2)",
    "min_k",
    "xtc(threshold=0.05)",
    "mirostat(tau=2)",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "no_repeat_ngram(n=2)",
    "dry(allowed_length=1)",
    COMBINED,
    "dry + min_p(p=0.05) + temperature(tau=0.8)",
    "repetition_penalty + top_k(k=20) + top_p(p=0.9)",
    "no_repeat_ngram + mirostat(tau=2) + mirostat(tau=1, eta=0.5)",
]
MODELS = ["llama", "gpt2"]
every_model = pytest.mark.parametrize("loaded", MODELS, indirect=True)


def encoded(loaded: LoadedModel) -> list[list[int]]:
    return [loaded.tokenizer(text)["input_ids"] for text in TEXTS]


def made(
    loaded: LoadedModel, prompts: list[list[int]], name: str, ends: tuple[int, ...] = ()
) -> list[list[int]]:
    keys = [row_key(3, " ".join(map(str, prompt)), signature(parse(name))) for prompt in prompts]
    batch = Batch(prompts=prompts, keys=torch.tensor(keys), ends=ends, limit=STEPS)
    return decode(loaded.model, batch, parse(name)).tokens


@every_model
@pytest.mark.parametrize("name", NAMES)
def test_a_text_is_the_same_in_any_batch(loaded, name):
    prompts = encoded(loaded)
    free = made(loaded, prompts, name)
    ends = (free[0][9], free[1][17])
    together = made(loaded, prompts, name, ends=ends)
    assert len(together[0]) <= 10  # rows that end leave the batch
    for prompt, expected in zip(prompts, together, strict=True):
        assert made(loaded, [prompt], name, ends=ends) == [expected]


@every_model
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("repetition_penalty(penalty=1.3)", {"repetition_penalty": 1.3}),
        ("no_repeat_ngram(n=2)", {"no_repeat_ngram_size": 2}),
        (
            "repetition_penalty(penalty=1.3) + no_repeat_ngram(n=3)",
            {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
        ),
    ],
)
def test_penalties_write_what_transformers_writes(loaded, name, given):
    for prompt in encoded(loaded):
        ids = torch.tensor([prompt])
        expected = loaded.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=STEPS,
            do_sample=False,
            eos_token_id=None,
            **given,
        )
        assert made(loaded, [prompt], name) == [expected[0, len(prompt) :].tolist()]
    assert made(loaded, encoded(loaded), name) != made(loaded, encoded(loaded), "greedy")


@every_model
def test_dry_and_counts_by_a_slow_definition(loaded):  # noqa: C901 (three small definitions)
    """Repeat nothing, count nothing ahead: lists and Python's numbers, one text at a time."""

    def text(prompt: list[int], take) -> list[int]:
        new: list[int] = []
        while len(new) < STEPS:
            with torch.no_grad():
                logits = loaded.model(input_ids=torch.tensor([prompt + new])).logits[0, -1].float()
            for token, minus in take(prompt + new, new).items():
                logits[token] -= minus
            new.append(int(logits.argmax()))
        return new

    def dry(whole: list[int], _: list[int]) -> dict[int, float]:
        taken: dict[int, float] = {}
        for place in range(1, len(whole)):
            n = 0
            while n < place and n < 50 and whole[place - 1 - n] == whole[len(whole) - 1 - n]:
                n += 1
            if n >= 2:
                taken[whole[place]] = max(taken.get(whole[place], 0), 0.8 * 1.75 ** (n - 2))
        return taken

    def often(_: list[int], new: list[int]) -> dict[int, float]:
        return {token: 0.7 * new.count(token) for token in new}

    def once(_: list[int], new: list[int]) -> dict[int, float]:
        return dict.fromkeys(new, 0.7)

    prompts = encoded(loaded)
    for name, take in (
        ("dry", dry),
        ("frequency_penalty(penalty=0.7)", often),
        ("presence_penalty(penalty=0.7)", once),
    ):
        assert made(loaded, prompts, name) == [text(prompt, take) for prompt in prompts]


@every_model
def test_mirostat_looks_back_at_its_own_text(loaded):
    """Follow a text with μ in Python's numbers: every token lies among the k likeliest of its step."""
    [prompt] = encoded(loaded)[:1]
    [new] = made(loaded, [prompt], "mirostat(tau=2, eta=0.7)")
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([prompt + new])).logits[0, len(prompt) - 1 : -1]
    mu, cut = 4.0, 0
    for p, token in zip(logits.double().softmax(-1).tolist(), new, strict=True):
        ordered = sorted(p, reverse=True)[:100]
        t = [math.log((i + 1) / i) for i in range(1, 100)]
        b = [math.log(ordered[i - 1] / ordered[i]) for i in range(1, 100)]
        s = sum(x * y for x, y in zip(t, b, strict=True)) / sum(x * x for x in t)
        k = round(((s - 1) * 2**mu / (1 - len(p) ** (1 - s))) ** (1 / s)) + 1
        rank = sorted(range(len(p)), key=lambda v: (-p[v], v)).index(token)
        assert rank < k
        cut += k < len(p)
        mu -= 0.7 * (-math.log2(p[token]) - 2)
    assert cut > STEPS / 2  # it did cut


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_a_study_of_chains_has_ids_of_its_own(loaded):
    prompts = [Prompt(id=f"p{n}", dataset="d", text=text) for n, text in enumerate(TEXTS)]
    ids = set()
    for name in NAMES:
        batches = generate(
            loaded, prompts, parse(name), seed=1, max_new_tokens=3, max_prompt_tokens=64, batch_size=3
        )
        texts = [one for batch in batches for one in batch]
        assert {one.recipe.strategy for one in texts} == {signature(parse(name))}
        ids |= {one.id for one in texts}
    assert len(ids) == len(NAMES) * len(TEXTS)


@pytest.mark.parametrize("loaded", ["llama"], indirect=True)
def test_a_chain_needs_a_vocabulary_for_each_step(loaded):
    with pytest.raises(StudyError, match="chooses among 900 tokens"):
        check_vocabulary(loaded.model, "llama", parse("dry + top_k(k=900)"))


@every_model
def test_what_people_combine_is_what_transformers_combines(loaded):
    """Its processors in its order, and a draw from what they leave by our numbers."""
    processors = [
        RepetitionPenaltyLogitsProcessor(1.3),
        NoRepeatNGramLogitsProcessor(3),
        TemperatureLogitsWarper(0.7),
        TopKLogitsWarper(20),
        TopPLogitsWarper(0.9),
    ]
    for prompt in encoded(loaded):
        key = torch.tensor([row_key(3, " ".join(map(str, prompt)), signature(parse(COMBINED)))])
        text = list(prompt)
        for step in range(STEPS):
            ids = torch.tensor([text])
            with torch.no_grad():
                scores = loaded.model(input_ids=ids).logits[:, -1].float()
            for processor in processors:
                scores = processor(ids, scores)
            every = torch.arange(scores.shape[1])[None]
            text.append(int((scores.double() + gumbel(key, step, every)).argmax()))
        assert made(loaded, [prompt], COMBINED) == [text[len(prompt) :]]


@pytest.mark.parametrize("loaded", ["llama", "gpt2", "stories260k"], indirect=True)
def test_breakers_are_the_tokens_of_line_ends_colons_quotes_and_stars(loaded):
    """Each is the last token of its string after a letter; texts by them are not those without."""
    decoded = {loaded.tokenizer.decode([token]) for token in breaker_ids(loaded.tokenizer)}
    assert decoded == {"\n", ":", '"', "*"}
    prompts = [Prompt(id="p", dataset="d", text='"the cat"\n*the dog*\n"the cat"\n')]
    texts = {}
    for name in (
        "dry(multiplier=5, allowed_length=1)",
        "dry(multiplier=5, allowed_length=1, breakers=standard)",
    ):
        [[one]] = generate(
            loaded, prompts, parse(name), seed=1, max_new_tokens=60, max_prompt_tokens=64, batch_size=1
        )
        assert one.recipe.strategy == signature(parse(name))
        texts[name] = one.text
    if loaded.name == "stories260k":  # random models write no line ends
        assert len(set(texts.values())) == 2
