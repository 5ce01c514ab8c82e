"""The models that score texts. Each is loaded only when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from guard_eval.study import Study

if TYPE_CHECKING:  # metrics without models do not need torch
    from guard_eval.generation.engines.loading import LoadedModel, ModelKind

REVISION_CHARACTERS = 12
"""A signature shows this number of characters of a revision."""


@dataclass(frozen=True)
class ScoringModel:
    """A model that scores texts. The name and revision are known before the model is loaded.

    Attributes:
        location: A folder or a Hub id.
        name: The model's name in the settings.
        device: The device that the model runs on, or `auto`.
        branch: A branch, tag or commit of the Hub.
        kind: The transformers class that loads the model.
    """

    location: str
    name: str
    device: str = "auto"
    branch: str = "main"
    kind: ModelKind = "AutoModelForCausalLM"

    @cached_property
    def revision(self) -> str:
        """Return the commit of the Hub, or the hash of the folder's files."""
        from guard_eval.generation.engines.loading import ModelFiles  # noqa: PLC0415 (needs torch)

        return ModelFiles.open(self.location, self.branch).revision

    @cached_property
    def dtype(self) -> str:
        """Return the number format: float32 on a CPU, bfloat16 on a GPU."""
        from guard_eval.generation.engines.loading import predict_device_kind  # noqa: PLC0415

        return "float32" if predict_device_kind(self.device) == "cpu" else "bfloat16"

    @property
    def signature(self) -> str:
        """Return the part of a score's signature that describes the model."""
        revision = self.revision.removeprefix("sha256:")[:REVISION_CHARACTERS]
        return f"model:{self.name}|revision:{revision}|{self.dtype}"

    @property
    def identity(self) -> str:
        """Return a text for cache keys, which differs if the model's content or number format differs."""
        name = "" if self.revision.startswith("sha256:") else self.location
        return f"{name}@{self.revision}:{self.dtype}"

    @cached_property
    def loaded_model(self) -> LoadedModel:
        """Load the model once. Use all threads, because scoring reads texts in large batches."""
        import torch  # noqa: PLC0415

        from guard_eval.generation.engines.loading import load_pretrained  # noqa: PLC0415

        threads = torch.get_num_threads()
        try:
            return load_pretrained(
                self.location,
                name=self.name,
                revision=self.branch,
                dtype=self.dtype,
                device=self.device,
                kind=self.kind,
            )
        finally:
            torch.set_num_threads(threads)


@dataclass(frozen=True)
class ScoringModels:
    """The scoring models, by their names in the settings.

    Attributes:
        locate: A function that returns the folder or Hub id of a name.
        device: The device that the models run on, or `auto`.
        revisions: The branch, tag or commit of models, by name. Other models use `main`.
    """

    locate: Callable[[str], str]
    device: str = "auto"
    revisions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_study(cls, study: Study) -> ScoringModels:
        """Return a study's scoring models."""
        models = [model_study.settings.model for model_study in study.split_by_model()]
        revisions = {model.name: model.revision for model in models}
        return cls(study.locate_model, device=study.settings.model.one_device, revisions=revisions)

    def open(self, name: str, *, kind: ModelKind = "AutoModelForCausalLM") -> ScoringModel:
        """Return a language model, or an encoder (`AutoModel`), without loading it."""
        return ScoringModel(self.locate(name), name, self.device, self.revisions.get(name, "main"), kind)
