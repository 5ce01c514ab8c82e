"""Files that are written whole or not at all: the one writer of everything that replaces a file."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from guard_eval.errors import StudyError


def write_whole(path: Path, data: bytes, *, make_folder: bool = False, private: bool = False) -> None:
    """Write a file through a temporary one beside it, so that no reader sees half of it, even after a crash.

    Two processes that write the same file do not mix: the last one wins.

    Args:
        path: The file.
        data: Its content.
        make_folder: Make its folder if there is none.
        private: Let only its owner read it, because it names raters.

    Raises:
        StudyError: The file cannot be written; its old content stays.
    """
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error
