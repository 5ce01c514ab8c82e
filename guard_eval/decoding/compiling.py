"""`torch.compile`, for those who ask for it, and what it needs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import TypeVar

import torch

from guard_eval.errors import StudyError

T = TypeVar("T")

_VARIANTS = 128
"""How many strategies times shapes may be compiled in one process."""


def compiled(function: Callable[..., T]) -> Callable[..., T]:
    """Return `function` as one graph, compiled on first use and anew where shapes turn out to change.

    Raises:
        StudyError: There is no C++ compiler.
    """
    program = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    if shutil.which(program) is None:
        raise StudyError(
            f"compiling needs a C++ compiler, and there is no {program!r} here; "
            "install one (such as g++), name it in the environment variable CXX, or do without compiling"
        )
    # All functions wrapped alike share the limit, and each meets a few batch sizes and prompt lengths.
    config = torch._dynamo.config  # noqa: SLF001 (documented under this name)
    config.recompile_limit = max(config.recompile_limit, _VARIANTS)
    whole: Callable[..., T] = torch.compile(function, fullgraph=True)
    return whole
