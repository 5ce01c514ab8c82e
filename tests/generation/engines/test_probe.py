"""Trials find out which models can pad texts, use a cache and pack layers. Failing texts are reported."""

import inspect
import time

import pytest
import torch
from refusals import expect_refusal
from small_tokenizers import bytes_of
from tiny_models import FOREIGN, VOCABULARY, tiny
from transformers import LlamaForCausalLM, RobertaConfig, RobertaForCausalLM
from written_texts import collect_notices, continue_rows, make_prompts, write

from guard_eval.generation.engines import packed
from guard_eval.generation.engines.loading import LoadedModel
from guard_eval.generation.engines.packed import PackedLinear, can_pack_weights, pack_linear_layers
from guard_eval.generation.engines.passes import RepeatedPasses, TreePasses
from guard_eval.generation.engines.probe import Abilities, check_model_can_run_strategy
from guard_eval.generation.library import load_model, show_text
from guard_eval.generation.strategies import ContrastiveSearch, Greedy
from guard_eval.records import Prompt

pytestmark = pytest.mark.slow

PROMPTS = make_prompts(3)
ROWS = [[5, 9, 200, 31], [7, 8], [*range(12, 31)], [40, 41, 42, 40, 41, 42, 40]]
LIMITS = {"seed": 1, "max_new_tokens": 6, "max_prompt_tokens": 32}
TEXT = "the cat sat on the mat and the dog ran to the old red house"


def load_foreign(kind):
    """Return a small random model with packed layers, as `load_pretrained` does."""
    model = tiny(kind)
    pack_linear_layers(model)
    return LoadedModel(
        model=model, tokenizer=bytes_of([TEXT] * 3, VOCABULARY), name=kind, revision="sha256:0",
        dtype="float32", device="cpu", versions="",
    )  # fmt: skip


@pytest.fixture
def packing(monkeypatch):
    if not can_pack_weights():
        pytest.skip("oneDNN does not pack weights here")
    monkeypatch.setattr(packed, "_SMALL", 0)


@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize("kind", FOREIGN)
def test_other_architectures_write_equal_texts_in_batches(kind):
    """Texts equal transformers' greedy search without packed layers and without a batch."""
    loaded, reference = load_foreign(kind), tiny(kind)
    texts = {c.prompt_id: c.text for b in write(loaded, PROMPTS, "greedy", batch_size=3, **LIMITS) for c in b}
    allowed = list(range(len(loaded.tokenizer)))
    for prompt in PROMPTS:
        ids = torch.tensor([loaded.tokenizer(prompt.text)["input_ids"]])
        absent = [token for token in range(VOCABULARY) if token not in allowed]
        rows = reference.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6,
            pad_token_id=0, suppress_tokens=absent, use_cache=False,
        )  # fmt: skip
        expected = loaded.tokenizer.decode(rows[0, ids.shape[1] :], skip_special_tokens=True)
        assert texts[prompt.id] == expected.rstrip("\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize("kind", ["rwkv", "xlnet", "prophetnet", "trocr", "cpm-ant"])
def test_models_that_ignore_padding_write_single_texts(kind):
    with collect_notices() as notices:
        sizes = [len(b) for b in write(load_foreign(kind), PROMPTS, "greedy", batch_size=3, **LIMITS)]
    assert sizes == [1, 1, 1]
    assert any("padded rows failed a trial (logits differ by" in text for text in notices)
    assert [len(b) for b in write(load_foreign("gpt-neo"), PROMPTS, "greedy", batch_size=3, **LIMITS)] == [3]


@pytest.mark.parametrize("name", ["greedy", "guard", "top_p"])
def test_longrope_texts_do_not_depend_on_longer_rows(name):
    """The rotation of all rows changes when one row is longer than 20 tokens."""
    prompts = make_prompts(6)[::5]
    loaded = load_foreign("longrope")
    whole, alone = (
        {
            text.prompt_id: text.text
            for batch in write(loaded, prompts, name, batch_size=size, **LIMITS)
            for text in batch
        }
        for size in (2, 1)
    )
    assert whole == alone


@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
def test_layers_are_not_packed_if_logits_are_not_finite(value):
    model = tiny("llama")
    model.lm_head.weight.data[3] = value
    pack_linear_layers(model)
    assert not any(isinstance(module, PackedLinear) for module in model.modules())


@pytest.mark.usefixtures("packing")
@pytest.mark.parametrize("kind", ["mamba", "falcon-mamba", "jamba"])
def test_layers_whose_weights_a_model_reads_are_not_packed(kind):
    plain, model = tiny(kind), tiny(kind)
    pack_linear_layers(model)
    kinds = {name.split(".")[-1]: type(layer) for name, layer in model.named_modules()}
    assert kinds["dt_proj"] is torch.nn.Linear
    assert kinds["out_proj"] is PackedLinear
    ids = torch.tensor([[5, 9, 200, 31]])
    assert torch.allclose(model(input_ids=ids).logits, plain(input_ids=ids).logits, atol=1e-4)


USUAL = next(
    name
    for name in ("cache", "past_key_values")
    if name in inspect.signature(LlamaForCausalLM.forward).parameters
)


class OlderCache(LlamaForCausalLM):
    """Llama whose cache argument has its name from before transformers 5.24."""

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, **kwargs):
        if past_key_values is not None:
            kwargs[USUAL] = past_key_values
        return super().forward(input_ids, attention_mask, position_ids, **kwargs)


def test_contrastive_search_accepts_both_cache_names():
    renamed = OlderCache(tiny("llama").config).eval()
    renamed.load_state_dict(tiny("llama").state_dict())
    prompts = [[5, 9, 200], [7]]
    for strategy in ("contrastive(k=3, alpha=0.6)", "beam(beams=3)"):
        expected = continue_rows(tiny("llama"), prompts, strategy, limit=8)
        assert continue_rows(renamed, prompts, strategy, limit=8) == expected


