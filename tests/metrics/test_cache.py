"""Scores already taken outlive the process, and a file that cannot be used is named."""

import subprocess
import sys

import pytest

from guard_eval.errors import StudyError
from guard_eval.metrics.cache import ScoreCache


@pytest.fixture
def cache(tmp_path):
    opened = ScoreCache(tmp_path / "deep" / "scores.sqlite")
    yield opened
    opened.close()


def test_what_is_put_is_found(cache, tmp_path):
    cache.put({"a": 1, "b": [0.1, None]})
    cache.put({"a": 2})
    assert cache.get(["a", "b", "c", "a"]) == {"a": 2, "b": [0.1, None]}
    again = ScoreCache(tmp_path / "deep" / "scores.sqlite")
    assert again.get(["a"]) == {"a": 2}
    again.close()


def test_more_keys_than_a_query_takes(cache):
    cache.put({str(number): "x" for number in range(3000)})
    assert len(cache.get(map(str, range(4000)))) == 3000


def test_what_a_killed_process_put_is_there(tmp_path):
    path = tmp_path / "scores.sqlite"
    program = (
        "import os, pathlib, sys; from guard_eval.metrics.cache import ScoreCache;"
        "ScoreCache(pathlib.Path(sys.argv[1])).put({'a': 1}); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, path], check=False).returncode == -9
    cache = ScoreCache(path)
    assert cache.get(["a"]) == {"a": 1}
    cache.close()


def test_a_file_that_is_none_is_named(tmp_path):
    (tmp_path / "scores.sqlite").write_bytes(b"no database at all, but long enough to look like one" * 100)
    with pytest.raises(StudyError, match=r"scores\.sqlite.*remove the file"):
        ScoreCache(tmp_path / "scores.sqlite")
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot store scores"):
        ScoreCache(tmp_path / "file" / "scores.sqlite")
