"""Ray's workers write the same texts as one process, even if a worker dies."""

import threading

import psutil
import pytest

from guard_eval.errors import StudyError
from guard_eval.generation.command import generate_texts
from guard_eval.generation.engines import ray as engine
from guard_eval.generation.strategies import own
from guard_eval.study import Study
from guard_eval.texts.continuations import list_continuation_files, read_continuations, read_run_folders

pytest.importorskip("ray", reason="Ray is not installed; run: pip install 'guard-eval[ray]'")

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(0),  # it waits for what must come, however long the machine takes
]

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
"""
OWN = """
from dataclasses import dataclass
import torch
from guard_eval.generation.strategies import Sampler, apply_step

@dataclass(frozen=True, kw_only=True)
class Nearly(Sampler):
    share: float = 0.5

@apply_step.register
def nearly(strategy: Nearly, logits, context):
    p = logits.softmax(-1)
    return logits.masked_fill(p < strategy.share * p.amax(-1, keepdim=True), -torch.inf)
"""
NAME = "dry(breakers=standard) + nearly(share=0.4)"


def write_study(folder, prompts=96):
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    animals = ("cat", "dog", "fox", "owl", "hen", "ox")
    lines = [
        f'{{"prompt": "Once there was a {animals[n % 6]} who had {n} friends"}}\n' for n in range(prompts)
    ]
    (folder / "prompts.jsonl").write_text("".join(lines))
    return Study.open(folder)


def texts_of(study):
    """Return all stored texts, sorted, with only the fields that must not depend on the machine."""
    return sorted(
        (text.recipe.strategy, text.prompt_id, text.id, text.text, text.new_tokens, text.finish)
        for folder in read_run_folders(study.continuations_folder)
        for strategy in study.settings.generation.strategies
        for path in list_continuation_files(folder, strategy)
        for text in read_continuations(path)
    )


def test_ray_writes_the_same_texts_as_the_local_engine(tmp_path, own_registry):
    own.load_strategies_from_source("nowhere/nearly.py", OWN)
    texts = {}
    for name in ("local", "ray"):
        folder = write_study(tmp_path / name, prompts=6).folder
        toml = folder / "study.toml"
        text = toml.read_text(encoding="utf-8")
        text = text.replace("[generation]\n", '[generation]\nruns = 2\nstop = [", ", "e"]\n', 1)
        toml.write_text(text.replace('strategies = ["', f'strategies = ["{NAME}", "', 1))
        study = Study.open(folder)
        result = generate_texts(study, engine=name, strategy=[NAME, "guard"])
        assert result.missing == 0
        texts[name] = texts_of(study)
    assert texts["ray"] == texts["local"]
    assert len(texts["ray"]) == 18
    assert "stop" in {text[-1] for text in texts["ray"]}


def test_no_text_is_lost_or_repeated_after_a_worker_dies(tmp_path):
    killed: list[int] = []
    over = threading.Event()

    def kill_the_first_worker():
        while not killed and not over.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "ray::Worker" in " ".join(process.cmdline()) and not killed:
                        process.kill()
                        killed.append(process.pid)
                except psutil.Error:
                    continue

    killer = threading.Thread(target=kill_the_first_worker)
    killer.start()
    study = write_study(tmp_path / "many")
    try:
        generate_texts(study, engine="ray", workers=1, strategy=["guard"])
    finally:
        over.set()
        killer.join()
    assert killed
    alone = write_study(tmp_path / "alone")
    generate_texts(alone, strategy=["guard"])
    assert texts_of(study) == texts_of(alone)


@pytest.fixture
def cluster(monkeypatch):
    """Yield a cluster whose first machine has no room, and a function that adds a machine with one CPU."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    yield cluster
    cluster.shutdown()


def test_no_text_is_lost_or_repeated_after_a_machine_fails(tmp_path, cluster):
    """One of two machines fails when the first texts are on disk. The other machine continues."""
    machines = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    study = write_study(tmp_path / "many", prompts=192)
    lost = threading.Event()

    def lose_a_machine():
        while not texts_of(study) and not over.wait(0.05):
            pass
        cluster.remove_node(machines[0], allow_graceful=False)
        lost.set()

    over = threading.Event()
    loser = threading.Thread(target=lose_a_machine)
    loser.start()
    try:
        generate_texts(study, engine="ray", strategy=["guard"])
    finally:
        over.set()
        loser.join()
    assert lost.is_set()
    alone = write_study(tmp_path / "alone", prompts=192)
    generate_texts(alone, strategy=["guard"])
    assert texts_of(study) == texts_of(alone)
    assert generate_texts(study, engine="ray", strategy=["top_k(k=50)"]).missing == 0


def test_full_ray_cluster_is_reported(tmp_path, cluster, monkeypatch):
    """Ray still counts a lost machine, so no worker can start, and the command reports it."""
    monkeypatch.setattr(engine, "ROOM_SECONDS", 5.0)
    monkeypatch.setattr(engine, "sum_live_resources", lambda _nodes: {"CPU": 1.0})
    with pytest.raises(StudyError, match=r"the Ray cluster could not start a worker within 5 seconds. Check"):
        generate_texts(write_study(tmp_path / "many", prompts=2), engine="ray", strategy=["guard"])


def test_resources_of_lost_ray_machines_are_ignored():
    nodes = [
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}},
        {"Alive": False, "Resources": {"CPU": 8.0, "GPU": 4.0}},
        {"Alive": True, "Resources": {"CPU": 3.0}},
    ]
    assert engine.sum_live_resources(nodes) == {"CPU": 5.0, "GPU": 1.0}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trace": True}, "--trace works only with --engine local"),
        ({"workers": 99}, "set --workers .* or less"),
    ],
)
def test_ray_refuses_options_that_conflict(tmp_path, options, says):
    with pytest.raises(StudyError, match=says):
        generate_texts(write_study(tmp_path / "many"), engine="ray", **options)