def test_refusal_of_a_model_names_the_failed_trials():
    model = tiny("llama")
    model.model.layers[1].mlp.up_proj = torch.nn.Linear(7, 7)
    with expect_refusal(r"LlamaForCausalLM cannot continue a text .*: one text \(mat1 and mat2 .*name"):
        check_model_can_run_strategy(model, Greedy())
    with expect_refusal(r"XLNetLMHeadModel cannot run contrastive .*a cache for each candidate \(the model"):
        check_model_can_run_strategy(tiny("xlnet"), ContrastiveSearch())


def test_model_without_positions_from_zero_is_refused():
    """RoBERTa counts positions from its padding token's id plus 1, and `generate` counts from 0."""
    sizes = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96}
    model = RobertaForCausalLM(
        RobertaConfig(is_decoder=True, vocab_size=VOCABULARY, initializer_range=0.3, **sizes)
    )
    with expect_refusal(r"RobertaForCausalLM cannot continue a text .*: one text \(logits differ by"):
        check_model_can_run_strategy(model.eval(), Greedy())


def test_cache_with_wrong_logits_is_not_used():
    """In MiniMax, a step with a cache gives other logits than one pass for texts of more than nine tokens."""
    model = tiny("minimax")
    expected = []
    for prompt in ROWS:
        text = list(prompt)
        for _ in range(8):
            with torch.inference_mode():
                text.append(int(model(input_ids=torch.tensor([text])).logits[0, -1].argmax()))
        expected.append(text[len(prompt) :])
    with collect_notices() as notices:
        written = [continue_rows(model, [prompt], "greedy", ends=(), limit=8) for prompt in ROWS]
    assert [text.tokens[0] for text in written] == expected
    assert any("a cache failed a trial (logits differ by" in text for text in notices)


def test_prompts_are_padded_with_the_models_padding_token():
    """RecurrentGemma reads padding, which has no effect only if the model's own padding token is used."""
    model = tiny("recurrent-gemma")
    together = continue_rows(model, ROWS, "guard", ends=(1,), limit=8).tokens
    alone = [continue_rows(model, [row], "guard", ends=(1,), limit=8).tokens[0] for row in ROWS]
    assert together == alone


def test_prompt_of_one_token_is_refused_by_stateful_models():
    """RecurrentGemma's layers do not forget the earlier text when a call has only one token."""
    prompts = [Prompt(id="one", dataset="d", text="t"), *PROMPTS]
    assert len(load_foreign("gpt2").tokenizer("t")["input_ids"]) == 1
    assert list(write(load_foreign("gpt2"), prompts, "greedy", **LIMITS))
    with expect_refusal("the prompt 'one': this RecurrentGemmaForCausalLM confuses"):
        list(write(load_foreign("recurrent-gemma"), prompts, "greedy", **LIMITS))


@pytest.mark.parametrize("strategy", ["guard", "beam(beams=2)", "contrastive", "acs"])
def test_prompts_for_which_a_model_fails_are_reported(strategy):
    """The model has only 16 positions, but its settings do not say this."""
    loaded = load_foreign("gpt2")
    loaded.model.transformer.wpe = torch.nn.Embedding(16, loaded.model.config.n_embd)
    prompts = [*PROMPTS[:2], Prompt(id="long", dataset="set", text=TEXT)]
    texts = []
    says = r"GPT2LMHeadModel fails with .* for the prompt 'long' \(.*index out of range"
    with expect_refusal(says):
        texts.extend(write(loaded, prompts, strategy, batch_size=4, seed=1, max_new_tokens=9))
    assert {text.prompt_id for batch in texts for text in batch} == {"p0", "p1"}
    with expect_refusal("GPT2LMHeadModel fails with"):
        show_text(loaded, TEXT, strategy=strategy, max_new_tokens=9)


@pytest.mark.parametrize("vocabulary", [1, 2])
def test_trials_accept_a_tiny_vocabulary(vocabulary):
    model = tiny("llama", vocab_size=vocabulary, eos_token_id=None)
    check_model_can_run_strategy(model, ContrastiveSearch())
    assert continue_rows(model, [[0]], "guard", ends=(), limit=3).tokens[0]


def test_trial_of_a_failed_text_length_is_not_repeated(monkeypatch):
    """For Mistral, one cache for all candidates is wrong beyond the window of 24 tokens."""
    model = tiny("mistral", sliding_window=24)
    abilities = Abilities.for_model(model)
    tried = []
    compare = abilities._compare_candidate_passes
    monkeypatch.setattr(
        abilities,
        "_compare_candidate_passes",
        lambda *arguments: tried.append(arguments) or compare(*arguments),
    )
    kinds = [abilities.find_fastest_pass_class(tokens) for tokens in (40, 40, 30, 64, 12, 12)]
    assert kinds == [RepeatedPasses] * 4 + [TreePasses] * 2
    assert tried == [
        (TreePasses, 40), (RepeatedPasses, 40), (TreePasses, 30), (RepeatedPasses, 64), (TreePasses, 12)
    ]  # fmt: skip


def test_trials_of_a_small_model_take_under_a_second():
    """The least processor time, of five runs, of all trials that any strategy needs, for 296 tokens."""
    loaded = load_model("bundled")
    seconds = []
    for _ in range(5):
        began = time.process_time()
        abilities = Abilities(loaded.model)
        assert abilities.can_continue_text
        assert abilities.find_fastest_pass_class(296) is TreePasses
        assert abilities.can_use_cache(296)
        assert abilities.can_pad_prompts(296)
        assert abilities.can_reorder_cache(296)
        seconds.append(time.process_time() - began)
    assert min(seconds) < 1
