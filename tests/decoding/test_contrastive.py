"""Contrastive search's score and ACS's k_t and α_t against numbers worked by hand."""

import math

import pytest
import torch

from guard_eval.decoding import contrastive as cs
from guard_eval.strategies import AdaptiveContrastiveSearch

CPU = torch.device("cpu")


def test_penalty_is_the_largest_cosine_among_what_is_there():
    context = cs.unit(torch.tensor([[[3.0, 4.0], [0.0, 2.0], [5.0, 0.0]]]))
    candidates = cs.unit(torch.tensor([[[1.0, 0.0], [0.0, -1.0]]]))
    # cosines with (3,4)/5, (0,1), (1,0): .6 0 1 and −.8 −1 0
    everything = torch.tensor([[True, True, True]])
    assert cs.degeneration_penalty(candidates, context, everything)[0].tolist() == pytest.approx([1, 0])
    no_last = torch.tensor([[True, True, False]])
    assert cs.degeneration_penalty(candidates, context, no_last)[0].tolist() == pytest.approx([0.6, -0.8])


def proposal(alpha: float, allowed: tuple[bool, ...] = (True, True, True)) -> cs.Proposal:
    return cs.Proposal(
        torch.tensor([[8, 3, 5]]),
        torch.tensor([[0.5, 0.3, 0.1]]),
        torch.tensor([allowed]),
        torch.tensor([alpha], dtype=torch.float64),
    )


def test_score_weighs_probability_against_penalty():
    penalty = torch.tensor([[0.9, 0.4, 0.3]])
    # α = .6: .2 − .54 = −.34, .12 − .24 = −.12, .04 − .18 = −.14
    assert cs.choose(proposal(0.6), penalty).tolist() == [1]
    assert cs.choose(proposal(0.6, (True, False, True)), penalty).tolist() == [2]
    assert cs.choose(proposal(0.0), penalty).tolist() == [0]
    assert cs.choose(proposal(1.0), penalty).tolist() == [2]
    assert cs.choose(proposal(1.0), torch.tensor([[0.5, 0.5, 0.5]])).tolist() == [1]  # ids 8, 3, 5


def test_deviation():
    # med(1, 4, 2) = 2; (3 − 2) / 2 = 1/2; 2 arctanh(1/2) = ln 3
    f64 = torch.float64
    now, earlier = torch.tensor([3.0], dtype=f64), torch.tensor([[1.0, 4.0, 2.0]], dtype=f64)
    assert cs.deviation(now, earlier, 2.0, 2.0).tolist() == pytest.approx([math.log(3)])
    assert cs.deviation(now, earlier[:, :0], 2.0, 2.0).tolist() == [0]


def test_adaptive_proposals_of_two_steps_by_hand():
    """First flat over 20 tokens, then half of the mass on one token."""
    propose = cs.Proposer(AdaptiveContrastiveSearch(q=1), 1, 2, CPU)
    flat = propose(torch.zeros(1, 20), 0)
    assert flat.ids.tolist() == [list(range(10))]
    assert flat.allowed.tolist() == [[True] * 10]
    assert flat.alpha.tolist() == [0.5]
    assert flat.probabilities[0].tolist() == pytest.approx([0.05] * 10)

    p = [0.5] + [0.5 / 19] * 19
    h = -0.5 * math.log(0.5) - 0.5 * math.log(0.5 / 19)
    x = math.atanh((h - math.log(20)) / math.log(20))
    k = round(10 / (1 + math.exp(-x)) + 5)
    assert k == 9  # h = 2.165, x = −.285, 10 · .429 + 5 = 9.29
    mass = 0.5 + 8 * p[1]
    inside = -(0.5 / mass) * math.log(0.5 / mass) - 8 * (p[1] / mass) * math.log(p[1] / mass)
    # the step before: ten equal tokens, ln 10
    y = math.atanh((inside - math.log(10)) / math.log(9))
    second = propose(torch.tensor([p]).log(), 1)
    assert second.ids.tolist() == [list(range(9))]
    assert second.allowed.tolist() == [[True] * 9]
    assert second.alpha.tolist() == pytest.approx([round(1 / (1 + math.exp(-y)), 2)])


def test_an_experts_scores_by_hand():
    expert = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    amateur = torch.tensor([[0.4, 0.1, 0.3, 0.2]])
    # with τ = 1/2 the amateur's p are squares .16 .01 .09 .04 over .3; α = .2 asks for p ≥ .1
    scores = cs.contrast(expert.log(), amateur.log(), alpha=0.2, amateur_tau=0.5)[0].tolist()
    ratios = [0.5 / (0.16 / 0.3), 0.3 / (0.01 / 0.3), 0.15 / (0.09 / 0.3)]
    assert scores[:3] == pytest.approx([math.log(ratio) for ratio in ratios], abs=1e-5)
    assert scores[3] == -torch.inf


def test_shifted_logits_score_the_same():
    expert = torch.tensor([[1.0, 2.0, 3.0]])
    amateur = torch.tensor([[3.0, 2.0, 1.0]])
    plain = cs.contrast(expert, amateur, alpha=0.01, amateur_tau=0.5)
    shifted = cs.contrast(expert + 64, amateur - 32, alpha=0.01, amateur_tau=0.5)
    assert shifted[0].tolist() == pytest.approx(plain[0].tolist(), abs=1e-5)


def test_alpha_one_leaves_the_most_likely_alone():
    scores = cs.contrast(torch.tensor([[1.0, 4.0, 3.9]]), torch.zeros(1, 3), alpha=1.0, amateur_tau=1.0)
    assert (scores > -torch.inf).tolist() == [[False, True, False]]


def test_what_either_rules_out_does_not_come():
    expert = torch.tensor([[0.0, -torch.inf, 0.0]])
    amateur = torch.tensor([[0.0, 0.0, -torch.inf]])
    scores = cs.contrast(expert, amateur, alpha=0.1, amateur_tau=1.0)
    # p_expert = 1/2, p_amateur = 1/2
    assert scores.tolist() == [[pytest.approx(0, abs=1e-6), -torch.inf, -torch.inf]]
