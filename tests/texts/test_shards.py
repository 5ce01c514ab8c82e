"""Shards: every prompt in exactly one, the same everywhere; and no two processes at the same one."""

import hashlib
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guard_eval.errors import StudyError
from guard_eval.texts.shards import Shard, reserve

pytestmark = pytest.mark.slow


@given(st.text(), st.integers(1, 9))
def test_every_prompt_is_in_exactly_one_shard(prompt_id, count):
    assert sum(Shard(number, count).holds(prompt_id) for number in range(1, count + 1)) == 1


def test_a_prompts_shard_by_hand():
    digest = int(hashlib.sha256(b'["shard","p7"]').hexdigest()[:16], 16)
    assert Shard(digest % 5 + 1, 5).holds("p7")


def test_shards_are_about_equal():
    held = sum(Shard(1, 4).holds(f"wikitext-{n}") for n in range(2000))
    assert 420 < held < 580  # 500 ± 4 standard deviations of √(2000 · ¼ · ¾) = 19.4


def test_reading_and_naming():
    assert Shard.parse("2/3") == Shard(2, 3)
    assert (str(Shard(2, 3)), Shard(2, 3).suffix, Shard().suffix) == ("2/3", ".shard-2-of-3", "")


@pytest.mark.parametrize("text", ["", "2", "0/3", "4/3", "a/b", "1/0", "-1/3", "1/3/4"])
def test_what_is_no_shard(text):
    with pytest.raises(StudyError, match="write i/n"):
        Shard.parse(text)


HOLD = (
    "import sys, time; from pathlib import Path; from guard_eval.texts.shards import Shard, reserve\n"
    "with reserve(Path(sys.argv[1]), Shard.parse(sys.argv[2])):\n"
    "    print('held', flush=True); time.sleep(60)\n"
)


@pytest.fixture
def held(tmp_path):
    """Start processes that hold shards."""
    processes = []

    def hold(shard):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, tmp_path, shard], stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [("1/1", "1/1", False), ("1/2", "1/2", False), ("1/2", "2/2", True)],
)  # fmt: skip
def test_who_may_work_side_by_side(tmp_path, held, first, second, together):
    process = held(first)
    if together:
        with reserve(tmp_path, Shard.parse(second)):
            pass
    else:
        with (
            pytest.raises(StudyError, match=rf"process {process.pid}\) is making .* --shard i/n"),
            reserve(tmp_path, Shard.parse(second)),
        ):
            pass


def test_a_killed_process_holds_nothing(tmp_path, held):
    process = held("1/1")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with reserve(tmp_path, Shard()):
        assert [path.name for path in tmp_path.iterdir()] == [".generate-1-of-1.lock"]
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot write"), reserve(tmp_path / "file" / "folder", Shard()):
        pass
