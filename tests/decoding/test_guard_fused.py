"""The compiled step against the plain one where inputs are odd; `test_guard_step` has the oracles."""

import sys

import numba.core.caching
import numpy as np
import pytest
import torch

from guard_eval.decoding.choosers import chooser
from guard_eval.decoding.guard.fused import _compile, exp, log
from guard_eval.errors import MissingExtraError
from guard_eval.strategies import Guard


def test_exp_and_log():
    x = np.linspace(-87, 0, 20_001).astype(np.float32)
    assert [exp(one) for one in x] == pytest.approx(np.exp(x.astype(np.float64)), rel=2e-7)
    y = np.geomspace(1e-5, 1.1, 20_001).astype(np.float32)
    assert [log(one) for one in y] == pytest.approx(np.log(y.astype(np.float64)), rel=4e-7, abs=1e-9)


def one_step(logits, *, compiled, formulation="equations"):
    choose = chooser(Guard(formulation=formulation), torch.arange(len(logits)), 1, compiled=compiled)
    return choose.step(logits, 0, torch.zeros(len(logits), 1, dtype=torch.long))


def odd_logits():
    generator = torch.Generator().manual_seed(1)
    for vocabulary in (2, 14, 15, 16, 31, 32, 33, 63, 64, 65, 500, 4095, 4096, 4097, 40_001):
        normal = torch.randn(5, vocabulary, generator=generator) * 3
        yield f"{vocabulary} tokens", normal
        yield f"{vocabulary} tokens with ties", normal.round()
        yield f"{vocabulary} tokens of bfloat16", normal.bfloat16().float()
        yield f"{vocabulary} equal tokens", torch.zeros(2, vocabulary)
        yield f"{vocabulary} tokens, falling", torch.arange(vocabulary, 0, -1.0)[None] / 7
        yield f"{vocabulary} tokens, rising", torch.arange(float(vocabulary))[None] / 7
        few = normal.masked_fill(torch.rand(normal.shape, generator=generator) < 0.995, -torch.inf)
        few[:, -1] = 0
        yield f"{vocabulary} tokens, most impossible", few
        huge = normal * 1e30
        huge[:, 0] = 3e38
        yield f"{vocabulary} tokens, huge", huge


@pytest.mark.parametrize("formulation", ["equations", "released"])
def test_odd_vocabularies(formulation: str):
    for name, logits in odd_logits():
        plain = one_step(logits, compiled=False, formulation=formulation)
        compiled = one_step(logits, compiled=True, formulation=formulation)
        assert torch.equal(compiled.ids, plain.ids), name
        assert torch.equal(compiled.best, plain.best), name
        torch.testing.assert_close(compiled.notes, plain.notes, rtol=1e-5, atol=2e-5, msg=name)
        torch.testing.assert_close(compiled.scores, plain.scores, rtol=1e-5, atol=1e-4, msg=name)


def test_an_unusual_layout_is_read_rightly():
    logits = torch.randn(300, 4, generator=torch.Generator().manual_seed(2)).double().T
    history = torch.zeros(5, 4, dtype=torch.long).T
    made = [
        chooser(Guard(), torch.arange(4), 5, compiled=compiled).step(logits, 0, history)
        for compiled in (False, True)
    ]
    assert torch.equal(made[0].best, made[1].best)


def test_threads_change_nothing():
    logits = torch.randn(7, 120_000, generator=torch.Generator().manual_seed(3))
    alone = one_step(logits, compiled=True)
    torch.set_num_threads(3)
    together = one_step(logits, compiled=True)
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_without_numba_it_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "guard_eval.decoding.guard.fused")
    with pytest.raises(MissingExtraError, match=r"'numba'.*pip install 'guard-eval\[compile\]'"):
        chooser(Guard(), torch.arange(2), 4, compiled=True)


def test_it_compiles_where_nothing_may_be_stored(monkeypatch):
    # So it is with a read-only installation and no home.
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])

    def square(x):
        return x * x

    with pytest.raises(RuntimeError, match="cannot cache"):
        numba.njit(cache=True)(square)
    assert _compile()(square)(3) == 9
