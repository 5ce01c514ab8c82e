"""Timing two ways of decoding against each other: A B A B … A in one process, and the median of the ratios.

Whatever slows a machine down for a while slows neighbouring runs alike. A figure of one process is therefore
never divided by a figure of another, and each run of B is divided by the mean of the runs of A around it,
which also cancels a drift that is steady.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from common import in_turns


@dataclass(frozen=True)
class Way:
    """A way of making continuations.

    Attributes:
        name: What the tables call it.
        run: Makes them once; returns the new tokens of each prompt.
        tokens: How many new tokens that is in all.
    """

    name: str
    run: Callable[[], list[list[int]]]
    tokens: int


@dataclass(frozen=True)
class Paired:
    """What two ways took, in the same process and the same minutes.

    Attributes:
        base_ms: Milliseconds per generated token of A, the median over the rounds.
        way_ms: The same of B.
        ratio: B over A, the median of the rounds' ratios.
        low: The smallest of them.
        high: The largest.
        rounds: How many there were.
        same_texts: The share of prompts, among those that both continued, that got the same tokens from both.
    """

    base_ms: float
    way_ms: float
    ratio: float
    low: float
    high: float
    rounds: int
    same_texts: float


@dataclass
class Stopwatch:
    """Runs and times ways of decoding on one device.

    Attributes:
        device: Whose queue is waited for before the clock is read.
        rounds: At most so many runs of B.
        seconds: No round starts after so many seconds of a comparison, but two are made in any case.
    """

    device: torch.device
    rounds: int
    seconds: float
    _texts: dict[Way, list[list[int]]] = field(default_factory=dict)

    def compare(self, base: Way, way: Way) -> Paired:
        """Run `base` and `way` in turns, each of them once beforehand if it has not been run yet."""
        base_texts, way_texts = self._warmed(base), self._warmed(way)
        turns = in_turns(
            lambda: self._time(base), lambda: self._time(way), rounds=self.rounds, seconds=self.seconds
        )
        ratios = [ratio * base.tokens / way.tokens for ratio in turns.ratios]
        pairs = list(zip(base_texts, way_texts, strict=False))
        return Paired(
            base_ms=1e3 * turns.medians[0] / base.tokens,
            way_ms=1e3 * turns.medians[1] / way.tokens,
            ratio=statistics.median(ratios),
            low=min(ratios),
            high=max(ratios),
            rounds=len(ratios),
            same_texts=sum(a == b for a, b in pairs) / len(pairs),
        )

    def _warmed(self, way: Way) -> list[list[int]]:
        if way not in self._texts:
            texts = way.run()
            made = sum(map(len, texts))
            if made != way.tokens:
                raise RuntimeError(
                    f"{way.name} made {made} tokens and not {way.tokens}; its times mean nothing"
                )
            self._texts[way] = texts
        return self._texts[way]

    def _time(self, way: Way) -> float:
        self._wait()
        start = time.perf_counter()
        way.run()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
