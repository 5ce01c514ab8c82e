"""`--engine ray` on a machine of its own, killed without a word; then the other engine goes on."""

import json
import math
import subprocess
import sys

import psutil
import pytest
from command_line import environment
from ray_cluster import kill, texts_of, until

from guard_eval.cli.generate import generate

pytestmark = pytest.mark.slow

DRIVER = """
import json, sys, threading
from pathlib import Path
from importlib.util import find_spec
import psutil
import ray
from guard_eval.cli.generate import generate
from guard_eval.cli.generation import ray as generate_ray
from guard_eval.engines.ray.writers import Job
from guard_eval.study import Study
generate_ray.PART_SECONDS = 0.0
Job.rows = 8
workers, parts, rename, over = {}, [], Path.replace, threading.Event()
def watch():
    while not over.wait(0.05):
        for one in psutil.Process().children(recursive=True):
            try:
                if "MapWorker" in " ".join(one.cmdline()):
                    workers[one.pid] = one.create_time()
            except psutil.Error:
                pass
def hold(path, target):
    parts.append(target)
    if len(parts) == 2:
        over.set()
        watcher.join()
        ask = ray.remote(num_cpus=0)(lambda: find_spec("judge").origin)
        print("HELD", json.dumps([workers, ray.get(ask.remote())]), flush=True)
        sys.stdin.read()  # until it is killed: one file is whole, and of the other the name is missing
    return rename(path, target)
Path.replace = hold
watcher = threading.Thread(target=watch)
watcher.start()
generate(Study.open(Path(sys.argv[1])), engine="ray")
"""


@pytest.mark.timeout(0)  # it waits for what must come, however long the machine takes
def test_a_killed_command_leaves_whole_files_and_no_workers(study, one_machine, tmp_path):
    """Its workers took no module from the folder that the command was started in."""
    (tmp_path / "judge.py").touch()
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", DRIVER, study.folder],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    held = next((line for line in process.stdout if line.startswith("HELD ")), None)
    assert held is not None, "the command ended before its second file"
    workers, module = json.loads(held.removeprefix("HELD "))
    assert workers
    assert module.endswith("/judge/__init__.py")
    kill(process)
    process.communicate()
    assert len(list(study.continuations.glob("*.parquet"))) == 1
    assert len(list(study.continuations.glob("*.partial"))) == 1
    kept = texts_of(study)
    assert 8 <= len(kept) < len(one_machine.texts)
    assert set(kept) <= set(one_machine.texts)
    generate(study)
    assert texts_of(study) == one_machine.texts
    until(lambda: not any(map(_runs, workers.items())), math.inf)


def _runs(worker):
    """Say whether a worker still runs: its number may be another's by now, and nobody may have buried it."""
    number, started = worker
    try:
        process = psutil.Process(int(number))
        return process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
