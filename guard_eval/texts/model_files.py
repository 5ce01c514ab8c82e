"""What a model is known by: a Hub commit, or a hash of its folder's files. No torch."""

from __future__ import annotations

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

WEIGHTS = ("*.safetensors", "*.safetensors.index.json")
OLD_WEIGHTS = ("pytorch_model*.bin", "pytorch_model*.bin.index.json")
SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "additional_chat_templates/*",
    "*.model",
)
COMMIT = re.compile(r"[0-9a-f]{40}")


def has_weights(folder: Path) -> bool:
    """Say whether a model's weights lie in a folder, of any of the kinds that are read."""
    return any(next(folder.glob(pattern), None) for pattern in (*WEIGHTS, *OLD_WEIGHTS))


def folder_revision(folder: Path) -> str:
    """Return `sha256:` and 16 digits that stand for the names and contents of the files a model is made of.

    Weights, configuration, tokenizer and chat templates count; what else is in the folder does not. Every
    byte is read, for weights replaced in place keep their names and sizes; files are read side by side.
    """
    weights = WEIGHTS if any(folder.glob("*.safetensors")) else OLD_WEIGHTS
    files = sorted({p for pattern in (*weights, *SETTINGS) for p in folder.glob(pattern) if p.is_file()})
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        contents = list(pool.map(_content, files))
    digest = hashlib.sha256()
    for path, content in zip(files, contents, strict=True):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return f"sha256:{digest.hexdigest()[:16]}"


def _content(path: Path) -> str:
    stat = path.stat()
    return _hash_file(path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@cache  # one command asks several times; a file that changes meanwhile has another time of change
def _hash_file(path: Path, *_state: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_revision(location: str, revision: str, *, read: bool = True) -> str | None:
    """Return a model's revision if this machine can find it without the network; else None.

    Args:
        location: A folder's path or a Hub id.
        revision: A Hub branch, tag or commit; a folder has none.
        read: Read a folder's files; else a folder's revision is None.
    """
    folder = Path(location).expanduser()
    if location.startswith((".", "~")) or folder.is_absolute() or folder.is_dir():
        return folder_revision(folder) if read and folder.is_dir() else None
    if COMMIT.fullmatch(revision):
        return revision
    snapshot = find_snapshot(location, revision)
    return snapshot.name if snapshot else None


def find_snapshot(name: str, revision: str) -> Path | None:
    """Return the folder of a model in the Hub's cache, if its settings are there."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 (an extra brings it)
        from huggingface_hub.errors import HFValidationError  # noqa: PLC0415
    except ImportError:
        return None
    try:
        path = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(path).parent if isinstance(path, str) else None
