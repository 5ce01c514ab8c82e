"""Studies for Ray, a real cluster of two nodes on this machine, and how its workers are found and killed."""

import signal
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files, read_continuations

STUDY = """
name = "many"
seed = 5
[model]
name = "bundled"
[generation]
strategies = ["top_k(k=50)", "guard"]
max_new_tokens = 12
max_prompt_tokens = 24
batch_size = 8
[pairs]
compare = [["guard", "top_k(k=50)"]]
[metrics]
compute = ["coherence", "perplexity", "length"]
coherence_model = "bundled"
replicates = 100
"""
PROMPTS = 96


def write_study(folder: Path, prompts: int = PROMPTS) -> Study:
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    animals = ("cat", "dog", "fox", "owl", "hen", "ox")
    lines = [
        f'{{"prompt": "Once there was a {animals[n % 6]} who had {n} friends{" and more" * (n % 4)}", '
        f'"reference": "who sang to number {n}"}}\n'
        for n in range(prompts)
    ]
    (folder / "prompts.jsonl").write_text("".join(lines))
    return Study.open(folder)


def texts_of(study: Study) -> list[tuple]:
    """Return what must be the same wherever it is made, of every text on disk, sorted."""
    return sorted(
        (one.recipe.strategy, one.prompt_id, one.id, one.text, one.prompt_tokens, one.new_tokens, one.finish)
        for strategy in study.settings.generation.strategies
        for path in continuation_files(study.continuations, strategy)
        for one in read_continuations(path)
    )


def scores_of(study: Study, options) -> tuple:
    """Measure a study, and return its scores; no figures are drawn."""
    from guard_eval.cli.measuring import job

    found = []
    with patch.object(job, "write", lambda results, *_: found.append(results.scores)):
        job.measure(study, options)
    return found[0]


@contextmanager
def two_nodes():
    """Run a head and a second node with two CPUs each; give the cluster and the second node."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, of what its later versions will do
        from guard_eval.engines.ray.cluster import library

        ray = library()
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "object_store_memory": 100 << 20, "include_dashboard": False},
        )
        second = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    try:
        yield cluster, second
    finally:
        ray.shutdown()
        cluster.shutdown()


def workers_of(node) -> list:
    """Return the processes of the workers that write, on a node."""
    import psutil

    raylet = next(
        info.process for kind, infos in node.all_processes.items() if kind == "raylet" for info in infos
    )
    found = []
    for one in psutil.Process(raylet.pid).children(recursive=True):
        try:
            if "MapWorker" in " ".join(one.cmdline()):
                found.append(one)
        except psutil.Error:
            continue
    return found


def kill(process) -> None:
    process.send_signal(signal.SIGKILL)


def until(condition, seconds=60):
    """Wait for a condition, and return what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)
    return found
