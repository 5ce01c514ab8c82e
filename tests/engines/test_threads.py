"""Threads: one for a small model on a CPU, unless the user says otherwise."""

import types

import pytest
import torch

from guard_eval.engines.loading import SMALL, settle_threads


class Model:
    device = torch.device("cpu")

    def __init__(self, size):
        self.size = size

    def parameters(self):
        return iter([types.SimpleNamespace(numel=lambda: self.size)])


@pytest.fixture
def threads(monkeypatch):
    """Start from two threads, and give back what was there."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield torch.get_num_threads
    torch.set_num_threads(before)


def test_a_small_model_gets_one(threads):
    settle_threads(Model(SMALL - 1))
    assert threads() == 1


def test_a_large_model_keeps_all(threads):
    settle_threads(Model(SMALL))
    assert threads() == 2


def test_the_user_has_the_last_word(threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    settle_threads(Model(1))
    assert threads() == 2
