"""Open and read files that may come from strangers, in bounded time and memory.

Studies and tables come from other people. A file name can belong to a pipe that nobody writes to, to an
endless device, or to a few kilobytes that unpack to gigabytes. This module reads all files of this kind.
"""

import bz2
import gzip
import lzma
import os
import resource
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BufferedReader, BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from guard_eval.errors import MissingExtraError, StudyError

LARGEST_TEXT = 2**20
"""The largest size of a settings file, in bytes."""

UNPACKED_FREELY = 2**24
"""Every packed file may unpack to this number of bytes, even if the packed file is small."""

LARGEST_RATIO = 100
"""The largest ratio of unpacked to packed size above `UNPACKED_FREELY`. Tables of verdicts in xz reach 40."""

ZIP = b"PK\x03\x04"
"""The first bytes of a zip archive. A workbook is a zip archive, too."""
_BLOCK = 2**20
_WORKBOOK = "[Content_Types].xml"
"""The name of the file by which an office document is distinguished from other zip archives."""

_UNREADABLE = (
    OSError,
    ValueError,  # a name with a NUL byte; pyarrow's errors
    RuntimeError,  # an archive with a password, or a compression that zipfile lacks
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


def open_regular_file(path: Path) -> BufferedReader:
    """Open a regular file for reading, without ever waiting for another program.

    Raises:
        StudyError: The file is missing, cannot be opened, or is a folder, a pipe, a socket or a device.
    """
    with _explain_errors(path):
        _check_is_regular_file(path, path.stat())  # opening a device can change what it does
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_is_regular_file(path, os.fstat(handle))  # by now, the name may belong to another file
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise


def _check_is_regular_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StudyError(f"{path} is a folder, a pipe or a device, and not a regular file; name another file")


def read_bytes(path: Path, *, limit: int) -> bytes:
    """Return the content of a file unchanged. A packed file stays packed.

    Raises:
        StudyError: `open_regular_file` cannot open the file, or the file is larger than `limit` bytes.
    """
    with open_regular_file(path) as file, _explain_errors(path):
        return _read_blocks(file, path, limit)


def read_text(path: Path, *, limit: int = LARGEST_TEXT) -> str:
    """Return the text of a file, without a byte order mark and with all line ends as line feeds.

    Raises:
        StudyError: `read_bytes` cannot read the file, or the file is not UTF-8.
    """
    content = read_bytes(path, limit=limit)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not text in UTF-8 (byte {error.start}); save it as UTF-8") from None


def read_unpacked(path: Path, *, limit: int) -> tuple[str, bytes]:
    """Return the name and content of a file, unpacked if the file is packed.

    Gzip, bzip2, xz, Zstandard and zip archives of one file are unpacked.

    The content shows whether a file is packed, not the name. Workbooks are zip archives, too, but they stay
    packed. The returned name has no compression ending; for a zip archive, it is the name in the archive.

    Raises:
        StudyError: `read_bytes` cannot read the file, or the file is damaged, is an archive of several files,
            or unpacks to more than `limit` bytes or to more than the packed size allows.
    """
    with open_regular_file(path) as file, _explain_errors(path):
        start = file.read(8)
        file.seek(0)
        if start.startswith(ZIP):
            return _read_archive(file, path, limit)
        name = path.stem if path.suffix.lower() in _PACKED_ENDINGS else path.name
        unpack = next((unpack for magic, unpack in _UNPACKERS.items() if start.startswith(magic)), None)
        if unpack is None:
            return name, _read_blocks(file, path, limit)
        with unpack(file) as unpacked:
            return name, _read_blocks(unpacked, path, limit, packed=os.fstat(file.fileno()).st_size)


def _read_archive(file: BinaryIO, path: Path, limit: int) -> tuple[str, bytes]:
    """Return the only file of a zip archive, or the archive itself if the archive is a workbook."""
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        if _WORKBOOK in names:
            file.seek(0)
            return path.name, _read_blocks(file, path, limit)
        # Files that macOS adds to an archive do not count.
        names = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if len(names) != 1:
            raise StudyError(f"{path} is an archive of {len(names)} files; unpack it, and name one of them")
        with archive.open(names[0]) as unpacked:
            data = _read_blocks(unpacked, path, limit, packed=os.fstat(file.fileno()).st_size)
    return PurePosixPath(names[0]).name, data


def _read_blocks(file: IO[bytes], path: Path, limit: int, *, packed: int | None = None) -> bytes:
    """Read a file in blocks, so that memory grows only with the real size of the file.

    Args:
        file: The file.
        path: The name of the file, for messages.
        limit: The largest number of bytes.
        packed: The size of the file that is being unpacked.
    """
    allowed = limit if packed is None else min(limit, max(UNPACKED_FREELY, LARGEST_RATIO * packed))
    content = BytesIO()
    while block := file.read(_BLOCK):
        content.write(block)
        if content.tell() > limit:
            raise StudyError(f"{path} is larger than {limit:,} bytes; shorten it, or split it")
        if content.tell() > allowed:
            raise StudyError(
                f"{path} unpacks to more than {LARGEST_RATIO} times its size; unpack it, then name its file"
            )
    return content.getvalue()


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Convert errors of the system or of decompression to a `StudyError`."""
    try:
        yield
    except StudyError:
        raise
    except MemoryError:
        raise StudyError(f"{path} does not fit into this machine's memory; name a smaller file") from None
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or error
        raise StudyError(f"cannot read {path}: {reason}; fix that, or name another file") from None


def _unpack_zstandard(file: BinaryIO) -> IO[bytes]:
    """Return the unpacked content of a Zstandard file."""
    try:
        arrow: Any = import_module("pyarrow")
    except ImportError:
        raise MissingExtraError("metrics", "pyarrow") from None
    stream: IO[bytes] = arrow.CompressedInputStream(arrow.PythonFile(file, mode="r"), "zstd")
    return stream


_UNPACKERS: dict[bytes, Callable[[BinaryIO], IO[bytes]]] = {
    b"\x1f\x8b": lambda file: BufferedReader(gzip.GzipFile(fileobj=file)),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _unpack_zstandard,
}
"""The readers of compressed files, by the first bytes of the files."""

_PACKED_ENDINGS = {".gz", ".bz2", ".xz", ".zst"}


@contextmanager
def limit_memory(more: int) -> Iterator[None]:
    """Raise a `MemoryError` if the process needs `more` bytes than now while the `with` block runs.

    Only Linux has such a limit.
    """
    size = Path("/proc/self/statm")
    if not size.exists():
        yield
        return
    pages = int(size.read_text("ascii").split()[0])
    limit, highest = resource.getrlimit(resource.RLIMIT_AS)
    in_bytes = pages * resource.getpagesize() + more
    lower = in_bytes if limit == resource.RLIM_INFINITY else min(in_bytes, limit)
    resource.setrlimit(resource.RLIMIT_AS, (lower, highest))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (limit, highest))
