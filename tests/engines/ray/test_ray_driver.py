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
import psutil
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
        print("HELD", json.dumps(workers), flush=True)
        sys.stdin.read()  # until it is killed: one file is whole, and of the other the name is missing
    return rename(path, target)
Path.replace = hold
watcher = threading.Thread(target=watch)
watcher.start()
generate(Study.open(Path(sys.argv[1])), engine="ray")
"""


@pytest.mark.timeout(0)  # it waits for what must come, however long the machine takes
def test_a_killed_command_leaves_whole_files_and_no_workers(study, one_machine):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, study.folder],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    held = next((line for line in process.stdout if line.startswith("HELD ")), None)
    assert held is not None, "the command ended before its second file"
    workers = json.loads(held.removeprefix("HELD "))
    assert workers
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


def test_workers_take_no_module_from_the_folder_of_the_command(tmp_path):
    (tmp_path / "judge.py").touch()
    code = """
from importlib.util import find_spec
from guard_eval.engines.ray.cluster import connected
with connected(None) as ray:
    print(ray.get(ray.remote(lambda: find_spec("judge").origin).remote()))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("/judge/__init__.py\n"), done.stderr


def _runs(worker):
    """Say whether a worker still runs: its number may be another's by now, and nobody may have buried it."""
    number, started = worker
    try:
        process = psutil.Process(int(number))
        return process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
