"""Each architecture's own forward pass and `generate` against both kinds of session."""

import functools

import pytest
import torch
from tiny_models import COMMON, CONFIGS, tiny
from transformers import AutoModelForCausalLM, Lfm2Config, OpenAIGPTConfig

from guard_eval.engines.local import rows
from guard_eval.engines.local.batch import Batch
from guard_eval.engines.local.decode import check, decode
from guard_eval.engines.local.padded import PaddedSession, obstacle_to_tree
from guard_eval.engines.local.rows import RowSession
from guard_eval.engines.packed import PackedLinear, pack
from guard_eval.errors import StudyError
from guard_eval.strategies import BeamSearch, ContrastiveSearch, Greedy

pytestmark = pytest.mark.slow

PROMPTS = [[5, 9, 200, 31], [7], [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24], [40, 41, 42]]
STEPS = 20

every_kind = pytest.mark.parametrize("kind", CONFIGS)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def batch(prompts=PROMPTS, limit: int = STEPS, ends: tuple[int, ...] = (0,)) -> Batch:
    return Batch(
        prompts=prompts,
        keys=torch.arange(len(prompts)),
        ends=torch.tensor(ends, dtype=torch.long),
        limit=limit,
    )


def generated(model, prompt: list[int], **settings) -> list[int]:
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
@pytest.mark.parametrize("packed", [False, True])
@torch.inference_mode()
def test_logits_are_the_models_own(kind, packed):
    """Follow texts token by token, and compare with one plain pass over each whole text."""
    model, plain = tiny(kind), tiny(kind)
    assert rows.supports(plain)
    if packed:
        pack(model)
        assert any(isinstance(layer, PackedLinear) for layer in model.modules())
    more = torch.randint(1, 320, (STEPS, len(PROMPTS)), generator=torch.Generator().manual_seed(1))
    for session in (RowSession(model, PROMPTS, STEPS), PaddedSession(model, PROMPTS, STEPS)):
        seen = [session.prefill(), *(session.step(tokens) for tokens in more)]
        for row, prompt in enumerate(PROMPTS):
            text = prompt + more[:, row].tolist()
            expected = plain(input_ids=torch.tensor([text])).logits[0, len(prompt) - 1 :]
            found = torch.stack([logits[row] for logits in seen])
            assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@every_kind
@pytest.mark.parametrize(("threads", "together"), [(1, 128), (2, 128), (1, 8)])
@torch.inference_mode()
def test_a_row_has_the_same_bits_in_any_company(kind, threads, together, monkeypatch):
    """Alone, among others of other lengths, among equally long ones, and after others have left."""
    torch.set_num_threads(threads)
    monkeypatch.setattr(rows, "_TOGETHER", together)
    model = tiny(kind)
    pack(model)
    texts = [*PROMPTS, [50, 51, 52], [60, 61, 62, 63]]
    more = torch.randint(1, 320, (6, len(texts)), generator=torch.Generator().manual_seed(1))
    ids = torch.randint(1, 320, (len(texts), 7), generator=torch.Generator().manual_seed(2))
    counts = torch.tensor([[7], [1], [4], [5], [5], [7]])
    allowed = torch.arange(7) < counts

    def follow(which: list[int], leaves: int | None = None) -> dict[int, list[torch.Tensor]]:
        found: dict[int, list[torch.Tensor]] = {row: [] for row in which}
        for candidates in (0, 7):
            here = list(which)
            session = RowSession(model, [texts[row] for row in here], STEPS, candidates=candidates)
            seen = session.prefill()
            for step, tokens in enumerate(more):
                if step == 3 and leaves in here:
                    session.keep(torch.tensor([n for n, row in enumerate(here) if row != leaves]))
                    here.remove(leaves)
                if candidates:
                    penalty = session.fork(ids[here], allowed[here]).masked_fill(~allowed[here], 0)
                    seen = torch.cat([penalty, session.commit((counts[here] - 1)[:, 0])], 1)
                else:
                    seen = session.step(tokens[here])
                for row, values in zip(here, seen, strict=True):
                    found[row].append(values)
        return found

    expected = follow(list(range(len(texts))))
    for which, leaves in (*(([n], None) for n in range(6)), ([3, 1], 3), ([5, 0, 4, 2], 4), ([4, 3], None)):
        for row, values in follow(which, leaves).items():
            among = expected[row] if row != leaves else [*expected[row][:3], *expected[row][6:9]]
            assert all(torch.equal(a, b) for a, b in zip(values, among, strict=True))


@torch.inference_mode()
def test_a_row_that_goes_on_twice_is_two_rows():
    """As beams do: rows named twice, dropped, and in another order, of texts of other lengths."""
    model = tiny("llama")
    pack(model)
    session = RowSession(model, PROMPTS, STEPS, copies=2)
    session.prefill()
    texts = [list(prompt) for prompt in PROMPTS]
    orders = [[0, 0, 1, 1, 2, 2, 3, 3], [1, 0, 2, 2, 4, 5, 7, 7], [7, 6, 0, 0, 2, 2], [5, 0, 1, 1, 3, 4]]
    for number, order in enumerate(orders):
        session.keep(torch.tensor(order))
        new = [1 + 20 * number + place for place in range(len(order))]
        texts = [[*texts[row], token] for row, token in zip(order, new, strict=True)]
        logits = session.step(torch.tensor(new))
        for text, found in zip(texts, logits, strict=True):
            assert torch.allclose(found, model(input_ids=torch.tensor([text])).logits[0, -1], atol=1e-3)


