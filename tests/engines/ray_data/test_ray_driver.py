"""`--engine ray` on a machine of its own, killed without a word; then the other engine goes on."""

import subprocess
import sys

import psutil
from command_line import environment
from ray_cluster import kill, texts_of, until

from guard_eval.cli import generate

DRIVER = """
import sys
from pathlib import Path
from guard_eval.cli import generate, generate_ray
from guard_eval.engines.ray_data.writers import Job
from guard_eval.study import Study
generate_ray.PART_SECONDS = 0.0
Job.rows = 8
generate.run(Study.open(Path(sys.argv[1])), engine=generate.Engine.RAY)
"""


def test_a_killed_command_leaves_whole_files_and_no_workers(study, one_machine):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, study.folder], env=environment(), stdout=subprocess.PIPE, text=True
    )
    parts = until(
        lambda: list(study.continuations.glob("*.parquet")) if study.continuations.is_dir() else [], 150
    )
    family = psutil.Process(process.pid).children(recursive=True)
    assert any(map(_has_a_model, family))
    kill(process)
    process.communicate()
    assert parts
    kept = texts_of(study)
    assert 8 <= len(kept) < len(one_machine.texts)
    assert set(kept) <= set(one_machine.texts)
    generate.run(study)
    assert texts_of(study) == one_machine.texts
    until(lambda: not any(map(_has_a_model, family)))


def _has_a_model(process):
    """Say whether it is one of our workers, still running; Ray's two agents take a minute more to leave."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "MapWorker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
