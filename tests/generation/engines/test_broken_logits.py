"""Logits and hidden states that are NaN are reported with prompt and step."""

import pytest
import torch
from tiny_models import tiny
from written_texts import continue_rows

PROMPTS = [[5, 9, 200, 31], [7, 8], [12, 13, 14, 15, 16, 17]]
BAD = 1
STEPS = 10
STRATEGIES = [
    "greedy", "beam(beams=3)", "temperature", "top_k", "top_p", "typical", "min_p", "adaptive",
    "acs", "guard", "contrastive(k=4)", "contrastive_decoding(beams=3)",
    "guard(formulation=released, select=sample)",
]  # fmt: skip
VALUES = {"nan": (torch.nan, 3), "+inf": (torch.inf, 3), "nothing": (-torch.inf, None)}


class Breaking:
    """A model's output layer that gives bad logits for some rows from a step on.

    The model's abilities are tried before, with a text by the strategy.
    """

    def __init__(self, model, value, column, after, *, strategy, amateur=None):
        run(model, PROMPTS, strategy, amateur)
        self.value, self.column, self.after, self.calls = value, column, after, 0
        self.choose_rows = lambda rows: slice(len(rows))
        self.handle = model.get_output_embeddings().register_forward_hook(self)

    def __call__(self, _module, _inputs, logits):
        self.calls += 1
        if self.calls <= self.after:
            return logits
        logits = logits.clone()
        rows = logits.view(-1, logits.shape[-1])
        rows[self.choose_rows(rows)] = self.broken(rows[self.choose_rows(rows)])
        return logits

    def broken(self, row):
        if self.column is None:
            return torch.full_like(row, self.value)
        row = row.clone()
        row[..., self.column] = self.value
        return row


def run(model, prompts, strategy, amateur=None):
    return continue_rows(model, prompts, strategy, ends=(), limit=STEPS, amateur=amateur)


@pytest.mark.parametrize(
    ("strategy", "value", "after"),
    [
        *((name, "nan", 4) for name in STRATEGIES),
        ("guard", "+inf", 0),
        ("acs", "nothing", 0),
        ("top_p", "nothing", 4),
    ],
)
def test_step_with_broken_logits_is_reported(strategy, value, after):
    """The logits of a single text are NaN from the first or from a later step on."""
    model, amateur = tiny("llama"), tiny("gpt2")
    Breaking(model, *VALUES[value], after, strategy=strategy, amateur=amateur)
    assert run(model, PROMPTS[:1], strategy, amateur).failed_at == [after]


@pytest.mark.parametrize(
    ("strategy", "value"),
    [("greedy", "nan"), ("top_p", "nothing"), ("acs", "+inf"), ("guard", "nan"), ("beam(beams=1)", "nan")],
)
def test_broken_logits_of_a_text_do_not_change_other_texts(strategy, value):
    whole = run(tiny("llama"), PROMPTS, strategy)
    model = tiny("llama")
    breaking = Breaking(model, *VALUES[value], 2, strategy=strategy)
    breaking.choose_rows = lambda rows: slice(BAD, BAD + 1) if len(rows) == len(PROMPTS) else slice(0, 0)
    result = run(model, PROMPTS, strategy)
    assert result.failed_at == [None, 2, None]
    for row in (0, 2):
        assert result.tokens[row] == whole.tokens[row]


def test_broken_logits_of_an_amateur_are_reported():
    expert, amateur = tiny("llama"), tiny("gpt2")
    strategy = "contrastive_decoding(beams=3)"
    run(expert, PROMPTS, strategy, amateur)
    Breaking(amateur, torch.nan, 3, 3, strategy="greedy")
    assert run(expert, PROMPTS[:1], strategy, amateur).failed_at == [3]


def test_broken_logits_of_a_second_beam_are_reported():
    """Token 9 has a NaN embedding, so the hypothesis that writes it is broken, whatever its rank."""
    clean = tiny("llama")
    first = run(clean, PROMPTS[:1], "greedy").tokens[0][0]
    with torch.inference_mode():
        second = int(clean(torch.tensor(PROMPTS[:1])).logits[0, -1].topk(2).indices[1])
    assert first != second
    model = tiny("llama")
    with torch.no_grad():
        model.get_input_embeddings().weight[second] = torch.nan
    assert run(model, PROMPTS[:1], "beam(beams=2)").failed_at == [1]


@pytest.mark.parametrize("strategy", ["contrastive(k=4)", "acs"])
def test_broken_hidden_state_of_a_candidate_is_reported(strategy):
    """The logits of a candidate are computed only if it is chosen, and comparisons with NaN are false."""
    model = tiny("llama")
    with torch.inference_mode():
        likely = model(torch.tensor(PROMPTS[:1])).logits[0, -1].topk(4).indices
    with torch.no_grad():
        model.get_input_embeddings().weight[likely[-1]] = torch.nan
    assert run(model, PROMPTS[:1], strategy).failed_at == [0]
