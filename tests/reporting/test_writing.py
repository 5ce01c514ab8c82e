"""Files are written whole or not at all."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from guard_eval.errors import StudyError
from guard_eval.reporting.writing import write_whole


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "f.txt"
    for data in (b"one", b"two"):
        write_whole(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_made_only_when_asked_for(tmp_path):
    path = tmp_path / "a" / "b" / "f.txt"
    with pytest.raises(StudyError, match=r"cannot write .*f\.txt: .*; fix that and run the command again"):
        write_whole(path, b"")
    assert not list(tmp_path.iterdir())
    write_whole(path, b"x", make_folder=True)
    assert path.read_bytes() == b"x"


def test_what_cannot_be_replaced_leaves_nothing_beside_it(tmp_path):
    (tmp_path / "f").mkdir()
    with pytest.raises(StudyError, match="cannot write"):
        write_whole(tmp_path / "f", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_two_writers_of_a_file_do_not_mix(tmp_path):
    path, sizes = tmp_path / "f.json", [10, 2_000_000, 3_000_000]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write_whole(path, b"x" * sizes[n % 3]), range(48)))
    assert path.stat().st_size in sizes
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_owner_reads_a_private_file(tmp_path):
    for private, mode in ((True, 0o600), (False, 0o644), (True, 0o600)):
        write_whole(tmp_path / "f", b"x", private=private)
        assert (tmp_path / "f").stat().st_mode & 0o777 == mode
