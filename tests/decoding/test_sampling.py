"""What each strategy leaves in, by hand, and how often tokens are drawn, against exact probabilities."""

import pytest
import torch
from scipy import stats
from torch import Tensor

from guard_eval.decoding import sampling
from guard_eval.decoding.choosers import chooser
from guard_eval.decoding.noise import row_key
from guard_eval.strategies import Greedy, Temperature, TopK, TopP

P = torch.tensor([[0.1, 0.4, 0.05, 0.2, 0.25]])


def kept(pair: tuple[Tensor, Tensor]) -> set[int]:
    weights, ids = pair
    return set(ids[0][weights[0] > -torch.inf].tolist())


def test_top_k():
    assert kept(sampling.top_k(P.log(), 1)) == {1}
    assert kept(sampling.top_k(P.log(), 3)) == {1, 4, 3}
    assert kept(sampling.top_k(P.log(), 50)) == {0, 1, 2, 3, 4}


def test_top_p_takes_the_token_that_reaches_p():
    # in order .4 .25 .2 .1 .05, summing to .4 .65 .85 .95 1
    assert kept(sampling.top_p(P.log(), 0.3)) == {1}
    assert kept(sampling.top_p(P.log(), 0.6)) == {1, 4}
    assert kept(sampling.top_p(P.log(), 0.7)) == {1, 4, 3}
    assert kept(sampling.top_p(P.log(), 0.9)) == {1, 4, 3, 0}
    assert kept(sampling.top_p(P.log(), 1.0)) == {0, 1, 2, 3, 4}
    assert kept(sampling.top_p(P.log(), 1e-9)) == {1}


def test_top_p_of_exact_sums():
    # 1/2 + 1/4 reaches 3/4 exactly, so nothing more is needed
    eighths = torch.tensor([[0.5, 0.25, 0.125, 0.125]])
    assert kept(sampling.top_p(eighths.log(), 0.75)) == {0, 1}
    assert kept(sampling.top_p(eighths.log(), 0.875)) == {0, 1, 2}


def test_equal_probabilities_stay_in_by_id():
    flat = torch.zeros(1, 8)
    assert kept(sampling.top_k(flat, 3)) == {0, 1, 2}
    assert kept(sampling.top_p(flat, 0.5)) == {0, 1, 2, 3}


def test_top_p_one_keeps_a_long_tail():
    logits = torch.randn(4, 50_000, generator=torch.Generator().manual_seed(0))
    weights, _ = sampling.top_p(logits, 1.0)
    assert (weights > -torch.inf).all()


def test_temperature_sharpens():
    weights, ids = sampling.temperature(P.log(), 0.5)  # squares: .01 .16 .0025 .04 .0625, of .275
    assert ids.tolist() == [[0, 1, 2, 3, 4]]
    assert weights.softmax(-1)[0].tolist() == pytest.approx(
        [0.01 / 0.275, 0.16 / 0.275, 0.0025 / 0.275, 0.04 / 0.275, 0.0625 / 0.275]
    )


def test_a_temperature_near_zero_is_greedy():
    keys = torch.arange(100)
    tokens = chooser(Temperature(tau=1e-40), keys, 1)(P.log().expand(100, -1), 0, torch.zeros(100, 1).long())
    assert set(tokens.tolist()) == {1}


def test_truncation_is_in_float32():
    weights, _ = sampling.top_p(P.log().bfloat16(), 0.9)
    assert weights.dtype == torch.float32
    assert sampling.temperature(P.bfloat16(), 0.7)[0].dtype == torch.float32


ROWS = 20_000
KEYS = torch.tensor([row_key(11, str(row), "any") for row in range(ROWS)])


@pytest.mark.parametrize(
    ("strategy", "exact"),
    [
        (Temperature(tau=1.0), [0.1, 0.4, 0.05, 0.2, 0.25]),
        (Temperature(tau=0.5), [0.01 / 0.275, 0.16 / 0.275, 0.0025 / 0.275, 0.04 / 0.275, 0.0625 / 0.275]),
        (TopK(k=3), [0, 0.4 / 0.85, 0, 0.2 / 0.85, 0.25 / 0.85]),
        (TopP(p=0.9), [0.1 / 0.95, 0.4 / 0.95, 0, 0.2 / 0.95, 0.25 / 0.95]),
    ],
    ids=str,
)
@pytest.mark.parametrize("step", [0, 5])
def test_tokens_are_drawn_as_often_as_they_should(strategy, exact: list[float], step: int):
    history = torch.zeros(ROWS, 10, dtype=torch.long)
    tokens = chooser(strategy, KEYS, 10)(P.log().expand(ROWS, -1), step, history)
    counts = torch.bincount(tokens, minlength=5)
    possible = [token for token in range(5) if exact[token] > 0]
    assert counts[possible].sum() == ROWS
    expected = [ROWS * exact[token] for token in possible]
    assert stats.chisquare(counts[possible].numpy(), expected).pvalue > 0.01


def test_greedy_takes_the_first_of_equals():
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    assert chooser(Greedy(), torch.zeros(2).long(), 1)(logits, 0, torch.zeros(2, 1).long()).tolist() == [1, 0]
