"""What reads a file of other people neither waits nor takes more memory than the file is worth."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from guard_eval.errors import StudyError
from guard_eval.files.opening import LARGEST_RATIO, UNPACKED_FREELY, read_bytes, read_text, read_unpacked

TABLE = b"pair_id,verdict\n1,a\n"


def test_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "texts.jsonl")
    with pytest.raises(StudyError, match="is a folder, a pipe or a device, and not a regular file"):
        read_bytes(tmp_path / "texts.jsonl", limit=10)


def test_link_to_a_device_is_refused(tmp_path):
    (tmp_path / "texts.jsonl").symlink_to("/dev/zero")
    with pytest.raises(StudyError, match="not a regular file"):
        read_bytes(tmp_path / "texts.jsonl", limit=10)


def test_socket_and_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's name has at most 107 characters
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("texts")
        with pytest.raises(StudyError, match="not a regular file"):
            read_bytes(Path("texts"), limit=10)
    with pytest.raises(StudyError, match="not a regular file"):
        read_bytes(tmp_path, limit=10)


@pytest.mark.parametrize("name", ["missing", "circle", "a\0b", "n" * 300, "file/below"])
def test_file_that_cannot_be_opened_is_named(tmp_path, name):
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=r"cannot read .*; fix that, or name another file"):
        read_bytes(tmp_path / name, limit=10)


def test_size_limit_is_exact_to_the_byte(tmp_path):
    (tmp_path / "ten").write_bytes(b"0123456789")
    assert read_bytes(tmp_path / "ten", limit=10) == b"0123456789"
    with pytest.raises(StudyError, match="is larger than 9 bytes; shorten it, or split it"):
        read_bytes(tmp_path / "ten", limit=9)


def test_read_text_removes_byte_order_mark_and_cr(tmp_path):
    (tmp_path / "text").write_bytes(b"\xef\xbb\xbfa\r\nb\n")
    assert read_text(tmp_path / "text") == "a\nb\n"
    (tmp_path / "text").write_bytes(b"ab\xff")
    with pytest.raises(StudyError, match=r"not text in UTF-8 \(byte 2\)"):
        read_text(tmp_path / "text")


def zstandard(data: bytes) -> bytes:
    pa = pytest.importorskip("pyarrow")
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstandard)],
)
def test_read_unpacked_reads_each_compression(tmp_path, ending, pack):
    path = tmp_path / f"table.csv{ending}"
    path.write_bytes(pack(TABLE))
    assert read_unpacked(path, limit=len(TABLE)) == ("table.csv", TABLE)
    with pytest.raises(StudyError, match="is larger than"):
        read_unpacked(path, limit=len(TABLE) - 1)
    packed = pack("\n".join(map(str, range(10_000))).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(StudyError, match="cannot read"):
        read_unpacked(path, limit=10**6)


def test_read_unpacked_reads_a_zip_of_one_file(tmp_path):
    path = tmp_path / "table.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/votes.tsv", TABLE)
        archive.writestr("__MACOSX/folder/._votes.tsv", b"?")
    assert read_unpacked(path, limit=100) == ("votes.tsv", TABLE)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.tsv", TABLE)
    with pytest.raises(StudyError, match="archive of 2 files; unpack it"):
        read_unpacked(path, limit=100)


def test_read_unpacked_leaves_a_workbook_packed(tmp_path):
    path = tmp_path / "book.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", b"<Types/>")
    assert read_unpacked(path, limit=1000)[1] == path.read_bytes()


LIMITED = """
import resource, sys
from pathlib import Path
from guard_eval.files.opening import read_bytes, read_unpacked
resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
read = {"whole": read_bytes, "packed": read_unpacked}[sys.argv[1]]
try:
    content = read(Path(sys.argv[2]), limit=2**40)
    print(len(content[1] if sys.argv[1] == "packed" else content))
except ValueError as error:
    print(error)
"""
"""Reads a file in a process with half a gibibyte of addresses."""


def read_limited(how: str, path: Path) -> str:
    command = [sys.executable, "-c", LIMITED, how, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, ending, pack):
    path = tmp_path / f"texts.jsonl{ending}"
    path.write_bytes(pack(bytes(2**20)) * 1024)  # members of one file: 1 GiB of zeros
    assert f"unpacks to more than {LARGEST_RATIO} times its size" in read_limited("packed", path)


def test_small_file_may_unpack_to_16_mebibytes(tmp_path):
    path = tmp_path / "texts.jsonl.gz"
    path.write_bytes(gzip.compress(bytes(UNPACKED_FREELY)))
    assert len(read_unpacked(path, limit=2**30)[1]) == UNPACKED_FREELY


def test_large_limit_reserves_no_memory(tmp_path):
    (tmp_path / "prompts.jsonl").write_bytes(TABLE)
    assert int(read_limited("whole", tmp_path / "prompts.jsonl")) == len(TABLE)


def test_file_larger_than_memory_is_refused(tmp_path):
    with (tmp_path / "prompts.jsonl").open("wb") as file:
        file.truncate(2**34)  # a hole: 16 GiB that take no room on the disk
    assert "does not fit into this machine's memory" in read_limited("whole", tmp_path / "prompts.jsonl")
