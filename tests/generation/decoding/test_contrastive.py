"""Contrastive decoding at extreme values, and the degeneration penalty with padding."""

import pytest
import torch

from guard_eval.generation.decoding.contrastive import (
    Proposal,
    choose_candidate,
    compute_contrastive_scores,
    compute_degeneration_penalty,
    normalise_vectors,
)


def test_degeneration_penalty_ignores_padding():
    context = normalise_vectors(torch.tensor([[[3.0, 4.0], [0.0, 2.0], [5.0, 0.0]]]))
    candidates = normalise_vectors(torch.tensor([[[1.0, 0.0], [0.0, -1.0]]]))
    # cosines with (3,4)/5, (0,1), (1,0): .6 0 1 and −.8 −1 0
    penalty = compute_degeneration_penalty(candidates, context, torch.tensor([[True, True, False]]))
    assert penalty[0].tolist() == pytest.approx([0.6, -0.8])


def test_acs_never_chooses_candidates_beyond_k_t():
    # α = .6: .2 − .54 = −.34, .12 − .24 = −.12, .04 − .18 = −.14
    ids, p, alpha = torch.tensor([[8, 3, 5]]), torch.tensor([[0.5, 0.3, 0.1]]), torch.tensor([0.6]).double()
    penalty = torch.tensor([[0.9, 0.4, 0.3]])
    for allowed, best in (([True, True, True], 1), ([True, False, True], 2)):
        assert choose_candidate(Proposal(ids, p, torch.tensor([allowed]), alpha), penalty).tolist() == [best]


def test_contrastive_scores_ignore_a_shift_of_logits():
    expert = torch.tensor([[1.0, 2.0, 3.0]])
    amateur = torch.tensor([[3.0, 2.0, 1.0]])
    plain = compute_contrastive_scores(expert, amateur, alpha=0.01, amateur_tau=0.5)
    shifted = compute_contrastive_scores(expert + 64, amateur - 32, alpha=0.01, amateur_tau=0.5)
    assert shifted[0].tolist() == pytest.approx(plain[0].tolist(), abs=1e-5)


def test_contrastive_alpha_one_keeps_the_likeliest_token():
    scores = compute_contrastive_scores(
        torch.tensor([[1.0, 4.0, 3.9]]), torch.zeros(1, 3), alpha=1.0, amateur_tau=1.0
    )
    assert (scores > -torch.inf).tolist() == [[False, True, False]]


def test_contrastive_scores_mask_tokens_with_p_zero():
    expert = torch.tensor([[0.0, -torch.inf, 0.0]])
    amateur = torch.tensor([[0.0, 0.0, -torch.inf]])
    scores = compute_contrastive_scores(expert, amateur, alpha=0.1, amateur_tau=1.0)
    # p_expert = 1/2, p_amateur = 1/2
    assert scores.tolist() == [[pytest.approx(0, abs=1e-6), -torch.inf, -torch.inf]]
