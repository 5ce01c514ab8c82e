"""GUARD's whole step against a slow oracle in plain Python, and what a step must not do."""

import math
import statistics

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from guard_eval.decoding.guard import GuardState, guard_step


class SlowGuard:
    """GUARD for one text, from lists of floats, as the equations are printed; it shares no code."""

    def __init__(self, window: int = 7, decay: float = 0.95):
        self.window, self.decay = window, decay
        self.entropies: list[float] = []
        self.tokens: list[int] = []
        self.k: list[int] = []
        self.alpha: list[float] = []

    def step(self, logits: list[float]) -> int:
        top = max(logits)
        z = sum(math.exp(x - top) for x in logits)
        p = [math.exp(x - top) / z for x in logits]
        h = -sum(x * math.log(x) for x in p if x > 0)
        past, eps = self.entropies, 1e-6
        t = len(past) + 1
        hs = [*past, h]
        glob = sum(self.decay ** (t - i) * hs[i - 1] for i in range(1, t + 1))
        glob /= sum(self.decay ** (t - i) for i in range(1, t + 1))
        if t == 1:
            med, glob, prev = h, h, h
        else:
            med, prev = statistics.median(past[-self.window :]), past[-1]
        q = 1.0 + abs(h - prev) / (prev + eps) + abs(med - glob) / (med + eps)

        def at(x: float) -> float:
            return math.atanh(max(-1 + 1e-6, min(1 - 1e-6, x)))

        loc, glo = q * at((h - med) / math.log(len(p))), q * at((med - glob) / math.log(len(p)))
        lam = abs(loc) / (abs(loc) + abs(glo) + eps)
        k = math.floor(10 * self.sigmoid(lam * loc + (1 - lam) * glo) + 5)
        loc, glo = q * at((h - med) / math.log(k)), q * at((med - glob) / math.log(k))
        x = lam * loc + (1 - lam) * glo
        log_alpha = -math.log1p(math.exp(-x)) if x > -700 else x
        best = sorted(range(len(p)), key=lambda v: (-logits[v], v))[:k]
        scores = {v: logits[v] - top - math.log(z) + self.tokens.count(v) * log_alpha for v in best}
        token = min(v for v in best if scores[v] == max(scores.values()))
        self.entropies.append(h)
        self.tokens.append(token)
        self.k.append(k)
        self.alpha.append(math.exp(log_alpha))
        return token

    @staticmethod
    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def bursty_logits(steps: int, rows: int, vocabulary: int, seed: int) -> Tensor:
    """Logits whose entropy jumps between nearly 0 and nearly ln V, of one ranking, so that tokens repeat."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(1, 1, vocabulary, generator=generator) * 2
    sharpness = torch.randn(steps, rows, 1, generator=generator).mul(1.3).exp()
    return (base + torch.randn(steps, rows, vocabulary, generator=generator)) * sharpness


def run(logits: Tensor, window: int, decay: float) -> Tensor:
    steps, rows, _ = logits.shape
    state = GuardState.new(rows, steps, logits.device)
    history = torch.zeros(rows, steps, dtype=torch.long)
    for step in range(steps):
        history[:, step] = guard_step(logits[step], state, step, history, window=window, decay=decay)
    return history


@pytest.mark.parametrize(("window", "decay"), [(7, 0.95), (1, 0.5), (4, 1.0)])
@pytest.mark.parametrize("rows", [1, 8])
def test_equals_the_slow_oracle(window: int, decay: float, rows: int):
    logits = bursty_logits(120, rows, 60, seed=rows)
    tokens = run(logits, window, decay)
    ks: set[int] = set()
    for row in range(rows):
        oracle = SlowGuard(window, decay)
        assert [oracle.step(x) for x in logits[:, row].double().tolist()] == tokens[row].tolist()
        ks.update(oracle.k)
    greedy = logits.argmax(-1).T
    assert (tokens != greedy).float().mean() > 0.05  # the penalty did something,
    assert len(ks) >= 6  # and k_t moved


def test_ties_go_to_the_smallest_id_also_at_the_edge_of_the_candidates():
    # 40 equal logits, k_1 = 10: the candidates are 0 … 9. Their counts are 0, 0, 1, 1, 2 … with α = 1/2.
    state = GuardState.new(1, 12, torch.device("cpu"))
    history = torch.zeros(1, 12, dtype=torch.long)
    flat = torch.zeros(1, 40)
    for step in range(12):
        history[:, step] = guard_step(flat, state, step, history, window=7, decay=0.95)
    assert history[0, :9].tolist() == list(range(9))


def test_a_vocabulary_smaller_than_the_candidates():
    # Entropy never changes, so α = 1/2: e² wins, e²/2 = 3.7 wins over e = 2.7, then e²/4 = 1.8 does not
    assert run(torch.tensor([[[0.0, 2.0, 1.0]]] * 3), 7, 0.95).tolist() == [[1, 1, 2]]


def test_a_token_that_cannot_come_is_not_chosen():
    logits = torch.full((1, 30), -torch.inf)
    logits[0, 4], logits[0, 9] = 1.0, 0.9
    tokens = run(logits.expand(20, 1, 30), 7, 0.95)[0]
    assert set(tokens.tolist()) == {4, 9}


def test_a_repeated_step_changes_nothing():
    logits = bursty_logits(30, 3, 50, seed=5)
    once = run(logits, 7, 0.95)
    state = GuardState.new(3, 30, torch.device("cpu"))
    history = torch.zeros(3, 30, dtype=torch.long)
    for step in range(30):
        for _ in range(3):
            history[:, step] = guard_step(logits[step], state, step, history, window=7, decay=0.95)
    assert torch.equal(history, once)


def test_rows_do_not_see_each_other():
    logits = bursty_logits(40, 5, 50, seed=6)
    order = torch.tensor([3, 0, 4, 1, 2])
    assert torch.equal(run(logits[:, order], 7, 0.95), run(logits, 7, 0.95)[order])


class NoHostCopies(TorchDispatchMode):
    """Fail at whatever makes the host wait for the device."""

    WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2")

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations += 1
        assert func.overloadpacket.__name__ not in self.WAITING, f"{func} waits for the device"
        return func(*args, **(kwargs or {}))


def test_the_step_never_waits_for_the_device():
    logits = bursty_logits(3, 4, 3000, seed=7)
    state = GuardState.new(4, 3, torch.device("cpu"))
    history = torch.zeros(4, 3, dtype=torch.long)
    with NoHostCopies() as watch:
        for step in range(3):
            history[:, step] = guard_step(logits[step], state, step, history, window=7, decay=0.95)
    assert watch.operations > 0
    with pytest.raises(AssertionError, match="waits"), NoHostCopies():
        history.max().item()


def test_the_step_runs_where_there_are_no_values_to_read():
    """On the meta device tensors have shapes alone: to read one, or mix in one of the CPU, is an error."""
    meta = torch.device("meta")
    state = GuardState.new(4, 5, meta)
    history = torch.zeros(4, 5, dtype=torch.long, device=meta)
    for step in range(5):
        tokens = guard_step(torch.zeros(4, 3000, device=meta), state, step, history, window=7, decay=0.95)
        assert tokens.shape == (4,)
