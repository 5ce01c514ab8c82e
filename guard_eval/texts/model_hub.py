"""Which models are on this machine, and what the Hugging Face Hub says of the others. No torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.texts.model_files import OLD_WEIGHTS, SETTINGS, WEIGHTS, has_weights, known_revision

SECONDS = 8.0
"""How long the Hub has to answer about a model."""

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


class UnreachableError(Exception):
    """The Hub does not answer; the message says why."""


@dataclass(frozen=True, kw_only=True)
class HubModels:
    """What is known of models of the Hub, by their ids.

    Attributes:
        cached: Those on this machine, in bytes.
        missing: Those to be downloaded, in bytes; None if the Hub did not say it.
        refused: Those that the Hub does not give, and why.
        unreachable: Why the Hub cannot be reached; None if it can, or was not asked.
    """

    cached: Mapping[str, int]
    missing: Mapping[str, int | None]
    refused: Mapping[str, str]
    unreachable: str | None = None

    def lines(self) -> list[str]:
        """Return a line for each model."""
        lines = [f"{name} is on this machine ({_size(size)})" for name, size in self.cached.items()]
        for name, size in self.missing.items():
            much = "" if size is None else f" ({_size(size)})"
            lines.append(
                f"{name} is not on this machine; it would be downloaded from the Hugging Face Hub{much}"
            )
        return lines

    def problem(self) -> str | None:
        """Return what keeps models from being loaded, all at once, with the remedy; None if nothing."""
        parts = [f"the Hugging Face Hub does not give {name}: {why}" for name, why in self.refused.items()]
        if self.missing and self.unreachable:
            parts.append(
                f"the Hugging Face Hub cannot be reached ({self.unreachable}). Not on this "
                f"machine: {', '.join(self.missing)}. Download them where there is a network "
                f"(hf download {next(iter(self.missing))}) and copy the cache, or name folders in their place"
            )
        return "\n".join(parts) or None

    @contextmanager
    def offline(self) -> Iterator[None]:
        """Keep the model libraries from trying the Hub for each file again, if it cannot be reached."""
        if self.unreachable is None:
            yield
            return
        from huggingface_hub import constants  # noqa: PLC0415 (an extra brings it)

        before, environment = constants.HF_HUB_OFFLINE, os.environ.get("HF_HUB_OFFLINE")
        constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"] = True, "1"  # the latter for workers
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before
            os.environ.pop("HF_HUB_OFFLINE")
            if environment is not None:
                os.environ["HF_HUB_OFFLINE"] = environment


def check_name(name: str, location: str) -> None:
    """Check that a model's name can be one.

    Args:
        name: As the user wrote it.
        location: What `locate_model` makes of it.

    Raises:
        StudyError: It is empty, a folder that does not exist, or neither a folder nor a Hub id.
    """
    if not name.strip():
        raise StudyError(f"the model {name!r} has no name; write a Hugging Face id, a folder or 'bundled'")
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
    for name, (location, _) in models.items():
        check_name(name, location)
    wanted = {
        location: revision for location, revision in models.values() if not Path(location).is_absolute()
    }
    folders = {name: _snapshot(name, revision) for name, revision in wanted.items()}
    cached = {name: _bytes(folder) for name, folder in folders.items() if folder is not None}
    missing: dict[str, int | None] = dict.fromkeys(name for name in wanted if name not in cached)
    refused: dict[str, str] = {}
    # Of a branch, the libraries ask for the newest commit, file by file.
    floating = [name for name, revision in wanted.items() if not _COMMIT.fullmatch(revision)]
    for name in [*missing] or floating[:1]:
        try:
            size = _ask(name, wanted[name])
        except StudyError as error:
            if missing.pop(name, 0) is None:
                refused[name] = str(error)
        except UnreachableError as error:
            return HubModels(cached=cached, missing=missing, refused=refused, unreachable=str(error))
        else:
            missing |= {name: size} if name in missing else {}
    return HubModels(cached=cached, missing=missing, refused=refused)


def _ask(name: str, revision: str) -> int:
    """Return how many bytes the Hub would send of a model."""
    try:
        from huggingface_hub import HfApi, constants, errors  # noqa: PLC0415 (an extra brings it)
    except ImportError:
        raise UnreachableError("the package huggingface_hub is not installed") from None
    if constants.HF_HUB_OFFLINE:
        raise UnreachableError("HF_HUB_OFFLINE is set")
    try:
        info = HfApi().model_info(name, revision=revision, files_metadata=True, timeout=SECONDS)
    except errors.GatedRepoError:
        raise StudyError(
            "its owner must grant access; ask on its page there, and log in: hf auth login"
        ) from None
    except errors.RevisionNotFoundError:
        raise StudyError(f"it has no revision {revision!r}") from None
    except errors.RepositoryNotFoundError:
        raise StudyError(
            "there is no such model, or it is private; correct the name, or log in: hf auth login"
        ) from None
    except Exception as error:  # noqa: BLE001 (its transport's own, or a page that is no answer of the Hub)
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnreachableError(f"{constants.ENDPOINT}: {first}") from None
    files = {file.rfilename: file.size or 0 for file in info.siblings or []}
    # Of two kinds of weights the first one is read.
    weights = WEIGHTS if any(fnmatch(file, WEIGHTS[0]) for file in files) else OLD_WEIGHTS
    patterns = (*weights, *SETTINGS)
    return sum(
        size
        for file, size in files.items()
        if "/" not in file and any(fnmatch(file, pattern) for pattern in patterns)
    )


def _snapshot(name: str, revision: str) -> Path | None:
    """Return the folder of a model in the Hub's cache, if its settings and some weights are there."""
    commit = known_revision(name, revision)
    if commit is None:
        return None
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra brings it)

    path = try_to_load_from_cache(name, "config.json", revision=commit)
    folder = Path(path).parent if isinstance(path, str) else None
    return folder if folder is not None and has_weights(folder) else None


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _size(count: int) -> str:
    """Return a number of bytes for people.

    >>> _size(523_000_000), _size(5_300_000_000)
    ('523 MB', '5.3 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"
