"""The order of candidates equals a stable sort of the vocabulary, also for equal scores."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.generation.decoding.candidates import find_best_score_index, find_top_candidates


@pytest.mark.parametrize("vocabulary", [1, 7, 15, 128, 129, 1000, 2048, 5000, 40_001])
@pytest.mark.parametrize("n", [1, 5, 15, 50])
def test_top_candidates_equal_a_stable_sort_with_ties(vocabulary, n):
    generator = torch.Generator().manual_seed(vocabulary)
    logits = (torch.randn(4, vocabulary, generator=generator) * 3).bfloat16().float()
    logits[1] = 0.5  # everything ties
    logits[2] = logits[2].round()
    logits[3, : vocabulary // 2] = -torch.inf
    for scores in (logits, torch.randn(2, vocabulary, generator=generator)):
        values, ids = find_top_candidates(scores, n)
        expected = torch.sort(scores, dim=-1, descending=True, stable=True)
        assert torch.equal(ids, expected.indices[:, :n])
        assert torch.equal(values, expected.values[:, :n])


@given(
    st.lists(st.sampled_from([-torch.inf, -2.5, -0.0, 0.0, 1e-45, 3.25, 3.4e38]), min_size=1, max_size=300)
)
def test_top_candidates_are_sorted_by_score_and_id(row):
    _, ids = find_top_candidates(torch.tensor([row]), 15)
    by_hand = sorted(range(len(row)), key=lambda token: (-row[token], token))
    assert ids[0].tolist() == by_hand[:15]


def test_smallest_id_wins_among_equal_scores():
    scores = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, -torch.inf]])
    ids = torch.tensor([[4, 9, 6, 1], [3, 2, 8, 0]])
    assert find_best_score_index(scores, ids).tolist() == [2, 1]
