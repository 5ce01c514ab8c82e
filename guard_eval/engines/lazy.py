"""A model that is loaded when it is needed; its name and revision are available before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch

from guard_eval.engines.loading import LoadedModel, model_revision

_SHOWN = 12

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class LazyModel:
    """What `load` (`loading.load` or `load_encoder`) is given; `wanted` is a Hub branch, tag or commit."""

    load: Callable[..., LoadedModel]
    location: str
    name: str
    dtype: str
    device: str
    wanted: str = "main"

    @cached_property
    def revision(self) -> str:
        """Return the Hub's commit or the hash of the folder's files, without loading it."""
        return model_revision(self.location, self.wanted)

    @property
    def short_revision(self) -> str:
        """Return the revision's first digits."""
        return self.revision.removeprefix("sha256:")[:_SHOWN]

    @property
    def signature(self) -> str:
        """Return what a score's signature says of it."""
        return f"model:{self.name}|revision:{self.short_revision}|{self.dtype}"

    @property
    def identity(self) -> str:
        """Return what decides the numbers it gives: its content and its arithmetic."""
        name = "" if self.revision.startswith("sha256:") else self.location
        return f"{name}@{self.revision}:{self.dtype}"

    @cached_property
    def loaded(self) -> LoadedModel:
        """Load it, once; what it reads comes in batches, which are worth all threads."""
        threads = torch.get_num_threads()
        try:
            return self.load(
                self.location, name=self.name, revision=self.wanted, dtype=self.dtype, device=self.device
            )
        finally:
            torch.set_num_threads(threads)

    def map(
        self,
        work: Callable[[LoadedModel, Sequence[Item]], Made],
        chunks: Sequence[Sequence[Item]],
    ) -> Iterator[tuple[int, Made]]:
        """Yield what `work` makes of each chunk with the model, and the chunk's place; here in their order.

        Args:
            work: A function of a module, so that an engine with workers can send it to them; what it
                returns depends on the chunk alone.
            chunks: What the model reads at a time; who cuts them decides the batches, and so the last bits.
        """
        for place, chunk in enumerate(chunks):
            yield place, work(self.loaded, chunk)
