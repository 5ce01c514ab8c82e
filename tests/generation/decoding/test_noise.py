"""The random numbers follow the published algorithm, are uniform, and do not depend on the batch."""

import pytest
import torch
from scipy import stats

from guard_eval.generation.decoding.noise import (
    compute_splitmix64_numbers,
    draw_tokens,
    draw_uniform_numbers,
    make_row_key,
    map_to_unit_interval,
)

IDS = torch.arange(2000)[None]


def keys(*names, seed=1):
    return torch.tensor([make_row_key(seed, name, "top_k(k=50)") for name in names])


def test_random_numbers_equal_published_splitmix64():
    # The first numbers of the stream with seed 1234567, as published with Vigna's splitmix64.c test vectors.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    ours = compute_splitmix64_numbers(torch.tensor([1234567]), torch.arange(4)[None])[0].tolist()
    assert [number % 2**64 for number in ours] == published


@pytest.mark.slow
def test_random_numbers_are_uniform():
    over_tokens = draw_uniform_numbers(keys("a", "b"), 0, torch.arange(50_000).expand(2, -1)).flatten()
    over_steps = torch.cat(
        [draw_uniform_numbers(keys("a"), step, torch.tensor([[17]])) for step in range(2000)]
    ).flatten()
    over_prompts = draw_uniform_numbers(
        keys(*map(str, range(20_000))), 3, torch.full((20_000, 1), 5)
    ).flatten()
    for numbers in (over_tokens, over_steps, over_prompts):
        assert numbers.min() > 0
        assert numbers.max() < 1
        assert stats.kstest(numbers.numpy(), "uniform").pvalue > 0.01


def test_uniform_random_numbers_exclude_zero_and_one():
    ends = map_to_unit_interval(torch.tensor([0, 2**12 - 1, 2**12, -1, -(2**63)]))  # -1: every bit set
    assert ends.tolist() == [2**-53, 2**-53, 3 * 2**-53, 1 - 2**-53, 0.5 + 2**-53]
    assert (-(-ends.log()).log()).isfinite().all()


def test_random_numbers_do_not_depend_on_the_batch():
    both = draw_uniform_numbers(keys("a", "b"), 9, IDS.expand(2, -1))
    assert torch.equal(draw_uniform_numbers(keys("b"), 9, IDS)[0], both[1])
    assert torch.equal(draw_uniform_numbers(keys("b", "a"), 9, IDS.expand(2, -1)), both.flip(0))
    shuffled = torch.randperm(2000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(draw_uniform_numbers(keys("a"), 9, shuffled[None])[0], both[0][shuffled])
    assert not torch.equal(both[0], both[1])
    assert not torch.equal(draw_uniform_numbers(keys("a", seed=2), 9, IDS), both[:1])


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_draw_takes_the_largest_log_weight_plus_gumbel_noise(share, rows):
    """For few or many tokens, in any number of rows, the draw equals a draw with noise for every token."""
    source = torch.Generator().manual_seed(rows)
    weights = torch.randn(rows, 3000, generator=source)
    weights[torch.rand(rows, 3000, generator=source) > share] = -torch.inf
    weights[:, 7] = 0.5
    seeds = keys(*map(str, range(rows)))
    every = torch.arange(3000).expand(rows, -1)
    expected = (weights.double() - (-draw_uniform_numbers(seeds, 4, every).log()).log()).argmax(-1)
    assert torch.equal(draw_tokens(weights, seeds, 4), expected)
