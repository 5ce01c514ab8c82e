"""How often workers have begun each block: what kills every worker must not be tried for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from guard_eval.errors import StudyError

MOST = 4
"""How often a block is begun: three workers may die of it."""


class Attempts:
    """An actor beside the driver that counts."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, block: int) -> int:
        """Count a block's beginning, and return which it is: 1, 2, …."""
        self._begun[block] += 1
        return self._begun[block]


def counting(ray: Any) -> Any:  # noqa: ANN401 (Ray's handles)
    """Start the counter on this machine, which outlives every other one of the run."""
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )
    return ray.remote(Attempts).options(num_cpus=0, scheduling_strategy=here).remote()


def check(attempts: Any, block: int, prompts: Sequence[str]) -> None:  # noqa: ANN401
    """Count a block's beginning, in a worker.

    Raises:
        StudyError: It has been begun too often; the first and the last of its prompts are named.
    """
    import ray  # noqa: PLC0415 (an extra)

    if ray.get(attempts.begin.remote(block)) > MOST:
        raise StudyError(
            f"{MOST} workers died one after the other of the same {len(prompts)} texts (from {prompts[0]!r} "
            f"to {prompts[-1]!r}), as a rule because memory ran out: lower generation.batch_size or "
            "--workers, and run the command again; what others made is kept"
        )
