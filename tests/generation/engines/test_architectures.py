"""For each architecture, searches equal their definitions, and texts do not depend on batches or caches."""

import math
import statistics
from functools import partial

import pytest
import torch
from tiny_models import CONFIGS, tiny
from written_texts import continue_rows as continue_to

from guard_eval.generation.engines.passes import RepeatedPasses, TreePasses
from guard_eval.generation.engines.probe import Abilities

pytestmark = pytest.mark.slow

PROMPTS = [[5, 9, 200, 31], [7], [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24], [40, 41, 42]]
STEPS = 14  # beyond Mistral's window of 24 tokens
MANY_ENDS = (0, 7, 201, 33, 96, 12, 150, 171, 230, 301, 64, 65, 66, 67, 68)

continue_rows = partial(continue_to, limit=STEPS)
every_kind = pytest.mark.parametrize("kind", CONFIGS)


def generated(model, prompt, **settings):
    ids = torch.tensor([prompt])
    output = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=STEPS,
        pad_token_id=0,
        **settings,
    )
    return output[0, len(prompt) :].tolist()


@every_kind
def test_greedy_search_equals_transformers(kind):
    expected = [generated(tiny(kind), prompt, eos_token_id=list(MANY_ENDS)) for prompt in PROMPTS]
    assert continue_rows(tiny(kind), PROMPTS, "greedy", ends=MANY_ENDS).tokens == expected


@every_kind
@pytest.mark.parametrize(("beams", "power", "ends"), [(5, 1.0, (0,)), (3, -1.0, MANY_ENDS)])
def test_beam_search_equals_transformers(kind, beams, power, ends):
    settings = {"num_beams": beams, "eos_token_id": list(ends), "length_penalty": power}
    expected = [generated(tiny(kind), prompt, early_stopping=False, **settings) for prompt in PROMPTS]
    strategy = f"beam(beams={beams}, length_penalty={power})"
    assert continue_rows(tiny(kind), PROMPTS, strategy, ends=ends).tokens == expected


def test_generation_settings_of_a_model_are_ignored():
    model = tiny("llama")
    expected = continue_rows(model, PROMPTS, "greedy").tokens
    model.generation_config.repetition_penalty = 5.0
    model.generation_config.max_length = 7
    assert continue_rows(model, PROMPTS, "greedy").tokens == expected
    assert model.generation_config.repetition_penalty == 5.0


@every_kind
@pytest.mark.parametrize("name", ["guard", "dry + min_p"])
def test_a_static_cache_writes_equal_texts(kind, name):
    model = tiny(kind)
    assert continue_rows(model, PROMPTS, name, static_cache=True) == continue_rows(model, PROMPTS, name)


@every_kind
def test_contrastive_search_equals_the_definition(kind):
    model = tiny(kind)
    expected = slow_search(tiny(kind), lambda: lambda _p: (6, 0.6))
    assert continue_rows(model, PROMPTS, "contrastive(k=6, alpha=0.6)").tokens == expected
    windowed = kind in {"mistral", "qwen2-window"}
    assert Abilities.for_model(model).find_fastest_pass_class(64) is (
        RepeatedPasses if windowed else TreePasses
    )


@pytest.mark.parametrize("q", [1.0, 3.0])
def test_acs_equals_the_definition(q):
    def follow_a_text():
        earlier = {False: [], True: []}

        def exponent(p, *, inside):
            """Return q times arctanh of the entropy's difference from the median of the earlier ones."""
            h, before = -sum(x * math.log(x) for x in p if x > 0), earlier[inside]
            x = (h - statistics.median(before)) / math.log(len(p)) if before else 0
            before.append(h)
            return q * math.atanh(max(-1 + 1e-6, min(1 - 1e-6, x)))

        def adapt(p):
            k = round(10 / (1 + math.exp(-exponent(p, inside=False))) + 5)
            top = sorted(p, reverse=True)[:k]
            x = exponent([probability / sum(top) for probability in top], inside=True)
            return k, round(1 / (1 + math.exp(-x)), 2)

        return adapt

    expected = slow_search(tiny("llama"), follow_a_text)
    assert continue_rows(tiny("llama"), PROMPTS, f"acs(q={q})").tokens == expected
    alone = [continue_rows(tiny("llama"), [prompt], f"acs(q={q})") for prompt in PROMPTS]
    assert [decoded.tokens[0] for decoded in alone] == expected


@torch.inference_mode()
def slow_search(model, follow_a_text):
    """Write texts by contrastive search without a cache. `follow_a_text()` returns a function for k and α."""
    texts = []
    for prompt in PROMPTS:
        text, adapt = list(prompt), follow_a_text()
        while len(text) < len(prompt) + STEPS and text[-1:] != [0]:
            p = model(input_ids=torch.tensor([text])).logits[0, -1].double().softmax(-1).tolist()
            k, alpha = adapt(p)
            candidates = sorted(range(len(p)), key=lambda v: (-p[v], v))[:k]
            scores = []
            for v in candidates:
                output = model(input_ids=torch.tensor([[*text, v]]), output_hidden_states=True)
                states = output.hidden_states[-1]
                if states.dim() == 4:  # several streams, which the model's body joins
                    states = model.base_model(input_ids=torch.tensor([[*text, v]])).last_hidden_state
                h = torch.nn.functional.normalize(states[0].double(), dim=-1)
                scores.append((1 - alpha) * p[v] - alpha * float((h[:-1] @ h[-1]).max()))
            text.append(candidates[scores.index(max(scores))])
        texts.append(text[len(prompt) :])
    return texts


IN_BATCHES = [
    *("gpt-neo", "falcon-alibi", "llama4", "jamba", "mamba", "mamba2", "falcon-mamba", "lfm2", "gemma3n"),
    *("openai-gpt", "roformer"),
]


@pytest.mark.parametrize("kind", [*IN_BATCHES, "rwkv", "trocr"])
def test_contrastive_search_of_other_models_equals_definition(kind):
    batches = [PROMPTS] if kind in IN_BATCHES else [[prompt] for prompt in PROMPTS]
    expected = slow_search(tiny(kind), lambda: lambda _p: (4, 0.6))
    decoded = [continue_rows(tiny(kind), batch, "contrastive(k=4, alpha=0.6)") for batch in batches]
    assert [tokens for batch in decoded for tokens in batch.tokens] == expected


@pytest.mark.parametrize("kind", ["rwkv", "mamba", "lfm2", "openai-gpt"])
def test_beam_search_is_equal_with_and_without_a_cache(kind):
    model = tiny(kind)
    settings = {"num_beams": 3, "eos_token_id": [0], "early_stopping": False, "use_cache": False}
    expected = [generated(model, prompt, **settings) for prompt in PROMPTS]
    texts = [continue_rows(model, [prompt], "beam(beams=3)").tokens[0] for prompt in PROMPTS]
    assert texts == expected


@pytest.mark.parametrize("kind", ["lfm2", "openai-gpt", "recurrent-gemma"])
def test_amateur_scores_are_equal_with_and_without_a_cache(kind, monkeypatch):
    strategy, expert = "contrastive_decoding(beams=3, amateur_prompt=whole)", tiny("llama")
    cached = continue_rows(expert, PROMPTS, strategy, amateur=tiny(kind)).tokens
    monkeypatch.setattr(Abilities, "can_reorder_cache", lambda *_: False)
    assert continue_rows(expert, PROMPTS, strategy, amateur=tiny(kind)).tokens == cached
