"""Models: what identifies them, which are on this machine, and which the Hugging Face Hub gives. No torch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.opening import open_regular, read_bytes

TIMEOUT_SECONDS = 8.0
"""How long the Hub has to answer about a model."""

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
_OLD_WEIGHTS = ("pytorch_model*.bin", "pytorch_model*.bin.index.json")
_SETTINGS = (
    "config.json", "generation_config.json", "tokenizer*", "vocab*", "merges.txt", "*.model",
    "special_tokens_map.json", "added_tokens.json", "chat_template*", "additional_chat_templates/*",
)  # fmt: skip
_LARGEST_INDEX = 2**26
"""In bytes. That of a model with 50 000 tensors takes about 5 MB."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"(?!.*(\.\.|--))[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)


def has_weights(folder: Path) -> bool:
    """Say whether a model's weights lie in a folder, of any of the kinds that are read."""
    return any(any(folder.glob(pattern)) for pattern in (*_WEIGHTS, *_OLD_WEIGHTS))


def folder_revision(folder: Path) -> str:
    """Return a hash of the names and contents of a model's files: `sha256:` and 16 digits.

    Weights, configuration, tokenizer and chat templates count, and the files that these name in subfolders;
    what else is in the folder does not. Every byte is read, for weights replaced in place keep their names
    and sizes.

    Raises:
        StudyError: The model names a file outside its folder.
    """
    weights = _WEIGHTS if any(folder.glob("*.safetensors")) else _OLD_WEIGHTS
    named = _list_named_weights(folder)
    standard = {path for pattern in (*weights, *_SETTINGS) for path in folder.glob(pattern) if path.is_file()}
    files = sorted(standard | named)
    changed = [path.stat().st_ctime_ns for path in files]
    with ThreadPoolExecutor() as pool:
        contents = list(pool.map(_hash_file, files, changed))
    digest = hashlib.sha256()
    for path, content in zip(files, contents, strict=True):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"


def _list_named_weights(folder: Path) -> set[Path]:
    """Return the files of weights that a model's index or settings name; they may lie in subfolders.

    Raises:
        StudyError: One lies outside the folder.
    """
    names: set[str] = set()
    for path in [*folder.glob("*.index.json"), *folder.glob("config.json")]:
        try:
            content = json.loads(read_bytes(path, limit=_LARGEST_INDEX))
            names.update(content.get("weight_map", {}).values())
            names.update(filter(None, [content.get("transformers_weights")]))
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue  # whoever loads the model says what is wrong with it
    for name in sorted(map(str, names)):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise StudyError(
                f"the model {str(folder)!r} takes weights from {name!r}, which is outside its folder; put "
                "the whole model into one folder"
            )
    return {folder / name for name in map(str, names) if (folder / name).is_file()}


@cache  # one command asks several times; a file that changes meanwhile has another time of change
def _hash_file(path: Path, _changed: int) -> str:
    """Return the SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_revision(location: str, revision: str, *, hashes_folder: bool = True) -> str | None:
    """Return a model's revision if this machine can find it without the network; else None.

    Args:
        location: What `locate_model` returns: a folder's path or a Hub id.
        revision: A Hub branch, tag or commit; a folder has none.
        hashes_folder: Read a folder's files; else a folder's revision is None.
    """
    if Path(location).is_absolute():
        return folder_revision(Path(location)) if hashes_folder and Path(location).is_dir() else None
    if _COMMIT.fullmatch(revision):
        return revision
    snapshot = _find_snapshot(location, revision)
    return snapshot.name if snapshot else None


def _find_snapshot(name: str, revision: str) -> Path | None:
    """Return the folder of a model in the Hub's cache, if its settings are there."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra brings it)

        path = try_to_load_from_cache(name, "config.json", revision=revision)
    except (ImportError, ValueError):  # the package is missing, or the name is none of the Hub's
        return None
    return Path(path).parent if isinstance(path, str) else None


def check_name(name: str, location: str) -> None:
    """Check that a model's name is a folder or can be a Hub id; `location` is `locate_model` of the name.

    Raises:
        StudyError: It is neither.
    """
    if not name:
        raise StudyError("the model's name is empty; give a Hugging Face id, a folder, or 'bundled'")
    if not _HUB_ID.fullmatch(location) and not Path(location).is_dir():
        raise StudyError(
            f"the model {name!r}: there is no folder {location}, and a Hugging Face id is OWNER/NAME; "
            "correct the name"
        )


@dataclass(frozen=True, kw_only=True)
class HubModels:
    """Models of the Hub: which are on this machine, and which can be downloaded.

    Attributes:
        cached: Those on this machine.
        missing: Those to be downloaded.
        problem: Why they cannot be downloaded, with the remedy; "" if nothing is known against it.
        reachable: False if the Hub was asked and did not answer.
    """

    cached: list[str]
    missing: list[str]
    problem: str
    reachable: bool

    @property
    def lines(self) -> list[str]:
        """A line for each model."""
        lines = [f"{name} is on this machine" for name in self.cached]
        return lines + [f"{name} would be downloaded from the Hugging Face Hub" for name in self.missing]

    @contextmanager
    def stay_offline(self) -> Iterator[None]:
        """Keep the model libraries from trying the Hub for each file again, if it cannot be reached."""
        if self.reachable:
            yield
            return
        from huggingface_hub import constants  # noqa: PLC0415 (an extra brings it)

        before = constants.HF_HUB_OFFLINE
        constants.HF_HUB_OFFLINE = True
        try:
            yield
        finally:
            constants.HF_HUB_OFFLINE = before


def find_models(models: Mapping[str, tuple[str, str]]) -> HubModels:
    """Find out which models are on this machine and which would be downloaded.

    The Hub is asked once at most, and not if every model is here in a fixed commit.

    Args:
        models: By name, what `locate_model` makes of it and the wanted branch, tag or commit.

    Raises:
        StudyError: See `check_name`.
    """
    cached: list[str] = []
    missing: list[str] = []
    for name, (location, revision) in models.items():
        check_name(name, location)
        if not Path(location).is_absolute():
            folder = _find_snapshot(location, revision)
            (cached if folder and has_weights(folder) else missing).append(name)
    # Of a branch, the libraries ask for the newest commit, file by file.
    floating = [name for name in cached if not _COMMIT.fullmatch(models[name][1])]
    problem = ""
    reachable = True
    for name in [*missing, *floating][:1]:
        reason, reachable = _ask_hub(*models[name])
        if reason and missing:
            problem = (
                f"cannot get {name} from the Hugging Face Hub ({reason}). Not on this machine: "
                f"{', '.join(missing)}. Correct the name, log in if the model is private (hf auth login), "
                f"download it where there is a network (hf download {name}) and copy the cache, or name a "
                "folder in its place"
            )
    return HubModels(cached=cached, missing=missing, problem=problem, reachable=reachable)


def _ask_hub(name: str, revision: str) -> tuple[str, bool]:
    """Ask the Hub for a model. Return why it is not available ("" if it is), and whether the Hub answered."""
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415 (an extra brings it)

        HfApi().model_info(name, revision=revision, timeout=TIMEOUT_SECONDS)
    except Exception as error:  # noqa: BLE001 (its transport's own, or a page that is no answer of the Hub)
        reason = " ".join(str(error).split()) or type(error).__name__
        status = getattr(getattr(error, "response", None), "status_code", 500)
        return f"{reason:.300}", status < 500
    return "", True
