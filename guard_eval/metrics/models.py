"""The models that score texts, loaded when they are needed and only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from guard_eval.study import Study
from guard_eval.study.folder import locate_model

if TYPE_CHECKING:  # metrics of texts alone need no torch
    from guard_eval.engines.loading import LoadedModel

REVISION_CHARACTERS = 12
"""How much of a revision a signature shows."""


SEEN_FROM_HERE = partial(locate_model, folder=Path())
"""Locates models for texts without a study."""


@dataclass(frozen=True)
class ScoringModel:
    """A model whose name and revision are known before it is loaded.

    Attributes:
        load: `loading.load` or `loading.load_encoder`.
        location: A folder or a Hub id.
        name: What the user calls it.
        dtype: Its arithmetic.
        device: Where it runs.
        wanted: A branch, tag or commit of the Hub.
    """

    load: Callable[..., LoadedModel]
    location: str
    name: str
    dtype: str
    device: str
    wanted: str = "main"

    @cached_property
    def revision(self) -> str:
        """Return the Hub's commit or the hash of the folder's files."""
        from guard_eval.engines.loading import model_revision  # noqa: PLC0415 (needs torch)

        return model_revision(self.location, self.wanted)

    @property
    def short_revision(self) -> str:
        """Return the revision's first digits."""
        return self.revision.removeprefix("sha256:")[:REVISION_CHARACTERS]

    @property
    def signature(self) -> str:
        """Return what a score's signature says of the model."""
        return f"model:{self.name}|revision:{self.short_revision}|{self.dtype}"

    @property
    def identity(self) -> str:
        """Return what decides the model's numbers: its content and its arithmetic."""
        name = "" if self.revision.startswith("sha256:") else self.location
        return f"{name}@{self.revision}:{self.dtype}"

    @cached_property
    def loaded(self) -> LoadedModel:
        """Load the model, once. It reads texts in batches, which are worth all threads."""
        import torch  # noqa: PLC0415 (metrics of texts alone need no torch)

        threads = torch.get_num_threads()
        try:
            return self.load(
                self.location, name=self.name, revision=self.wanted, dtype=self.dtype, device=self.device
            )
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class ScoringModels:
    """Scoring models as the user names them.

    Attributes:
        locate: What to load for a name.
        device: Where they run, or `auto`.
        dtype: Their arithmetic, or `auto`: float32 on a CPU, bfloat16 on a GPU.
        revisions: The wanted revisions by name; `main` for others.
    """

    locate: Callable[[str], str] = SEEN_FROM_HERE
    device: str = "auto"
    dtype: str = "auto"
    revisions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_study(cls, study: Study) -> ScoringModels:
        """Return a study's scoring models."""
        model = study.settings.model
        return cls(study.locate_model, device=model.device, revisions={model.name: model.revision})

    def causal(self, name: str) -> ScoringModel:
        """Return a language model."""
        return self._model("load", name)

    def encoder(self, name: str) -> ScoringModel:
        """Return an encoder."""
        return self._model("load_encoder", name)

    def _model(self, loader: str, name: str) -> ScoringModel:
        import torch  # noqa: PLC0415

        from guard_eval.engines import loading  # noqa: PLC0415

        on_cpu = self.device == "cpu" or (self.device == "auto" and not torch.cuda.is_available())
        dtype = self.dtype if self.dtype != "auto" else "float32" if on_cpu else "bfloat16"
        wanted = self.revisions.get(name, "main")
        return ScoringModel(getattr(loading, loader), self.locate(name), name, dtype, self.device, wanted)
