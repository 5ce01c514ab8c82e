"""Studies for the tests of the command line."""

import fcntl
import os
import shutil
from functools import partial

import pytest
from command_line import make_command, run_here, run_process

SMALL = """
name = "small"
seed = 5
[model]
name = "bundled"
[generation]
strategies = ["greedy", "top_k", "acs", "guard"]
max_new_tokens = 12
max_prompt_tokens = 24
batch_size = 4
[metrics]
compute = ["diversity", "coherence", "length", "speed"]
coherence_model = "bundled"
[pairs]
compare = [["guard", "acs"]]
per_dataset = 3
[annotation]
raters_per_pair = 2
[[judge]]
model = "gpt-4o-2024-11-20"
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in this process, in the test's folder."""
    monkeypatch.chdir(tmp_path)
    return partial(run_here, monkeypatch, capsys, tmp_path)


@pytest.fixture
def typed(tmp_path):
    """Return a function that runs a command in a new process, as a user does."""
    return lambda *arguments, **more: run_process(make_command(*arguments), tmp_path, **more)


def write_study(folder):
    folder.mkdir()
    (folder / "study.toml").write_text(SMALL)
    lines = [
        f'{{"prompt": "Once there was a {animal} who"}}\n'
        for animal in ("cat", "dog", "fox", "owl", "hen", "ox")
    ]
    (folder / "prompts.jsonl").write_text("".join(lines))
    return folder


@pytest.fixture
def study(tmp_path):
    """Make a new study of six prompts."""
    write_study(tmp_path / "small")
    return tmp_path / "small"


@pytest.fixture(scope="session")
def paired_once(tmp_path_factory):
    """Make a study once for all test workers. The final name of the folder marks a complete study."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with (folder / "made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            making = tmp_path_factory.mktemp("making")
            write_study(making / "small")
            for step in ("generate", "pair"):
                ran = run_process(make_command(step, "small"), making)
                assert ran.code == 0, ran
            making.rename(folder / "made")
    return folder / "made" / "small"


@pytest.fixture
def paired(paired_once, tmp_path):
    """Copy the study with continuations and pairs, one copy for each test."""
    return shutil.copytree(paired_once, tmp_path / "small")
