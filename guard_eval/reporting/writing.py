"""Write all files of commands, in studies and in other folders.

A study's folder and the links in it come from other people. Therefore, no file is written outside its folder
through a link, and no file that a command did not make is overwritten.
"""

import os
import re
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text

LIST = "files.txt"
"""The file in a folder of results that lists all files of the results, including itself."""

_REMOVABLE = re.compile(
    r"(csv|figures|paper|prompts)/[A-Za-z0-9_-]+\.(bib|csv|svg|pdf|png|md|tex|txt)|report\.tex"
)
"""The names of files that later results may remove. Other files stay, even if a list names them."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(
    path: Path,
    data: bytes,
    *,
    make_folder: bool = False,
    private: bool = False,
    within: Path | None = None,
) -> None:
    """Write a file through a temporary file beside it. No reader sees half a file, even after a crash.

    If two processes write the same file, their contents do not mix: the last process wins.

    Args:
        path: The file.
        data: The content of the file.
        make_folder: Make the folder of the file if it is missing.
        private: Let only the owner read the file, because it names raters.
        within: The folder in which the file must be after all links are followed. A file of a study must also
            be in the study.

    Raises:
        StudyError: The file cannot be written, or `resolve_write_target` refuses it. The old content stays.
    """
    with _open_parent_folder(path, within, make=make_folder) as (folder, name):
        temporary = f".{name[:100]}.{secrets.token_hex(6)}"
        try:
            mode = 0o600 if private else 0o666
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def check_replaceable(path: Path, mark: str, *, searched: int | None = None) -> None:
    """Refuse to replace a file that the user has named, unless the file has the mark of our results.

    Args:
        path: The file.
        mark: The mark. By default, it is the beginning of the file.
        searched: The number of bytes among which the mark may be anywhere.

    Raises:
        StudyError: The file is not empty and has no mark.
    """
    expected = mark.encode()
    content = b""
    if path.is_file():
        with explain_write_errors(path), path.open("rb") as file:
            content = file.read(searched or len(expected))
    if content and expected not in content:
        raise StudyError(
            f"{path} exists, and is no earlier result of this command; move it away, or name another file"
        )


@contextmanager
def open_to_append(path: Path) -> Iterator[FileIO]:
    """Open a file to append to it without a buffer. The file and its folder are made if they are missing.

    Raises:
        StudyError: The file cannot be opened, or `resolve_write_target` refuses it.
    """
    with _open_parent_folder(path, make=True, refuse_hard_link=True) as (folder, name):
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        handle = os.open(name, flags, 0o666, dir_fd=folder)
    with os.fdopen(handle, "ab", buffering=0) as file:
        yield file


def write_folder(folder: Path, files: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write files, by path in a folder of results, and remove the outdated files of earlier results.

    The first file is written last, so that all files that a new page links to exist.

    Raises:
        StudyError: The folder cannot be written, or `claim_results_folder` refuses it.
    """
    earlier = claim_results_folder(folder, files)
    for name in reversed(list(files)):
        content = files[name]
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        write_atomically(folder / name, data, make_folder=True, within=folder)
    outdated = {name for name in earlier - files.keys() if _REMOVABLE.fullmatch(name)}
    for path in (folder / name for name in outdated if (folder / name).exists()):
        with _open_parent_folder(path, folder) as (parent, name), suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
    _write_file_list(folder, earlier - outdated | files.keys())
    return tuple(folder / name for name in (*files, LIST))


def claim_results_folder(folder: Path, names: Collection[str] = ()) -> set[str]:
    """Claim a folder for results before anything is written. Return the files that the folder's list names.

    Args:
        folder: The folder. It is new, empty, or holds results.
        names: The files that will be written. If such a file exists, the folder's list must name it.

    Raises:
        StudyError: `check_results_folder` refuses the folder, a file that guard-eval did not write has one of
            these names, or the folder cannot be written.
    """
    earlier = check_results_folder(folder)
    for name in sorted(set(names) - earlier):
        if os.path.lexists(folder / name):
            raise StudyError(f"{folder / name} exists, and guard-eval did not write it; move it away")
    if not earlier >= {*names, LIST}:
        _write_file_list(folder, {*names, *earlier})
    return earlier


