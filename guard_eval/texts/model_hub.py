"""Which models are on this machine, and whether the Hugging Face Hub gives the others. No torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.texts.model_files import COMMIT, find_snapshot, has_weights

TIMEOUT_SECONDS = 8.0
"""How long the Hub has to answer about a model."""

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)

_REFUSALS = {
    "GatedRepoError": "its owner must grant access; ask on its page there, and log in: hf auth login",
    "RevisionNotFoundError": "it has no such revision; correct it in study.toml",
    "RepositoryNotFoundError": (
        "there is no such model, or it is private; correct the name, or log in: hf auth login"
    ),
}
"""What the Hub's errors say of a model."""


@dataclass(kw_only=True)
class HubModels:
    """What is known of models of the Hub, by their ids.

    Attributes:
        cached: Those on this machine.
        missing: Those to be downloaded.
        refused: Those that the Hub does not give, and why.
        unreachable: Why the Hub cannot be reached; None if it can, or was not asked.
    """

    cached: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    unreachable: str | None = None

    def lines(self) -> list[str]:
        """Return a line for each model."""
        lines = [f"{name} is on this machine" for name in self.cached]
        return lines + [f"{name} would be downloaded from the Hugging Face Hub" for name in self.missing]

    def problem(self) -> str | None:
        """Return what keeps models from being loaded, all at once, with the remedy; None if nothing."""
        parts = [f"the Hugging Face Hub does not give {name}: {why}" for name, why in self.refused.items()]
        if self.missing and self.unreachable:
            parts.append(
                f"the Hugging Face Hub cannot be reached ({self.unreachable}). Not on this "
                f"machine: {', '.join(self.missing)}. Download them where there is a network "
                f"(hf download {self.missing[0]}) and copy the cache, or name folders in their place"
            )
        return "\n".join(parts) or None

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Keep the model libraries from trying the Hub for each file again, if it cannot be reached."""
        if self.unreachable is None:
            yield
            return
        from huggingface_hub import constants  # noqa: PLC0415 (an extra brings it)

        before, variable = constants.HF_HUB_OFFLINE, os.environ.get("HF_HUB_OFFLINE")
        constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"] = True, "1"  # the latter for workers
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before
            os.environ.pop("HF_HUB_OFFLINE")
            os.environ |= {} if variable is None else {"HF_HUB_OFFLINE": variable}


def check_name(name: str, location: str) -> None:
    """Check that a model's name can be one.

    Args:
        name: As the user wrote it.
        location: What `locate_model` makes of it.

    Raises:
        StudyError: It is a folder that does not exist, or neither a folder nor a Hub id.
    """
    if Path(location).is_absolute():
        if not Path(location).is_dir():
            raise StudyError(
                f"the model {name!r}: there is no folder {location}; correct the name, or put the model there"
            )
    elif not _HUB_ID.fullmatch(name) or ".." in name or "--" in name:
        raise StudyError(
            f"the model {name!r}: there is no such folder, and a Hugging Face id is OWNER/NAME; "
            "correct the name"
        )


def find_models(models: Mapping[str, tuple[str, str]]) -> HubModels:
    """Find out which models are on this machine and which would be downloaded.

    The Hub is not asked if every model is here in a fixed commit. The first question that it does not answer
    is the last one.

    Args:
        models: By name, what `locate_model` makes of it and the wanted branch, tag or commit.

    Raises:
        StudyError: See `check_name`.
    """
    result, floating = HubModels(), []
    for name, (location, revision) in models.items():
        check_name(name, location)
        if not Path(location).is_absolute():
            folder = find_snapshot(location, revision)
            (result.cached if folder and has_weights(folder) else result.missing).append(name)
            floating += [] if COMMIT.fullmatch(revision) else [name]
    # Of a branch, the libraries ask for the newest commit, file by file.
    for name in [*result.missing] or floating[:1]:
        refusal, result.unreachable = _ask(*models[name])
        if result.unreachable:
            break
        if refusal and name in result.missing:
            result.missing.remove(name)
            result.refused[name] = refusal
    return result


def _ask(name: str, revision: str) -> tuple[str | None, str | None]:
    """Return why the Hub does not give a model, and why it cannot be reached."""
    try:
        from huggingface_hub import HfApi, constants  # noqa: PLC0415 (an extra brings it)
    except ImportError:
        return None, "the package huggingface_hub is not installed"
    if constants.HF_HUB_OFFLINE:
        return None, "HF_HUB_OFFLINE is set"
    try:
        HfApi().model_info(name, revision=revision, timeout=TIMEOUT_SECONDS)
    except Exception as error:  # noqa: BLE001 (its transport's own, or a page that is no answer of the Hub)
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        refusal = _REFUSALS.get(type(error).__name__)
        return refusal, None if refusal else f"{constants.ENDPOINT}: {first}"
    return None, None
