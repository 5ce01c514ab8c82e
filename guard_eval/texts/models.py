"""Identify models, and find them on this machine or the Hugging Face Hub, without importing torch."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.opening import open_regular_file, read_bytes
from guard_eval.records import record

TIMEOUT_SECONDS = 8.0
"""Seconds to wait for the Hugging Face Hub's answer about a model."""

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
_OLD_WEIGHTS = ("pytorch_model*.bin", "pytorch_model*.bin.index.json")
_SETTINGS = (
    "config.json", "generation_config.json", "tokenizer*", "vocab*", "merges.txt", "*.model",
    "special_tokens_map.json", "added_tokens.json", "chat_template*", "additional_chat_templates/*",
)  # fmt: skip
_LARGEST_INDEX = 2**26
"""The largest allowed index of a model's weight files, in bytes. 50 000 tensors take about 5 MB."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"(?!.*(\.\.|--))[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)


def has_weights(folder: Path) -> bool:
    """Return whether a folder has a model's weights in any supported format."""
    return any(any(folder.glob(pattern)) for pattern in (*_WEIGHTS, *_OLD_WEIGHTS))


def hash_model_folder(folder: Path) -> str:
    """Return a hash of the names and contents of a model's files: `sha256:` and 16 digits.

    The hash covers weights, configuration, tokenizer, chat templates, and files in subfolders that these
    files name. All other files are left out. Every byte is read, because replaced weights can have the same
    names and sizes.

    Raises:
        StudyError: The model names a file outside its folder.
    """
    weights = _WEIGHTS if any(folder.glob("*.safetensors")) else _OLD_WEIGHTS
    named = _list_indexed_weight_files(folder)
    standard = {path for pattern in (*weights, *_SETTINGS) for path in folder.glob(pattern) if path.is_file()}
    files = sorted(standard | named)
    changed = [path.stat().st_ctime_ns for path in files]
    with ThreadPoolExecutor() as pool:
        contents = list(pool.map(_hash_file, files, changed))
    digest = hashlib.sha256()
    for path, content in zip(files, contents, strict=True):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"


def _list_indexed_weight_files(folder: Path) -> set[Path]:
    """Return the files of weights that a model's index or settings name, also in subfolders.

    Raises:
        StudyError: A file is outside the folder.
    """
    names: set[str] = set()
    for path in [*folder.glob("*.index.json"), *folder.glob("config.json")]:
        try:
            content = json.loads(read_bytes(path, limit=_LARGEST_INDEX))
            names.update(content.get("weight_map", {}).values())
            names.update(filter(None, [content.get("transformers_weights")]))
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue  # loading the model will report the error
    for name in sorted(map(str, names)):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise StudyError(
                f"the model {str(folder)!r} takes weights from {name!r}, which is outside its folder; put "
                "the whole model into one folder"
            )
    return {folder / name for name in map(str, names) if (folder / name).is_file()}


@cache  # one command asks several times; a changed file has another modification time
def _hash_file(path: Path, _changed: int) -> str:
    """Return the SHA-256 of a file."""
    with open_regular_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_local_revision(location: str, revision: str, *, may_hash_files: bool = True) -> str | None:
    """Return a model's revision if it can be found without the network, else None.

    Args:
        location: What `locate_model` returns: a folder's path or a Hub id.
        revision: A branch, tag or commit of the Hub; without meaning for a folder.
        may_hash_files: Hash the files of a folder. Otherwise, a folder's revision is None.
    """
    if Path(location).is_absolute():
        return hash_model_folder(Path(location)) if may_hash_files and Path(location).is_dir() else None
    if _COMMIT.fullmatch(revision):
        return revision
    snapshot = _find_hub_snapshot(location, revision)
    return snapshot.name if snapshot else None


def _find_hub_snapshot(name: str, revision: str) -> Path | None:
    """Return the folder of a model in the Hub's cache, if its settings are there."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra brings it)

        path = try_to_load_from_cache(name, "config.json", revision=revision)
    except (ImportError, ValueError):  # the package is missing, or the name is no valid Hub id
        return None
    return Path(path).parent if isinstance(path, str) else None


def check_model_name(name: str, location: str) -> None:
    """Check that a model's name is a folder or a possible Hub id; `location` is the result of `locate_model`.

    Raises:
        StudyError: The name is neither.
    """
    if not name:
        raise StudyError("the model's name is empty; give a Hugging Face id, a folder, or 'bundled'")
    if not _HUB_ID.fullmatch(location) and not Path(location).is_dir():
        raise StudyError(
            f"the model {name!r}: there is no folder {location}, and a Hugging Face id is OWNER/NAME; "
            "correct the name"
        )


@record
class HubModels:
    """The Hub models that are on this machine, and the Hub models that must be downloaded.

    Attributes:
        cached: The models on this machine.
        missing: The models that must be downloaded.
        problem: The reason why missing models cannot be downloaded, with the remedy; "" if none is known.
        reachable: False if the Hub was asked and did not answer; otherwise True.
    """

    cached: list[str]
    missing: list[str]
    problem: str
    reachable: bool

    @property
    def availability_lines(self) -> list[str]:
        """Return lines that say which models are on this machine, and which must be downloaded."""
        lines = [f"{name} is on this machine" for name in self.cached]
        return lines + [f"{name} would be downloaded from the Hugging Face Hub" for name in self.missing]

    @contextmanager
    def skip_unreachable_hub(self) -> Iterator[None]:
        """Within the context, stop model libraries from asking a Hub that cannot be reached for each file."""
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


def find_local_and_hub_models(models: Mapping[str, tuple[str, str]]) -> HubModels:
    """Find out which models are on this machine and which must be downloaded.

    The Hub is asked at most once, and never if every model is on this machine at a fixed commit.

    Args:
        models: For each name, the result of `locate_model` and the wanted branch, tag or commit.

    Raises:
        StudyError: See `check_model_name`.
    """
    cached: list[str] = []
    missing: list[str] = []
    for name, (location, revision) in models.items():
        check_model_name(name, location)
        if not Path(location).is_absolute():
            folder = _find_hub_snapshot(location, revision)
            (cached if folder and has_weights(folder) else missing).append(name)
    # For a branch, the libraries ask the Hub for the newest commit, once for each file.
    floating = [name for name in cached if not _COMMIT.fullmatch(models[name][1])]
    problem = ""
    reachable = True
    for name in [*missing, *floating][:1]:
        reason, reachable = _check_model_on_hub(*models[name])
        if reason and missing:
            problem = (
                f"cannot get {name} from the Hugging Face Hub ({reason}). Not on this machine: "
                f"{', '.join(missing)}. Correct the name, log in if the model is private (hf auth login), "
                f"download it where there is a network (hf download {name}) and copy the cache, or name a "
                "folder in its place"
            )
    return HubModels(cached=cached, missing=missing, problem=problem, reachable=reachable)


def _check_model_on_hub(name: str, revision: str) -> tuple[str, bool]:
    """Ask the Hub for a model. Return the reason if it is unavailable, and whether the Hub answered."""
    try:
        from huggingface_hub import HfApi  # noqa: PLC0415 (an extra brings it)

        HfApi().model_info(name, revision=revision, timeout=TIMEOUT_SECONDS)
    except Exception as error:  # noqa: BLE001 (its transport's own, or a page that is no answer of the Hub)
        reason = " ".join(str(error).split()) or type(error).__name__
        status = getattr(getattr(error, "response", None), "status_code", 500)
        return f"{reason:.300}", status < 500
    return "", True
