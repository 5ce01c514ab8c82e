"""The newer truncations: by hand on small logits, and against transformers' warpers where it has one."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from stepping import Follower, kept, left
from transformers import EpsilonLogitsWarper, EtaLogitsWarper, TopHLogitsWarper

from guard_eval.decoding.noise import row_key
from guard_eval.strategies import (
    EpsilonSampling,
    EtaSampling,
    ExcludeTopChoices,
    MinK,
    Mirostat,
    PLess,
    TopH,
    TopNSigma,
    parse,
    update_state,
)

P = torch.tensor([[0.1, 0.4, 0.05, 0.2, 0.25]])
NONE = -torch.inf


WARPERS = {
    "epsilon": (lambda x: left(EpsilonSampling(epsilon=0.003), x), EpsilonLogitsWarper(0.003)),
    "eta": (lambda x: left(EtaSampling(epsilon=0.02), x), EtaLogitsWarper(0.02)),
    "top_h": (lambda x: left(TopH(alpha=0.4), x), TopHLogitsWarper(0.4)),
    "top_h, all": (lambda x: left(TopH(alpha=1.0), x), TopHLogitsWarper(1.0)),
}


@pytest.mark.parametrize("name", WARPERS)
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 6.0])
def test_equals_transformers(name: str, spread: float):
    ours, theirs = WARPERS[name]
    logits = torch.randn(60, 500, generator=torch.Generator().manual_seed(6)) * spread
    made, expected = ours(logits), theirs(None, logits.double())
    if name == "top_h, all":  # the last of the sum's terms is a question of its last digit
        assert ((made > NONE).sum(-1) - (expected > NONE).sum(-1)).abs().max() <= 1
        return
    assert torch.equal(made > NONE, expected > NONE)
    assert torch.equal(made[made > NONE], logits[made > NONE])


# What the authors' programs leave in of 120 logits 3 sin 1.7i + 2 cos .3i (or 9 sin 1.7i + 2 cos .3i), run
# in float64: john-hewitt/truncation-sampling src/warpers.py; p_less_samplers.py; top_nsigma
# eval_code/my_sampler.py; Top-H-Decoding logit_processor.py, of the first 100 (its undefined `bias` 0); what
# text-generation-webui's XTCLogitsWarper leaves out.
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
    "top_h": (
        lambda x: left(TopH(alpha=0.7), x[:, :100]),
        [1, 19, 20, 23, 38, 41, 42, 45, 60, 63, 64, 82, 86],
        [1, 23, 38, 60, 64, 82, 86],
    ),
    "xtc": (
        lambda x: (
            -left(ExcludeTopChoices(threshold=0.03, probability=1.0), x, keys=torch.tensor([1]), step=0)
        ),
        [1, 19, 23, 42, 45, 60, 64, 82, 86, 104, 108],
        [1, 23, 38, 60, 64, 82, 86, 108],
    ),
}


@pytest.mark.parametrize("name", AUTHORS)
def test_equals_the_authors_program(name: str):
    ours, *expected = AUTHORS[name]
    i = torch.arange(120, dtype=torch.float64)
    for height, tokens in zip((3, 9), expected, strict=True):
        made = ours((height * (1.7 * i).sin() + 2 * (0.3 * i).cos())[None].float())
        result = made == -NONE if name == "xtc" else made > NONE
        assert result[0].nonzero()[:, 0].tolist() == tokens


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


def test_min_k_by_hand():
    # l = 5 4.5 2 1 0: R = 5; w = .5/5, 2.5/10, 1/15, 1/20 = .1 .25 .067 .05: after the second
    logits = torch.tensor([[1.0, 5.0, 0.0, 4.5, 2.0]])
    assert kept(left(MinK(tau=3.0), logits)) == {1, 3}
    # l = 5 2 1 0: the first drop; and of an R of .5 and τ = 3 six would be left, of which there are four,
    # of τ = 1.1 two
    assert kept(left(MinK(tau=3.0), torch.tensor([[5.0, 2.0, 1.0, 0.0]]))) == {0}
    assert kept(left(MinK(tau=3.0), torch.tensor([[0.5, 0.2, 0.1, 0.0]]))) == {0, 1, 2, 3}
    assert kept(left(MinK(tau=1.1), torch.tensor([[0.5, 0.2, 0.1, 0.0]]))) == {0, 1}
    assert kept(left(MinK(tau=3.0), torch.tensor([[5.0, NONE, 4.9, 0.0, NONE]]))) == {0, 2}
    assert kept(left(MinK(tau=3), torch.zeros(1, 3))) == {0, 1, 2}
    assert kept(left(MinK(tau=3), torch.zeros(1, 1))) == {0}


def reference_min_k(row: list[float], tau: float) -> int:
    """Return k as the paper's Algorithm 1 has it, in Python's own numbers."""
    ordered = sorted(row, reverse=True)
    spread = ordered[0] - ordered[-1] + 1e-8
    drops = [(ordered[i - 1] - ordered[i]) / (i * spread) for i in range(1, len(ordered))]
    return max(1 + max(range(len(drops)), key=lambda i: (drops[i], -i)), min(len(row), int(tau / spread)))


def test_min_k_against_the_algorithm():
    logits = torch.randn(200, 40, generator=torch.Generator().manual_seed(4)) * torch.rand(200, 1) * 3
    made = (left(MinK(tau=3.0), logits) > NONE).sum(-1).tolist()
    assert made == [reference_min_k(row, 3.0) for row in logits.double().tolist()]
    assert len(set(made)) > 5


def test_min_k_cuts_before_the_temperature():
    logits = torch.randn(300, 40, generator=torch.Generator().manual_seed(4)) * 0.3
    keys = torch.arange(300)
    possible = left(MinK(tau=3.0), logits) > NONE
    for temperature in (0.3, 8.0):
        tokens = Follower(MinK(temperature=temperature), keys)(logits)
        assert possible.gather(1, tokens[:, None]).all()


def test_exclude_top_choices_by_hand():
    keys = torch.tensor([row_key(1, str(row), "xtc") for row in range(4000)])
    rows = P.log().expand(4000, -1)
    always = left(ExcludeTopChoices(threshold=0.15, probability=1.0), rows, keys=keys, step=0)
    assert kept(always) == {0, 2, 3}  # of .4 .25 .2 the least, .2, stays
    assert kept(left(ExcludeTopChoices(threshold=0.3, probability=1.0), rows, keys=keys, step=0)) == set(
        range(5)
    )  # one choice alone
    assert kept(left(ExcludeTopChoices(threshold=0.15, probability=0.0), rows, keys=keys, step=0)) == set(
        range(5)
    )
    half = left(ExcludeTopChoices(threshold=0.15, probability=0.5), rows, keys=keys, step=3)[:, 1] == NONE
    assert stats.binomtest(int(half.sum()), 4000, 0.5).pvalue > 0.01
    other = left(ExcludeTopChoices(threshold=0.15, probability=0.5), rows, keys=keys, step=4)[:, 1] == NONE
    assert not torch.equal(half, other)  # each step by itself


def test_the_coin_of_xtc_is_no_tokens_number():
    """Whether choices are left out says nothing about what is drawn of the others."""
    keys = torch.tensor([row_key(1, str(row), "xtc") for row in range(8000)])
    strategy = parse("xtc(threshold=0.15, probability=0.5)")
    tokens = Follower(strategy, keys)(P.log().expand(8000, -1))
    counts = torch.bincount(tokens, minlength=5).tolist()
    out = [0.1 / 0.35, 0, 0.05 / 0.35, 0.2 / 0.35, 0]
    expected = [8000 * (p / 2 + q / 2) for p, q in zip(P[0].tolist(), out, strict=True)]
    assert stats.chisquare(counts, [x * 8000 / sum(expected) for x in expected]).pvalue > 0.01


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
        lambda x, keys, mu: left(TopH(alpha=0.1), x),
        lambda x, keys, mu: left(MinK(tau=3.0), x),
        lambda x, keys, mu: left(ExcludeTopChoices(threshold=0.1, probability=0.7), x, keys=keys, step=2),
        lambda x, keys, mu: left(Mirostat(), x, state=mu[:, None]),
    ):
        made = one(logits, keys, mu)
        assert (made > NONE).any(-1).all()
        assert not made.isnan().any()
        assert ((made == logits) | (made == NONE)).all()
        for row in range(len(rows)):
            alone = one(logits[row, None], keys[row, None], mu[row, None])
            assert kept(alone) == kept(made, row)
