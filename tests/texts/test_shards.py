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
from guard_eval.texts.continuations import Shard, reserve_shard

pytestmark = pytest.mark.slow


@given(st.text(), st.integers(1, 9))
def test_every_prompt_is_in_exactly_one_shard(prompt_id, count):
    assert sum(Shard(number, count).contains(prompt_id) for number in range(1, count + 1)) == 1


def test_shard_of_a_prompt_equals_hand_calculation():
    digest = int(hashlib.sha256(b'["shard","p7"]').hexdigest()[:16], 16)
    assert Shard(digest % 5 + 1, 5).contains("p7")


def test_shard_option_is_parsed_and_becomes_a_file_suffix():
    assert Shard.parse("2/3") == Shard(2, 3)
    assert (Shard(2, 3).suffix, Shard().suffix) == (".shard-2-of-3", "")

    for text in ("", "2", "0/3", "4/3", "a/b", "1/0", "-1/3", "1/3/4"):
        with pytest.raises(StudyError, match="write i/n"):
            Shard.parse(text)


HOLD = (
    "import sys, time; from pathlib import Path\n"
    "from guard_eval.texts.continuations import Shard, reserve_shard\n"
    "with reserve_shard(Path(sys.argv[1]), Shard.parse(sys.argv[2])):\n"
    "    print('held', flush=True); time.sleep(60)\n"
)


@pytest.fixture
def hold(tmp_path):
    """Return a function that starts a process that holds a shard."""
    processes = []

    def start(shard):
        arguments = [sys.executable, "-c", HOLD, tmp_path, shard]
        processes.append(subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True))
        assert processes[-1].stdout.readline() == "held\n"
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_shard_is_locked_until_its_process_ends(tmp_path, hold):
    process = hold("1/2")
    with reserve_shard(tmp_path, Shard(2, 2)):
        pass
    for shard in (Shard(1, 2), Shard()):  # the whole has the shard's prompts, too
        with (
            pytest.raises(StudyError, match=r"another guard-eval .* --shard i/n"),
            reserve_shard(tmp_path, shard),
        ):
            pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with (
        reserve_shard(tmp_path, Shard()),
        pytest.raises(StudyError, match="another"),
        reserve_shard(tmp_path, Shard(1, 2)),
    ):
        pass
