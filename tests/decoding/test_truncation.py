"""The newer truncations: by hand on small logits, and against transformers' warpers where it has one."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stepping import Follower, kept, left
from transformers import EpsilonLogitsWarper, EtaLogitsWarper

from guard_eval.decoding.noise import row_key
from guard_eval.strategies import (
    EpsilonSampling,
    EtaSampling,
    Mirostat,
    PLess,
    TopNSigma,
    update_state,
)

P = torch.tensor([[0.1, 0.4, 0.05, 0.2, 0.25]])
NONE = -torch.inf


WARPERS = {
    "epsilon": (lambda x: left(EpsilonSampling(epsilon=0.003), x), EpsilonLogitsWarper(0.003)),
    "eta": (lambda x: left(EtaSampling(epsilon=0.02), x), EtaLogitsWarper(0.02)),
}


@pytest.mark.parametrize("name", WARPERS)
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 6.0])
def test_equals_transformers(name: str, spread: float):
    ours, theirs = WARPERS[name]
    logits = torch.randn(60, 500, generator=torch.Generator().manual_seed(6)) * spread
    made, expected = ours(logits), theirs(None, logits.double())
    assert torch.equal(made > NONE, expected > NONE)
    assert torch.equal(made[made > NONE], logits[made > NONE])


# What the authors' programs leave in of 120 logits 3 sin 1.7i + 2 cos .3i (or 9 sin 1.7i + 2 cos .3i), run
# in float64: john-hewitt/truncation-sampling src/warpers.py; p_less_samplers.py; top_nsigma
# eval_code/my_sampler.py.
AUTHORS = {
    "epsilon": (
        lambda x: left(EpsilonSampling(epsilon=0.02), x),
        [1, 19, 20, 23, 38, 41, 42, 45, 60, 64, 82, 86, 101, 104, 105, 108],
        [1, 23, 38, 42, 45, 60, 64, 82, 86, 101, 104, 108],
    ),
    "eta": (
        lambda x: left(EtaSampling(epsilon=0.3), x),
        [1, 19, 20, 23, 38, 41, 42, 45, 60, 64, 82, 86, 101, 104, 105, 108],
        [1, 23, 38, 60, 64, 82, 86, 108],
    ),
    "p_less": (lambda x: left(PLess(), x), [1, 23, 42, 60, 64, 82, 86, 104], [1, 23, 60, 86]),
    "top_n_sigma": (
        lambda x: left(TopNSigma(n=0.5), x),
        [1, 19, 23, 38, 42, 45, 60, 64, 82, 86, 104, 105, 108],
        [1, 16, 19, 23, 27, 38, 42, 45, 49, 60, 64, 82, 86, 97, 101, 104, 108, 119],
    ),
}


@pytest.mark.parametrize("name", AUTHORS)
def test_equals_the_authors_program(name: str):
    ours, *expected = AUTHORS[name]
    i = torch.arange(120, dtype=torch.float64)
    for height, tokens in zip((3, 9), expected, strict=True):
        made = ours((height * (1.7 * i).sin() + 2 * (0.3 * i).cos())[None].float())
        assert (made > NONE)[0].nonzero()[:, 0].tolist() == tokens


def test_mirostat_equals_the_authors_formulas():
    """Their `estimate_s` and `compute_k`, of the 100 likeliest and V = 120: 1, 2, 12, and 2, 4, 15 tokens."""
    i, mu = torch.arange(120, dtype=torch.float64), torch.tensor([2.0, 4.0, 6.0]).double()
    for height, k in ((3, [1, 2, 12]), (9, [2, 4, 15])):
        logits = (height * (1.7 * i).sin() + 2 * (0.3 * i).cos()).float().expand(3, -1)
        assert (left(Mirostat(), logits, state=mu[:, None]) > NONE).sum(-1).tolist() == k


def test_p_less_by_hand():
    # Σ p² = .01 + .16 + .0025 + .04 + .0625 = .275
    assert kept(left(PLess(), P.log())) == {1}
    # .09 · 3 + .01 = .28: all three of .3
    assert kept(left(PLess(), torch.tensor([[0.3, 0.3, 0.3, 0.1]]).log())) == {0, 1, 2}
    assert kept(left(PLess(), torch.zeros(1, 7))) == set(range(7))  # Σ p² = 1/7 = p
    assert kept(left(PLess(), torch.tensor([[NONE, 3.0, NONE]]))) == {1}


def test_top_n_sigma_by_hand():
    # mean 2, squares 4 + 1 + 0 + 1 + 4 = 10, over n − 1 = 4: σ = 1.5811; 4 − σ = 2.4189, 4 − 2σ = .8377
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0]])
    assert kept(left(TopNSigma(n=1.0), logits)) == {3, 4}
    assert kept(left(TopNSigma(n=2.0), logits)) == {1, 2, 3, 4}
    # what cannot come does not count
    banned = torch.cat([logits, torch.full((1, 3), NONE)], 1)
    assert kept(left(TopNSigma(n=1.0), banned)) == {3, 4}
    assert kept(left(TopNSigma(n=1.0), torch.tensor([[NONE, 1.0]]))) == {1}


def test_mirostat_of_an_exact_zipf_law():
    # p_i ∝ i^−s gives s back: with s = 2 and V = 50, k = (2^μ / (1 − 1/50))^½
    ranks = torch.arange(1, 51, dtype=torch.float64)
    for mu, k in ((3.0, round(math.sqrt(8 / 0.98)) + 1), (6.0, round(math.sqrt(64 / 0.98)) + 1)):
        made = left(Mirostat(), (-2 * ranks.log())[None], state=torch.tensor([[mu]]).double())
        assert kept(made) == set(range(k))
    # at s = 1 the limit holds: k = 2^μ / ln V
    made = left(Mirostat(), (-ranks.log())[None], state=torch.tensor([[5.0]]).double())
    assert kept(made) == set(range(round(32 / math.log(50)) + 1))


def test_mu_by_hand():
    # p = .25 is a surprise of 2 bits: 6 − .5 (2 − 3) = 6.5
    mu = torch.tensor([[6.0]]).double()
    update_state(Mirostat(tau=3, eta=0.5), mu, P.log(), torch.tensor([4]))
    assert mu.item() == pytest.approx(6.5)


def test_mirostat_holds_the_surprise():
    """Over a long text the mean surprise comes to the target; without a memory it would not."""
    logits = torch.randn(500, 600, generator=torch.Generator().manual_seed(9)) * 3
    log_p = logits.double().log_softmax(-1)
    key = torch.tensor([row_key(1, "a", "mirostat")])
    for target in (2.5, 4.0):
        choose, surprise = Follower(Mirostat(tau=target, eta=0.3), key), []
        for step in range(500):
            token = choose(logits[step][None])
            surprise.append(-log_p[step, token].item() / math.log(2))
        assert sum(surprise) / 500 == pytest.approx(target, abs=0.15)


@given(
    rows=st.lists(st.lists(st.floats(-30, 30, width=32), min_size=6, max_size=6), min_size=2, max_size=4),
    banned=st.integers(0, 5),
)
def test_one_token_stays_and_rows_do_not_meet(rows, banned):
    logits = torch.tensor(rows)
    logits[0, :banned] = NONE
    keys = torch.arange(len(rows))
    mu = torch.linspace(-50, 80, len(rows), dtype=torch.float64)
    for one in (
        lambda x, keys, mu: left(EpsilonSampling(epsilon=0.3), x),
        lambda x, keys, mu: left(EtaSampling(epsilon=0.3), x),
        lambda x, keys, mu: left(PLess(), x),
        lambda x, keys, mu: left(TopNSigma(n=0.1), x),
        lambda x, keys, mu: left(Mirostat(), x, state=mu[:, None]),
    ):
        made = one(logits, keys, mu)
        assert (made > NONE).any(-1).all()
        assert not made.isnan().any()
        assert ((made == logits) | (made == NONE)).all()
        for row in range(len(rows)):
            alone = one(logits[row, None], keys[row, None], mu[row, None])
            assert kept(alone) == kept(made, row)
