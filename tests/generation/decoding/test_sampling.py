"""The tokens that each strategy keeps equal hand arithmetic, and draws follow the exact probabilities."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from stepping import Follower, context, logits_after, tokens_kept
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from guard_eval.generation.decoding import sampling
from guard_eval.generation.decoding.noise import make_row_key
from guard_eval.generation.decoding.processor import choose_tokens
from guard_eval.generation.strategies import parse

P = torch.tensor([[0.1, 0.4, 0.05, 0.2, 0.25]])
NONE = -torch.inf


def test_top_p_stops_at_a_sum_of_exactly_p():
    # 1/2 + 1/4 reaches 3/4 exactly, so nothing more is needed
    eighths = torch.tensor([[0.5, 0.25, 0.125, 0.125]])
    assert tokens_kept(logits_after("top_p(p=0.75)", eighths.log())) == {0, 1}
    assert tokens_kept(logits_after("top_p(p=0.875)", eighths.log())) == {0, 1, 2}


def test_truncation_breaks_ties_by_token_id():
    flat = torch.zeros(1, 8)
    assert tokens_kept(logits_after("top_k(k=3)", flat)) == {0, 1, 2}
    assert tokens_kept(logits_after("top_p(p=0.5)", flat)) == {0, 1, 2, 3}
    assert tokens_kept(logits_after("typical(tau=0.5)", flat)) == {0, 1, 2, 3}
    assert tokens_kept(logits_after("min_p(p=1.0)", flat)) == set(range(8))


def test_top_p_one_keeps_every_token():
    logits = torch.randn(4, 50_000, generator=torch.Generator().manual_seed(0))
    assert (logits_after("top_p(p=1.0)", logits) > -torch.inf).all()


def test_confidence_gain_equals_hand_arithmetic():
    """Four tokens with p = 1/2, 1/4, 1/8, 1/8, so R_k = 1/2, 1/4, 1/8, 0; ln 4 is twice ln 2."""
    p = torch.tensor([[1 / 2, 1 / 4, 1 / 8, 1 / 8]]).double()
    log2 = math.log2
    by_hand = [
        (-1 / 2 + 1 / 2 * log2(1 / 2 / 3) - 1 * log2(1 / 4)) / 2,
        (-1 / 2 + 1 / 4 * log2(1 / 4 / 2) - 1 / 2 * log2(1 / 2 / 3)) / 2,
        (-3 / 8 + 1 / 8 * log2(1 / 8 / 1) - 1 / 4 * log2(1 / 4 / 2)) / 2,
        (-3 / 8 + 0 - 1 / 8 * log2(1 / 8 / 1)) / 2,
    ]
    assert by_hand == pytest.approx([0.1038, 0.0212, 0, 0], abs=1e-4)
    assert sampling.compute_confidence_gains(p)[0].tolist() == pytest.approx(by_hand)
    # all together: what a flat distribution's entropy, 1, exceeds the whole's, 1.75/2
    assert sum(by_hand) == pytest.approx(1 - 1.75 / 2)
    assert tokens_kept(logits_after("adaptive(epsilon=0.05)", p.log())) == {0}
    assert tokens_kept(logits_after("adaptive(epsilon=0.01)", p.log())) == {0, 1}
    assert tokens_kept(logits_after("adaptive(epsilon=0.5)", p.log())) == {0}  # at least one


def test_adaptive_decoding_keeps_one_token_if_others_add_nothing():
    assert tokens_kept(
        logits_after("adaptive(epsilon=0.001)", torch.tensor([[-torch.inf, 0.0, -torch.inf]]))
    ) == {1}
    assert tokens_kept(logits_after("adaptive(epsilon=0.001)", torch.zeros(1, 6))) == {
        0
    }  # nothing gained by any
    assert tokens_kept(logits_after("adaptive(epsilon=0.001)", torch.zeros(1, 1))) == {0}
    # one token of 1 − 1e-9: what is left is too little to matter, and no negative number
    assert sampling.compute_confidence_gains(torch.tensor([[1 - 1e-9, 1e-9, 0, 0]]).double()).isfinite().all()


def test_temperature_is_applied_before_truncation():
    # squares over .275: .036 .582 .009 .145 .227; in order .582 .809 .955: p = .7 needs two rather than three
    keys = torch.arange(400)
    rows = P.log().expand(400, -1)
    for strategy, tokens in (
        ("top_p(p=0.7, temperature=0.5)", {1, 4}),
        ("top_k(k=2, temperature=3.0)", {1, 4}),
        ("min_p(p=0.3, temperature=0.5)", {1, 4}),  # .0625 1 .016 .25 .39
        # H = .036 ln 27.5 + .582 ln 1.719 + .009 ln 110 + .145 ln 6.875 + .227 ln 4.4 = 1.094; −ln p = 3.31
        # .54 4.70 1.93 1.48: distances 2.22 .55 3.61 .83 .39, in the order 4 1 3 0 2
        ("typical(tau=0.3, temperature=0.5)", {4, 1}),
    ):
        assert set(Follower(strategy, keys)(rows).tolist()) == tokens


WARPERS = {
    "temperature(tau=0.7)": TemperatureLogitsWarper(0.7),
    "top_k(k=37)": TopKLogitsWarper(37),
    "top_p(p=0.83)": TopPLogitsWarper(0.83),
    "typical(tau=0.35)": TypicalLogitsWarper(0.35),
    "min_p(p=0.04)": MinPLogitsWarper(0.04),
    "epsilon(epsilon=0.003)": EpsilonLogitsWarper(0.003),
    "eta(epsilon=0.02)": EtaLogitsWarper(0.02),
}


@pytest.mark.parametrize("name", WARPERS)
@pytest.mark.parametrize("tau", [1.0, 0.6, 1.7])
def test_samplers_equal_transformers(name, tau):
    logits = torch.randn(40, 500, generator=torch.Generator().manual_seed(6)) * 3
    mine = logits_after(name, sampling.divide_by_temperature(logits, tau))
    expected = WARPERS[name](None, TemperatureLogitsWarper(tau)(None, logits.double()))
    assert torch.equal(mine > -torch.inf, expected > -torch.inf)
    assert torch.allclose(mine.softmax(-1), expected.softmax(-1).float(), atol=1e-6)
    assert (mine == -torch.inf).any() or name.startswith("temperature")


ROWS = 20_000
KEYS = torch.tensor([make_row_key(11, str(row), "any") for row in range(ROWS)])


@pytest.mark.parametrize(
    ("strategy", "exact"),
    [
        ("temperature(tau=0.5)", [0.01 / 0.275, 0.16 / 0.275, 0.0025 / 0.275, 0.04 / 0.275, 0.0625 / 0.275]),
        ("top_p(p=0.9)", [0.1 / 0.95, 0.4 / 0.95, 0, 0.2 / 0.95, 0.25 / 0.95]),
    ],
    ids=str,
)
@pytest.mark.parametrize("step", [0, 5])
def test_draw_frequencies_equal_the_probabilities(strategy, exact, step):
    tokens = choose_tokens(parse(strategy), P.log().expand(ROWS, -1), context(KEYS, step))
    counts = torch.bincount(tokens, minlength=5)
    possible = [token for token in range(5) if exact[token] > 0]
    assert counts[possible].sum() == ROWS
    expected = [ROWS * exact[token] for token in possible]
    assert stats.chisquare(counts[possible].numpy(), expected).pvalue > 0.01


def test_greedy_takes_the_first_of_equal_tokens():
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    assert Follower("greedy", torch.zeros(2).long())(logits).tolist() == [1, 0]


@pytest.mark.parametrize(
    "name",
    [
        "temperature(tau={})",
        "top_k(k=3, temperature={})",
        "min_p(temperature={})",
        "mirostat(temperature={})",
    ],
)
def test_temperature_beyond_float32_gives_the_limit(name):
    """Near 0, only the likeliest token is possible. A high temperature never gives a masked token."""
    logits = torch.tensor([[-torch.inf, 1.0, 3.0, -2.0, 0.5]])
    for key in range(20):
        drawn = [Follower(name.format(tau), torch.tensor([key]))(logits) for tau in (1e-46, 1e39)]
        assert drawn[0].item() == 2
        assert drawn[1].item() != 0


# How many of 120 logits 3 sin 1.7i + 2 cos .3i (or 9 sin 1.7i + 2 cos .3i) the authors' programs leave in,
# run in float64: john-hewitt/truncation-sampling src/warpers.py; p_less_samplers.py; top_nsigma
# eval_code/my_sampler.py.
AUTHORS = {
    "epsilon(epsilon=0.02)": (16, 12),
    "eta(epsilon=0.3)": (16, 8),
    "p_less": (8, 4),
    "top_n_sigma(n=0.5)": (13, 18),
}


@pytest.mark.parametrize("name", AUTHORS)
def test_samplers_equal_the_authors_programs(name):
    i = torch.arange(120, dtype=torch.float64)
    for height, count in zip((3, 9), AUTHORS[name], strict=True):
        logits = (height * (1.7 * i).sin() + 2 * (0.3 * i).cos()).float()
        likeliest = set(logits.topk(count).indices.tolist())
        assert tokens_kept(logits_after(name, logits[None])) == likeliest


def test_mirostat_equals_the_authors_formulas():
    """With the 100 likeliest and V = 120, `estimate_s` and `compute_k` give 1, 2, 12 and 2, 4, 15 tokens."""
    i, mu = torch.arange(120, dtype=torch.float64), torch.tensor([2.0, 4.0, 6.0]).double()
    for height, k in ((3, [1, 2, 12]), (9, [2, 4, 15])):
        logits = (height * (1.7 * i).sin() + 2 * (0.3 * i).cos()).float().expand(3, -1)
        assert (logits_after("mirostat", logits, state=mu[:, None]) > NONE).sum(-1).tolist() == k


def test_samplers_equal_hand_arithmetic_in_special_cases():
    assert tokens_kept(logits_after("p_less", torch.zeros(1, 7))) == set(range(7))  # Σ p² = 1/7 = p
    # mean 2, squares 4 + 1 + 0 + 1 + 4 = 10, over n − 1 = 4: σ = 1.5811; what cannot come does not count
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0, NONE, NONE]])
    assert tokens_kept(logits_after("top_n_sigma(n=1.0)", logits)) == {3, 4}
    # over n − 1 = 1: σ = √½, and 1 − 1.5 σ = −.06
    assert tokens_kept(logits_after("top_n_sigma(n=1.5)", torch.tensor([[0.0, 1.0, NONE]]))) == {0, 1}
    assert tokens_kept(logits_after("top_n_sigma(n=1.0)", torch.tensor([[NONE, 1.0]]))) == {1}
    # p_i ∝ 1/i gives s = 1, where Mirostat's limit holds: k = 2^μ / ln V
    ranks = torch.arange(1, 51, dtype=torch.float64)
    masked = logits_after("mirostat", (-ranks.log())[None], state=torch.tensor([[5.0]]).double())
    assert tokens_kept(masked) == set(range(round(32 / math.log(50)) + 1))


@given(
    rows=st.lists(st.lists(st.floats(-30, 30, width=32), min_size=6, max_size=6), min_size=2, max_size=4),
    banned=st.integers(0, 5),
)
def test_samplers_keep_one_token_and_separate_rows(rows, banned):
    logits = torch.tensor(rows)
    logits[0, :banned] = NONE
    mu = torch.linspace(-50, 80, len(rows), dtype=torch.float64)[:, None]
    for name in ("epsilon(epsilon=0.3)", "eta(epsilon=0.3)", "p_less", "top_n_sigma(n=0.1)", "mirostat"):
        masked = logits_after(name, logits, state=mu)
        assert (masked > NONE).any(-1).all()
        assert ((masked == logits) | (masked == NONE)).all()
        for row in range(len(rows)):
            alone = logits_after(name, logits[row, None], state=mu[row, None])
            assert tokens_kept(alone) == tokens_kept(masked, row)