@every_kind
def test_greedy_is_generates(kind):
    model, plain = tiny(kind), tiny(kind)
    pack(model)
    expected = [generated(plain, prompt) for prompt in PROMPTS]
    assert decode(model, batch(), Greedy()).tokens == expected
    rows._supported[plain] = False
    assert decode(plain, batch(), Greedy()).tokens == expected


@every_kind
@pytest.mark.parametrize("beams", [1, 3, 5])
@pytest.mark.parametrize("ends", [(0,), (0, 7, 201, 33, 96, 12, 150, 171, 230, 301, 64, 65, 66, 67, 68)])
def test_beam_search_is_generates(kind, beams, ends):
    model, plain = tiny(kind), tiny(kind)
    pack(model)
    expected = [
        generated(
            plain, prompt, num_beams=beams, eos_token_id=list(ends), length_penalty=1.0, early_stopping=False
        )
        for prompt in PROMPTS
    ]
    assert decode(model, batch(ends=ends), BeamSearch(beams=beams)).tokens == expected
    assert decode(model, batch(PROMPTS[1:3], ends=ends), BeamSearch(beams=beams)).tokens == expected[1:3]
    rows._supported[plain] = False
    assert decode(plain, batch(ends=ends), BeamSearch(beams=beams)).tokens == expected


@every_kind
@pytest.mark.parametrize("power", [0.0, 0.5, 3.0, -1.0])
def test_a_length_penalty_is_generates(kind, power):
    """Of sums of logarithms, which are negative, a power above 0 prefers long texts."""
    model, ends = tiny(kind), (0, 7, 201, 33, 96, 12, 150, 171, 230, 301, 64, 65, 66, 67, 68)
    expected = [
        generated(
            model, prompt, num_beams=3, eos_token_id=list(ends), length_penalty=power, early_stopping=False
        )
        for prompt in PROMPTS
    ]
    pack(model)
    assert decode(model, batch(ends=ends), BeamSearch(beams=3, length_penalty=power)).tokens == expected


@every_kind
def test_contrastive_search_is_the_same_by_rows_by_tree_and_by_repetition(kind):
    strategy = ContrastiveSearch(k=6, alpha=0.6)
    model, plain = tiny(kind), tiny(kind)
    expected = slow_contrastive_search(plain, 6, 0.6)
    assert decode(model, batch(), strategy).tokens == expected
    rows._supported[plain] = False
    assert decode(plain, batch(), strategy).tokens == expected
    assert (obstacle_to_tree(plain, 64) is None) == (kind not in {"mistral", "qwen2-window"})


@torch.inference_mode()
def slow_contrastive_search(model, k: int, alpha: float) -> list[list[int]]:
    texts = []
    for prompt in PROMPTS:
        text = list(prompt)
        while len(text) < len(prompt) + STEPS and text[-1:] != [0]:
            p = model(input_ids=torch.tensor([text])).logits[0, -1].double().softmax(-1)
            candidates = sorted(range(len(p)), key=lambda v: (-float(p[v]), v))[:k]
            scores = []
            for v in candidates:
                output = model(input_ids=torch.tensor([[*text, v]]), output_hidden_states=True)
                h = torch.nn.functional.normalize(output.hidden_states[-1][0].double(), dim=-1)
                scores.append(float((1 - alpha) * p[v] - alpha * (h[:-1] @ h[-1]).max()))
            text.append(candidates[scores.index(max(scores))])
        texts.append(text[len(prompt) :])
    return texts


def test_a_cache_repeated_and_a_cache_kept_give_one_text():
    """Take the tree from a model that could have it, by a head whose logits it changes afterwards."""
    model = tiny("llama")
    rows._supported[model] = False
    expected = decode(model, batch(), ContrastiveSearch(k=4)).tokens
    forward = model.forward

    @functools.wraps(forward)
    def shifted(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = output.logits + 1  # no probability changes
        return output

    model.forward = shifted
    assert obstacle_to_tree(model, 10) == "it changes the logits after its head"
    session = PaddedSession(model, PROMPTS, STEPS, candidates=4)
    assert not session._tree
    assert decode(model, batch(), ContrastiveSearch(k=4)).tokens == expected


def test_a_model_without_a_cache_is_refused_by_name():
    model = AutoModelForCausalLM.from_config(OpenAIGPTConfig(vocab_size=320, n_embd=48, n_layer=1, n_head=4))
    with pytest.raises(StudyError, match=r"^greedy does not run on this OpenAIGPT\w+: it keeps no cache"):
        check(model, Greedy())


def test_a_running_state_is_refused_by_what_branches_and_taken_by_the_rest():
    config = Lfm2Config(
        **{**COMMON, "pad_token_id": 0},
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention", "conv"],
        initializer_range=0.35,
    )
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    assert not rows.supports(model)
    for strategy in (BeamSearch(), ContrastiveSearch()):
        with pytest.raises(
            StudyError, match=r"does not run on this Lfm2ForCausalLM: it keeps a running state"
        ):
            check(model, strategy)
    check(model, Greedy())
    expected = [generated(model, prompt) for prompt in PROMPTS]
    assert [decode(model, batch([prompt]), Greedy()).tokens[0] for prompt in PROMPTS] == expected
