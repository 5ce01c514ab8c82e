"""GUARD's whole step equals a slow reference in each formulation, and never waits for the device."""

import pytest
import torch
from slow_guard import SLOW
from stepping import Follower, context
from torch.utils._python_dispatch import TorchDispatchMode

from guard_eval.generation.decoding.processor import make_first_state
from guard_eval.generation.strategies import Guard, apply_step, parse

pytestmark = pytest.mark.slow

FORMULATIONS = ["equations", "algorithm1", "released"]
SETTINGS = [
    {},
    {"window": 1, "decay": 0.5},
    {"window": 2, "decay": 0.9},
    {"window": 4, "decay": 1.0},
    {"window": 6, "aggregation": "mean"},
    {"window": 11, "aggregation": "winsorized"},
    {"mapping": "log"},
    {"aggregation": "winsorized", "mapping": "log"},
]


def bursty_logits(steps, rows, vocabulary, seed):
    """Return logits with entropies near 0 or near ln V, and with one ranking, so that tokens repeat."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(1, 1, vocabulary, generator=generator) * 2
    sharpness = torch.randn(steps, rows, 1, generator=generator).mul(1.3).exp()
    return (base + torch.randn(steps, rows, vocabulary, generator=generator)) * sharpness


def some_prompts(rows, vocabulary):
    """Return prompts of 9 positions, some of which begin with padding."""
    prompts = torch.randint(vocabulary, (rows, 9), generator=torch.Generator().manual_seed(rows))
    prompts[torch.arange(9) < (torch.arange(rows) % 4)[:, None]] = -1
    return prompts


def run(logits, strategy, prompts=None):
    choose = Follower(strategy, torch.arange(logits.shape[1]), prompts=prompts)
    for step in logits:
        choose(step)
    return choose.written, choose.trace


def settings_of(formulation):
    return [
        Guard(formulation=formulation, **settings)
        for settings in SETTINGS
        if not (formulation == "released" and settings.get("window") == 1)
    ]


@pytest.mark.parametrize("strategy", [guard for name in FORMULATIONS for guard in settings_of(name)], ids=str)
def test_guard_equals_the_slow_reference(strategy):
    rows = 4
    logits = bursty_logits(200, rows, 60, seed=3)
    prompts = some_prompts(rows, 60)
    tokens, trace = run(logits, strategy, prompts)
    for row in range(rows):
        oracle = SLOW[strategy.formulation](
            strategy.window,
            strategy.decay,
            strategy.aggregation,
            strategy.mapping,
            [token for token in prompts[row].tolist() if token >= 0],
        )
        assert [oracle.step(x) for x in logits[:, row].double().tolist()] == tokens[row].tolist()
        assert trace["k"][row].tolist() == oracle.k
        assert trace["H"][row].tolist() == pytest.approx(oracle.hs, abs=2e-5)
        assert trace["H_glob"][row].tolist() == pytest.approx(oracle.glob, abs=2e-5)
        # divided by the entropy before, where that is nearly 0, q multiplies float32's rounding of 1e-7
        sure = [0, *(i for i in range(1, 200) if oracle.hs[i - 1] > 1e-4)]
        assert len(sure) > 150
        alphas, qs = trace["alpha"][row, sure].tolist(), trace["q"][row, sure].tolist()
        assert alphas == pytest.approx([oracle.alpha[i] for i in sure], abs=1e-3)
        assert qs == pytest.approx([oracle.q[i] for i in sure], rel=2e-3)
    greedy = logits.argmax(-1).T
    assert (tokens != greedy).float().mean() > 0.05  # the penalty did something,
    assert trace["k"].unique().numel() >= 3  # and k_t moved


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_guard_breaks_ties_by_the_smallest_id(formulation):
    # 40 equal logits, k_1 = 10: the candidates are 0 … 9. Their counts are 0, 0, 1, 1, 2 … with α = 1/2.
    tokens, _ = run(torch.zeros(12, 1, 40), f"guard(formulation={formulation})")
    assert tokens[0, :9].tolist() == list(range(9))


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_guard_accepts_a_small_vocabulary(formulation):
    # Entropy never changes, so α = 1/2: e² wins, e²/2 = 3.7 wins over e = 2.7, then e²/4 = 1.8 does not
    tokens, _ = run(torch.tensor([[[0.0, 2.0, 1.0]]] * 3), f"guard(formulation={formulation})")
    assert tokens.tolist() == [[1, 1, 2]]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_guard_never_chooses_a_masked_token(formulation):
    logits = torch.full((1, 30), -torch.inf)
    logits[0, 4], logits[0, 9] = 1.0, 0.9
    for select in ("argmax", "sample"):
        strategy = f"guard(formulation={formulation}, select={select})"
        tokens, _ = run(logits.expand(20, 1, 30), strategy)
        assert set(tokens[0].tolist()) == {4, 9}


def test_released_formulation_drops_a_vanishing_penalty():
    # Logits 0, −1 and three of −200, whose p is 0 in float32. α_1 = 1/2; 2^−150 is 0 in float32, too.
    logits = torch.tensor([[[0.0, -1.0, -200.0, -200.0, -200.0]]])
    both_gone = torch.tensor([[0] * 160 + [1] * 155])
    # by ln p + count · ln ½: −160 ln 2 against −1 − 155 ln 2, so token 1; unpenalised, token 0
    assert run(logits, "guard(formulation=released)", both_gone)[0].tolist() == [[0]]
    one_gone = torch.tensor([[0] * 160 + [1] * 100])
    assert run(logits, "guard(formulation=released)", one_gone)[0].tolist() == [[1]]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_guard_samples_by_the_penalised_scores(formulation):
    from scipy import stats

    rows, logits = 20_000, bursty_logits(3, 1, 40, seed=8)
    oracle = SLOW[formulation]()
    choose = Follower(f"guard(formulation={formulation}, select=sample)", torch.arange(rows) * 7919)
    for step in range(3):
        oracle.step(logits[step, 0].double().tolist())
        # whatever is drawn, go on with the same text
        drawn = choose(logits[step].expand(rows, -1), torch.full((rows,), oracle.tokens[-1]))
        ids = sorted(oracle.candidates)
        weights = torch.tensor([oracle.candidates[token] for token in ids]).double().softmax(0)
        counts = torch.bincount(drawn, minlength=40)
        assert counts[ids].sum() == rows  # none but the candidates
        often = weights * rows >= 5
        seen, expected = counts[ids][often].double(), weights[often] * rows
        assert len(seen) > 1
        assert stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > 0.001


class NoHostCopies(TorchDispatchMode):
    """Fails if an operation makes the host wait for the device."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2")

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        assert func.overloadpacket.__name__ not in self.WAITING, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("select", ["argmax", "sample"])
def test_guard_step_never_waits_for_the_device(formulation, select):
    """On a CPU nothing waits, so the vocabulary is large enough that no short cut for CPUs is taken."""
    logits = bursty_logits(5, 4, 20_000, seed=7)
    strategy = parse(f"guard(formulation={formulation}, select={select}, window=3)")
    state, tokens = torch.zeros(4, len(make_first_state(strategy))).double(), some_prompts(4, 3000)
    with NoHostCopies() as watch:
        for step in range(5):
            text_context = context(torch.arange(4), step, tokens=tokens, written=tokens, state=state)
            apply_step(strategy, logits[step], text_context)
    assert watch.operations > 0
    with pytest.raises(AssertionError, match="waits"), NoHostCopies():
        tokens.max().item()
