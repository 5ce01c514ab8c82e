"""`guard-eval generate --engine ray`: workers make the texts, this process writes them down as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from guard_eval.cli.console import progress, say
from guard_eval.cli.generation.work import chosen, forecast, made_with, say_otherwise, work_of
from guard_eval.engines.ray.cluster import connected, library, pool_of
from guard_eval.engines.ray.results import ShrunkError
from guard_eval.engines.ray.writers import Job, order_of, write
from guard_eval.errors import StudyError
from guard_eval.records import Continuation, Prompt
from guard_eval.study.folder import Study
from guard_eval.texts.continuation_parquet import PARTIAL, write_parquet
from guard_eval.texts.continuations import MadeAlready, part_file, wanted
from guard_eval.texts.prompts import iter_prompts
from guard_eval.texts.shards import Shard, reserve

PART_TEXTS = 10_000
"""Texts of a Parquet file at most."""
PART_SECONDS = 30.0
"""How long a text waits for its file at most: so much is made anew where this process is killed."""


def run(
    study: Study,
    *,
    dry_run: bool,
    shard: Shard,
    only: Sequence[str],
    address: str | None,
    workers: int | None,
) -> None:
    """Make what is missing by workers of Ray; a file is whole, or missing.

    Raises:
        StudyError: Ray or the cluster is not there, or the workers could not do it; what they made is kept.
    """
    if study.settings.model.device_map is not None:
        raise StudyError(
            "--engine ray gives each worker one GPU, and model.device_map spreads a model over several; "
            "use --engine vllm, or --shard i/n with --engine local"
        )
    # Read twice, because there may be millions, and they are in Ray's store while texts are made.
    prompts = partial(iter_prompts, study.prompts_path, limit=study.settings.prompts.limit)
    strategies = chosen(study, only)
    if dry_run:
        forecast(study, work_of(study, strategies, list(prompts()), shard, made_with(study, strategies)))
        return
    library()
    with reserve(study.continuations, shard):
        before = None
        # What an automatic dtype comes to is known when the workers are; if all is made, there need be none.
        here = {**made_with(study, strategies, device="cpu"), "dtype": None}
        while (missing := _Missing(study, strategies, prompts, shard, here)).total:
            if missing.total == before:  # a cluster that shrinks and shrinks
                raise StudyError(
                    "the Ray cluster lost its machines before they made a text; repair the cluster"
                )
            before = missing.total
            try:
                _make(study, missing, prompts, shard, address, workers)
            except ShrunkError:
                say("the cluster lost machines; going on with those that are left")
                workers = None
            else:
                return
        missing.show()


class _Missing:
    """Which strategies lack which prompts: a byte each, `[prompts · strategies]`."""

    def __init__(
        self,
        study: Study,
        strategies: Sequence[str],
        prompts: Callable[[], Iterable[Prompt]],
        shard: Shard,
        made_by: Mapping[str, str | None],
    ) -> None:
        """Find out; arguments as of `work.work_of`, the prompts as what reads them."""

        def mine() -> Iterator[Prompt]:
            return (prompt for prompt in prompts() if shard.holds(prompt.id))

        made = [
            MadeAlready(study.continuations, name, wanted(name, study.settings, **made_by), mine())
            for name in strategies
        ]
        self.strategies = strategies
        self._marks, self._asked = bytearray(), 0
        for prompt in prompts():
            held = shard.holds(prompt.id)
            self._asked += held
            self._marks += bytes(held and prompt not in one for one in made)
        self.total = self._marks.count(1)
        self.recipes = [one.recipe for one in made if one.recipe]
        self._otherwise = [one.otherwise(p for p in mine() if p not in one) for one in made]
        self._part = "" if shard.count == 1 else f" of shard {shard}"

    def show(self) -> None:
        """Say what there is, and what of it does not count."""
        for strategy, lacking, otherwise in zip(self.strategies, self.counts(), self._otherwise, strict=True):
            say(f"{strategy}: {self._asked - lacking} of {self._asked} continuations{self._part} are there")
            say_otherwise(strategy, otherwise)

    def counts(self) -> list[int]:
        """Return how many texts of each strategy are missing."""
        return [self._marks[place :: len(self.strategies)].count(1) for place in range(len(self.strategies))]

    def pending(self, prompts: Iterable[Prompt]) -> Iterator[tuple[Prompt, list[str]]]:
        """Yield the prompts that something is missing of, and the strategies that it is."""
        width = len(self.strategies)
        for number, prompt in enumerate(prompts):
            marks = self._marks[number * width : (number + 1) * width]
            lacking = [name for name, mark in zip(self.strategies, marks, strict=True) if mark]
            if lacking:
                yield prompt, lacking


def _make(
    study: Study,
    missing: _Missing,
    prompts: Callable[[], Iterable[Prompt]],
    shard: Shard,
    address: str | None,
    workers: int | None,
) -> None:
    say("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    with connected(address) as ray:
        pool = pool_of(ray, device=study.settings.model.device, workers=workers)
        made_by = made_with(study, missing.strategies, device="cuda" if pool.gpu else "cpu")
        missing = _Missing(study, missing.strategies, prompts, shard, made_by)
        missing.show()
        for one in missing.recipes[:1]:  # what is not known here is as it was
            made_by = {
                **made_by,
                **{name: made_by[name] or getattr(one, name) for name in ("revision", "dtype")},
            }
        lacking = [name for name, n in zip(missing.strategies, missing.counts(), strict=True) if n]
        job = Job.of(study, lacking, pool, made_by)
        order = order_of(ray, job, missing.pending(prompts()))
        say(f"{missing.total} texts by {study.settings.model.name}: {pool}")
        # The models load first; the time left follows from all batches, not from the last half minute.
        with progress("texts", window=86400) as bar, _Parts(study.continuations, shard) as parts:
            tasks = {
                name: bar.add_task(name, total=n, note="")
                for name, n in zip(missing.strategies, missing.counts(), strict=True)
                if n
            }
            began, tokens = time.monotonic(), 0
            for batch in write(ray, job, order):
                parts.add(batch)
                tokens += sum(one.new_tokens for one in batch)
                rate = tokens / max(time.monotonic() - began, 1e-9)
                for name, task in tasks.items():
                    made = sum(one.recipe.strategy == name for one in batch)
                    bar.update(task, advance=made, note=f"{rate:,.0f} tokens/s in all")
    say(f"continuations: {study.continuations}{Path('/')}")


class _Parts:
    """Texts on their way into Parquet files, by strategy; what waits is written in the end, come what may."""

    def __init__(self, folder: Path, shard: Shard) -> None:
        self._folder, self._shard = folder, shard
        self._waiting: dict[str, list[Continuation]] = {}
        self._since = time.monotonic()

    def __enter__(self) -> Self:
        for path in self._folder.glob(f"*{PARTIAL}"):  # of a process that was killed; its texts are missing
            path.unlink(missing_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write()

    def add(self, batch: Sequence[Continuation]) -> None:
        """Take a batch, and write what is enough for a file or has waited long enough."""
        for one in batch:
            self._waiting.setdefault(one.recipe.strategy, []).append(one)
        full = max(map(len, self._waiting.values()), default=0) >= PART_TEXTS
        if full or time.monotonic() - self._since >= PART_SECONDS:
            self._write()

    def _write(self) -> None:
        for strategy, batch in self._waiting.items():
            if batch:
                # By prompt, so that a file does not depend on which worker was faster.
                batch.sort(key=lambda one: one.prompt_id)
                write_parquet(part_file(self._folder, strategy, self._shard), batch)
        self._waiting.clear()
        self._since = time.monotonic()