def check_results_folder(folder: Path) -> set[str]:
    """Return the files that a folder of results lists; none if the folder is new or empty.

    Raises:
        StudyError: The folder has files but no list of results.
    """
    with explain_write_errors(folder):
        listed = folder / LIST
        earlier = set(read_text(listed).splitlines()) if listed.is_file() else set()
        earlier = earlier if LIST in earlier else set()
        # a command that was killed at once may have left only a part of the list
        is_new = folder.is_dir() and all(path.name.startswith(f".{LIST}.") for path in folder.iterdir())
        if not earlier and folder.exists() and not is_new:
            raise StudyError(
                f"{folder} exists but has no results of guard-eval; move it away, or name a new folder: "
                "--output FOLDER"
            )
    return earlier


def _write_file_list(folder: Path, names: Collection[str]) -> None:
    listed = "".join(f"{name}\n" for name in sorted({*names, LIST}))
    write_atomically(folder / LIST, listed.encode(), make_folder=True, within=folder)


def resolve_write_target(path: Path, within: Path | None = None) -> tuple[Path, Path]:
    """Return the folder in which a file must stay, and the path of the file with all links followed.

    The folder is `within`, or the study's folder if the file's name leads into a study.

    Raises:
        StudyError: A link leads out of the folder, or links form a circle.
    """
    try:
        target = path.resolve()
        named = Path(os.path.abspath(path))  # noqa: PTH100 (without "..", which no method of Path removes)
        folders = [folder for folder in named.parents if (folder / "study.toml").is_file()]
        folders += [] if within is None else [within]
        roots = [folder.resolve() for folder in folders]
    except (OSError, RuntimeError, ValueError) as error:  # also a name that no file can have
        raise StudyError(f"cannot write {str(path)!r}: {error}; name another file") from None
    for folder, root in zip(folders, roots, strict=True):
        if not target.is_relative_to(root):
            raise StudyError(
                f"{path} leads out of the folder {folder}, to {target}; remove the link, or name another file"
            )
    return (roots[-1] if roots else target.parent), target


def check_database_file(path: Path) -> None:
    """Check a database file, and the files that SQLite puts beside it, before anything is written to them.

    Raises:
        StudyError: A file is not a regular file, has a second name, or is refused by `resolve_write_target`.
    """
    for ending in ("", "-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + ending)
        _, target = resolve_write_target(beside)
        if target.parent.is_dir():
            with _open_parent_folder(beside, refuse_hard_link=True):
                pass


@contextmanager
def _open_parent_folder(
    path: Path, within: Path | None = None, *, make: bool = False, refuse_hard_link: bool = False
) -> Iterator[tuple[int, str]]:
    """Open the folder of a file that is missing or regular. Yield the folder's handle and the file's name.

    No link is followed later. An `OSError` in the block becomes a `StudyError`.
    """
    root, target = resolve_write_target(path, within)
    with explain_write_errors(path):
        if make:
            root.mkdir(parents=True, exist_ok=True)
        folder = os.open(root, _FOLDER)
        try:
            for name in target.parent.relative_to(root).parts:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            _check_file_missing_or_regular(path, folder, target.name, refuse_hard_link=refuse_hard_link)
            yield folder, target.name
        finally:
            os.close(folder)


def _check_file_missing_or_regular(path: Path, folder: int, name: str, *, refuse_hard_link: bool) -> None:
    """Check that a file is missing or regular and, with `refuse_hard_link`, that it has no second name."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise StudyError(f"{path} exists and is not a regular file; name another file, or move it away")
    if refuse_hard_link and status.st_nlink > 1:
        raise StudyError(
            f"{path} has a second name (a hard link), and both would change; replace the link by a copy"
        )


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Convert an `OSError` in the block to a `StudyError` about this file."""
    try:
        yield
    except OSError as error:
        raise StudyError(
            f"cannot write {path}: {error.strerror}; fix that and run the command again"
        ) from error
