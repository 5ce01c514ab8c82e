"""Which models lie on this machine, and what the Hugging Face Hub says of the others. No torch."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from threading import Thread
from typing import Any

from guard_eval.errors import StudyError
from guard_eval.texts.model_files import OLD_WEIGHTS, SETTINGS, WEIGHTS, has_weights, known_revision

SECONDS = 8.0
"""How long the Hub has to answer about all models together."""

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True)
class HubModels:
    """What is known of models of the Hub, by their ids.

    Attributes:
        cached: Those on this machine, in bytes.
        missing: Those to be downloaded, in bytes; None where the Hub does not state it.
        refused: Those that the Hub does not give, and why.
        unreachable: Why the Hub cannot be reached; None if it can, or need not be.
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
        constants.HF_HUB_OFFLINE = True
        os.environ["HF_HUB_OFFLINE"] = "1"  # of workers
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before
            os.environ.pop("HF_HUB_OFFLINE")
            if environment is not None:
                os.environ["HF_HUB_OFFLINE"] = environment


def check_name(name: str, location: str) -> None:
    """Make sure that a model's name can be one.

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


def find_models(models: Mapping[str, tuple[str, str]], *, ask: bool = True) -> HubModels:
    """Find out which models are on this machine and which would be downloaded.

    The Hub is asked about all of them at once, and not at all where every model is here in a fixed commit.

    Args:
        models: By name, what `locate_model` makes of it and the wanted branch, tag or commit.
        ask: Whether to ask the Hub at all.

    Raises:
        StudyError: See `check_name`.
    """
    for name, (location, _) in models.items():
        check_name(name, location)
    wanted = {
        location: revision for location, revision in models.values() if not Path(location).is_absolute()
    }
    cached = {
        name: _bytes(folder)
        for name, revision in wanted.items()
        if (folder := _snapshot(name, revision)) is not None
    }
    missing = [name for name in wanted if name not in cached]
    floating = [name for name, revision in wanted.items() if not _COMMIT.fullmatch(revision)]
    # Of a branch, the libraries ask for the newest commit, file by file.
    open_questions = missing or floating[:1]
    if not ask or not open_questions:
        return HubModels(cached=cached, missing=dict.fromkeys(missing), refused={})
    answers = _ask({name: wanted[name] for name in open_questions})
    refused = {name: one for name, one in answers.items() if isinstance(one, str) and name not in cached}
    failed = [one for one in answers.values() if isinstance(one, _Unreachable)]
    return HubModels(
        cached=cached,
        missing={
            name: size if isinstance(size := answers[name], int) else None
            for name in missing
            if name not in refused
        },
        refused=refused,
        unreachable=failed[0].why if len(failed) == len(answers) else None,
    )


@dataclass(frozen=True)
class _Unreachable:
    why: str


def _ask(models: Mapping[str, str]) -> dict[str, int | str | _Unreachable]:
    """Return, by model, the bytes that it has, why the Hub does not give it, or why there is no answer."""
    try:
        from huggingface_hub import constants  # noqa: PLC0415 (an extra brings it)
    except ImportError:
        return dict.fromkeys(models, _Unreachable("the package huggingface_hub is not installed"))
    if constants.HF_HUB_OFFLINE:
        return dict.fromkeys(models, _Unreachable("HF_HUB_OFFLINE is set"))
    none = _Unreachable(f"no answer from {constants.ENDPOINT} within {SECONDS:.0f} s")
    answers: dict[str, int | str | _Unreachable] = {}
    # A server may accept and never answer, or a name never resolve: then the thread is left behind.
    threads = [
        Thread(
            target=lambda name=name, revision=revision: answers.update({name: _answer(name, revision)}),
            daemon=True,
        )
        for name, revision in models.items()
    ]
    end = time.monotonic() + SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return {name: answers.get(name, none) for name in models}


def _answer(name: str, revision: str) -> int | str | _Unreachable:
    from huggingface_hub import HfApi, constants, errors  # noqa: PLC0415 (an extra brings it)

    try:
        info = HfApi().model_info(name, revision=revision, files_metadata=True, timeout=SECONDS)
    except errors.GatedRepoError:
        return "its owner must grant access; ask on its page there, and log in: hf auth login"
    except errors.RevisionNotFoundError:
        return f"it has no revision {revision!r}"
    except errors.RepositoryNotFoundError:
        return "there is no such model, or it is private; correct the name, or log in: hf auth login"
    except Exception as error:  # noqa: BLE001 (its transport's own, or a page that is no answer of the Hub)
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return _Unreachable(f"{constants.ENDPOINT}: {first}")
    return _to_download({one.rfilename: one.size or 0 for one in info.siblings or []})


def _to_download(files: Mapping[str, int]) -> int:
    """Return the bytes of the files that are read of a model: of two kinds of weights the first."""
    weights = WEIGHTS if any(fnmatch(name, WEIGHTS[0]) for name in files) else OLD_WEIGHTS
    return sum(
        size
        for name, size in files.items()
        if "/" not in name and any(fnmatch(name, pattern) for pattern in (*weights, *SETTINGS))
    )


def _snapshot(name: str, revision: str) -> Path | None:
    """Return the folder of a model in the Hub's cache, if its settings and some weights lie there."""
    commit = known_revision(name, revision)
    if commit is None:
        return None
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra brings it)

    path: Any = try_to_load_from_cache(name, "config.json", revision=commit)
    if not isinstance(path, str):
        return None
    folder = Path(path).parent
    return folder if has_weights(folder) else None


def weights_size(location: str, revision: str) -> int | None:
    """Return the bytes of a model's weights; None of a model that is not on this machine."""
    folder = Path(location) if Path(location).is_absolute() else _snapshot(location, revision)
    if folder is None:
        return None
    weights = [path for path in folder.iterdir() if any(fnmatch(path.name, one) for one in WEIGHTS)]
    old = [path for path in folder.iterdir() if any(fnmatch(path.name, one) for one in OLD_WEIGHTS)]
    return sum(path.stat().st_size for path in weights or old)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _size(count: int) -> str:
    """Return a number of bytes for people.

    >>> _size(523_000_000), _size(5_300_000_000)
    ('523 MB', '5.3 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{max(1, round(count / 1e6))} MB"
