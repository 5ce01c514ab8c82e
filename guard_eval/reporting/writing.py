"""Files that are written whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from guard_eval.errors import StudyError


def write_whole(path: Path, data: bytes, *, make_folder: bool = False, private: bool = False) -> None:
    """Write a file by way of another one beside it, so that no reader finds half of it.

    Args:
        path: The file.
        data: All of it.
        make_folder: Make its folder if there is none.
        private: Let only its owner read it: it names raters.

    Raises:
        StudyError: The file cannot be written; what stood there before still does.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if private:
            partial.unlink(missing_ok=True)
            partial.touch(0o600)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error
