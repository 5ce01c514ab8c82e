"""`guard-eval measure --engine ray`: what models read is spread over workers; everything else stays here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from guard_eval.cli.console import say

if TYPE_CHECKING:
    from guard_eval.cli.measuring.job import ScoringModels


@contextmanager
def spread(models: ScoringModels, *, address: str | None, workers: int | None) -> Iterator[ScoringModels]:
    """Give the same models as every worker of Ray has them, for as long as the cluster is connected.

    Raises:
        StudyError: Ray or the cluster is not there, or has no room.
    """
    from guard_eval.engines.ray.cluster import connected, library, pool_of
    from guard_eval.engines.ray.readers import RemoteModel

    library()
    say("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    with connected(address) as ray:
        pool = pool_of(ray, device=models.device, workers=workers)
        say(f"read by {pool}; diversity, intervals, MAUVE's clusters and tests are computed here")
        dtype = models.dtype
        if dtype == "auto":  # what this machine has does not matter
            dtype = "bfloat16" if pool.gpu else "float32"
        yield replace(
            models,
            device="cuda" if pool.gpu else "cpu",
            dtype=dtype,
            lazy=partial(RemoteModel, ray=ray, pool=pool),
        )
