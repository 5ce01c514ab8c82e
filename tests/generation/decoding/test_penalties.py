"""Penalties equal hand arithmetic, transformers' processors and plain loops."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stepping import logits_after
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from guard_eval.generation.decoding import penalties
from guard_eval.generation.strategies import Dry

V = 12


def texts(length, rows=20, seed=0):
    return torch.randint(0, V, (rows, length), generator=torch.Generator().manual_seed(seed))


def logits(rows=20):
    return torch.randn(rows, V, generator=torch.Generator().manual_seed(1)) * 2


@pytest.mark.parametrize("theta", [0.8, 1.2, 1.9])
def test_repetition_penalty_equals_transformers(theta):
    tokens = texts(6)
    penalised = logits_after(f"repetition_penalty(penalty={theta})", logits(), tokens=tokens)
    assert torch.equal(penalised, RepetitionPenaltyLogitsProcessor(theta)(tokens, logits()))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [1, 3, 9, 60])
def test_no_repeat_ngram_equals_transformers(n, length):
    tokens = texts(length) % 5
    penalised = logits_after(f"no_repeat_ngram(n={n})", logits(), tokens=tokens)
    assert torch.equal(penalised, NoRepeatNGramLogitsProcessor(n)(tokens, logits()))


def test_no_repeat_ngram_never_masks_all_tokens():
    everything = torch.arange(V)[None]
    assert torch.equal(logits_after("no_repeat_ngram(n=1)", logits(1), tokens=everything), logits(1))


def test_count_penalties_equal_hand_arithmetic():
    written = torch.tensor([[3, 3, 5, -1], [-1, -1, -1, -1]])
    start = torch.zeros(2, V)
    often = logits_after("frequency_penalty(penalty=0.5)", start, written=written)
    assert {n: often[0, n].item() for n in range(V) if often[0, n]} == {3: -1.0, 5: -0.5}
    once = logits_after("presence_penalty(penalty=0.5)", start, written=written)
    assert {n: once[0, n].item() for n in range(V) if once[0, n]} == {3: -0.5, 5: -0.5}
    assert not often[1].any()
    assert not once[1].any()


def slow_dry(text, *, multiplier, base, allowed_length):
    """Return DRY's penalty of each token, by a comparison of lists."""
    longest = {}
    for index in range(1, len(text)):
        for n in range(1, min(index, penalties.LONGEST_MATCH) + 1):
            if text[index - n : index] == text[len(text) - n :]:
                longest[text[index]] = max(n, longest.get(text[index], 0))
    return {
        token: multiplier * base ** (n - allowed_length)
        for token, n in longest.items()
        if n >= allowed_length
    }


@given(
    rows=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=25), min_size=1, max_size=4),
    allowed=st.integers(1, 4),
)
def test_dry_equals_a_search_in_python_lists(rows, allowed):
    width = max(map(len, rows))
    tokens = torch.tensor([[-1] * (width - len(row)) + row for row in rows])
    settings = {"multiplier": 0.8, "base": 1.5, "allowed_length": allowed}
    penalised = logits_after(Dry(**settings), torch.zeros(len(rows), V), tokens=tokens)
    for row, text in enumerate(rows):
        expected = slow_dry(text, **settings)
        assert {n: -penalised[row, n].item() for n in range(V) if penalised[row, n]} == pytest.approx(
            expected
        )


def test_dry_penalty_of_a_long_loop_is_finite():
    loop = torch.tensor([[1, 2] * 200])
    penalised = logits_after(Dry(multiplier=100, base=1e9, allowed_length=1), torch.zeros(1, V), tokens=loop)
    assert penalised.isfinite().all()
    assert penalised[0, 1] < -1e30
    assert penalised[0, 2] == 0


def test_penalties_ignore_padding():
    tokens = torch.tensor([[-1, -1, 3, 4, 3]])
    short = torch.tensor([[3, 4, 3]])
    for step in (
        lambda x: logits_after("repetition_penalty(penalty=1.5)", logits(1), tokens=x),
        lambda x: logits_after("frequency_penalty(penalty=1.5)", logits(1), written=x),
        lambda x: logits_after("no_repeat_ngram(n=2)", logits(1), tokens=x),
        lambda x: logits_after("dry(multiplier=1, base=2, allowed_length=1)", logits(1), tokens=x),
    ):
        assert torch.equal(step(tokens), step(short))
        assert not torch.equal(step(tokens), logits(1))
        assert torch.equal(step(torch.full((1, 4), -1)), logits(1))  # nothing yet
        beyond_vocabulary = torch.full((1, 3), V + 3)
        assert torch.equal(step(beyond_vocabulary), logits(1))
