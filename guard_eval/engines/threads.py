"""How many threads a model is worth on a CPU."""

from __future__ import annotations

import os
from typing import Any

import torch

SMALL = 30_000_000
"""Parameters below which one thread decodes fastest: the work of a step is over before a second thread has
begun, and on a machine with other work the threads wait for each other (measured with 0.26 million parameters
and two busy cores: 33 tokens/s with two threads, 4950 with one)."""


def settle_threads(model: Any) -> None:  # noqa: ANN401 (transformers' classes are untyped)
    """Run a small model that lies on the CPU on one thread, unless OMP_NUM_THREADS says otherwise."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if model.device.type == "cpu" and parameters < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
