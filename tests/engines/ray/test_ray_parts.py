"""What `--engine ray` does before and after Ray: which cluster it uses, what it refuses and writes."""

import pickle
import socket
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import made
import pyarrow as pa
import pytest
from ray_cluster import texts_of

from guard_eval.cli.generate import generate
from guard_eval.cli.generation import ray as generate_ray
from guard_eval.engines.ray import cluster, workers
from guard_eval.engines.ray.cluster import Pool, connected, has_room, library, pool_of
from guard_eval.engines.ray.workers import Worker
from guard_eval.engines.ray.writers import Job, write
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Prompt
from guard_eval.texts.continuations import continuation_files, read_continuations
from guard_eval.texts.shards import Shard

pytestmark = pytest.mark.slow

RAY = "ray"
POOL = Pool(workers=2, gpu=False, cpus=1, neighbours=2, nodes=1)
PROMPTS = [Prompt(id=f"p{n}", dataset="d", text="word " * n) for n in range(1, 101)]


def cluster_of(*nodes):
    """Return a stand-in for Ray with such nodes."""
    return SimpleNamespace(
        nodes=lambda: (
            [
                {"Alive": True, "Resources": {"CPU": float(c), **({"GPU": float(g)} if g else {})}}
                for c, g in nodes
            ]
            + [{"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}]
        )
    )


@pytest.mark.parametrize(
    ("nodes", "device", "workers", "found"),
    [
        ([(2, 0)], "auto", None, (1, False, 1, 1)),
        ([(8, 0)], "cpu", None, (7, False, 1, 7)),
        ([(8, 0)], "auto", 2, (2, False, 3, 2)),
        ([(8, 0), (8, 0)], "auto", 1, (1, False, 8, 1)),  # one machine's CPUs at most
        ([(8, 2), (8, 4)], "auto", None, (6, True, 1, 4)),
        ([(8, 2), (8, 4)], "cuda", 3, (3, True, 1, 3)),
        ([(8, 2)], "cpu", None, (7, False, 1, 7)),
    ],
)
def test_one_worker_a_gpu_or_one_a_cpu_but_one(nodes, device, workers, found):
    pool = pool_of(cluster_of(*nodes), device=device, workers=workers)
    assert (pool.workers, pool.gpu, pool.cpus, pool.neighbours) == found


@pytest.mark.parametrize(
    ("nodes", "device", "workers", "says"),
    [
        ([(2, 0)], "auto", 2, "2: the Ray cluster has 2 CPUs, of which Ray needs one itself; at most 1"),
        ([(8, 4)], "auto", 5, "--workers 5: the Ray cluster has 4 GPUs; at most 4"),
        ([(1, 0)], "auto", None, "at least 2 are needed"),
        ([(4, 0)], "cuda", None, "model.device = 'cuda', but the Ray cluster has no GPU"),
    ],
)  # fmt: skip
def test_a_pool_there_is_no_room_for(nodes, device, workers, says):
    with pytest.raises(StudyError) as error:
        pool_of(cluster_of(*nodes), device=device, workers=workers)
    assert says in str(error.value)


def test_room_is_counted_machine_by_machine():
    pool = replace(POOL, workers=2, cpus=3)
    assert has_room(cluster_of((6, 0)), pool)
    assert not has_room(cluster_of((4, 0), (2, 0)), pool)
    assert not has_room(cluster_of((64, 1)), replace(POOL, gpu=True))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": RAY, "trace": True}, "--trace is for --engine local, not ray"),
        ({"address": "auto"}, "--address auto is for --engine ray, not local"),
        ({"engine": "vllm", "workers": 2}, "--workers 2 is for --engine ray, not vllm"),
    ],
)
def test_what_an_engine_is_not_told(study, options, says):
    with pytest.raises(StudyError, match=says):
        generate(study, **options)


def test_a_model_over_several_gpus_is_refused(study):
    model = study.settings.model.model_copy(update={"device_map": "auto"})
    spread = replace(study, settings=study.settings.model_copy(update={"model": model}))
    with pytest.raises(StudyError, match=r"model\.device_map spreads a model over several; use"):
        generate(spread, engine=RAY)


def test_without_ray(study, monkeypatch):
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'guard-eval\[ray\]'"):
        generate(study, engine=RAY)


@pytest.mark.usefixtures("_speaking")
def test_a_dry_run_needs_no_ray(study, monkeypatch, capsys):
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    generate(study, engine=RAY, dry_run=True)
    assert "would make 192 continuations of at most 2,304 tokens" in capsys.readouterr().out


def test_a_client_server_is_refused():
    with (
        pytest.raises(StudyError, match="run the command on a machine of the cluster"),
        connected("ray://x:1"),
    ):
        pass


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
def test_a_cluster_that_is_not_there():
    library()
    with pytest.raises(StudyError, match="cannot reach the Ray cluster at nonsense"), connected("nonsense"):
        pass


def test_a_cluster_that_does_not_answer():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(StudyError, match=f"127.0.0.1:{port}: .* check it with ray status"):
            cluster._check_port(f"127.0.0.1:{port}")


def test_a_block_that_kills_every_worker_is_given_up(monkeypatch):
    """Each worker counts the block it begins; the fifth does not begin it."""
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda value: value))
    counter = workers.Attempts()
    handle = SimpleNamespace(begin=SimpleNamespace(remote=counter.begin))
    for _ in range(4):
        workers.count_attempt(handle, 7, ["p1", "p2", "p9"])
    workers.count_attempt(handle, 8, ["p10"])
    with pytest.raises(StudyError, match=r"4 workers died .* 3 texts \(from 'p1' to 'p9'\)"):
        workers.count_attempt(handle, 7, ["p1", "p2", "p9"])


def test_what_a_worker_refuses_comes_back_after_what_it_has_made(study, monkeypatch):
    """The worker itself, without Ray: prompts that it can be given, then one that it cannot."""
    monkeypatch.setattr(workers, "count_attempt", lambda *_: None)
    job = Job(study, ["guard"], POOL)
    lost = Prompt(id="lost", dataset="d", text="\ud800")
    for prompts, texts, says in ((PROMPTS[:2], 2, None), ([lost], 0, "the prompt 'lost': not valid Unicode")):
        block = pa.table({"place": [3], "data": [pickle.dumps([(one, [("guard", 1)]) for one in prompts])]})
        [row] = Worker(job.load, job.texts, str, None)(block).to_pylist()
        assert row["place"] == 3
        assert sum(map(len, pickle.loads(row["data"]))) == texts
        assert (says or "None") in str(row["refused"])


def test_workers_that_cannot_go_on():
    with pytest.raises(StudyError, match="could not go on: the last line; what they made is kept"):
        list(workers.tables(None, POOL, Failing(RuntimeError("a page\nof trace\nthe last line\n"))))


class Failing:
    """A data set that fails at once."""

    def __init__(self, error):
        self._error = error

    def iter_batches(self, **_):
        raise self._error


class Waiting:
    """A data set of which nothing comes until it is let go."""

    def __init__(self):
        self.go = threading.Event()

    def iter_batches(self, **_):
        self.go.wait(30)
        yield "late"


def test_a_lost_machine_is_waited_for_and_then_done_without(monkeypatch):
    """Two workers of one CPU on a machine of one: what was given to one of them would wait for ever."""
    monkeypatch.setattr(workers, "PATIENCE", 0.0)
    monkeypatch.setattr(workers, "_LEAVE", 0.0)
    data = Waiting()
    with pytest.raises(workers.ShrunkError):
        list(workers.tables(cluster_of((1, 0)), POOL, data))
    data.go.set()


def test_what_is_slow_with_all_machines_there_is_waited_for(monkeypatch):
    monkeypatch.setattr(workers, "PATIENCE", 0.0)
    data = Waiting()
    timer = threading.Timer(1.5, data.go.set)
    timer.start()
    assert list(workers.tables(cluster_of((2, 0)), POOL, data)) == ["late"]
    timer.join()


@pytest.mark.usefixtures("_speaking")
def test_those_that_are_left_go_on_and_a_cluster_that_shrinks_to_nothing_is_named(study, monkeypatch, capsys):
    tried = []

    def shrinking(_study, _strategies, _missing_with, _shard, _address, count):
        tried.append(count)
        raise workers.ShrunkError

    monkeypatch.setattr(generate_ray, "_make", shrinking)
    with pytest.raises(StudyError, match="lost its machines before they made a text"):
        generate(study, engine=RAY, workers=3)
    assert tried == [3]
    assert "going on with those that are left" in capsys.readouterr().out


def test_prompts_of_a_chunk_are_about_equally_long(study):
    """A hundred prompts in chunks of 32; what a worker need not know is left out."""
    job = Job(study, ["guard"], POOL)
    assert job.rows == 32
    chunks = list(job.chunks((replace(one, reference="r"), ["guard"]) for one in PROMPTS))
    assert list(map(len, chunks)) == [32, 32, 32, 4]
    lengths = [len(prompt.text) for chunk in chunks for prompt, _ in chunk]
    assert lengths == sorted(lengths, reverse=True)
    assert {prompt.reference for chunk in chunks for prompt, _ in chunk} == {None}


class Store:
    """A stand-in for Ray: what is put is what is got, and `answers` are what workers send back."""

    def __init__(self, monkeypatch, answers):
        self.blocks = []
        monkeypatch.setattr(workers, "start_counter", lambda _: None)
        monkeypatch.setattr(workers, "actors", lambda *_, **__: {})
        monkeypatch.setattr(workers, "tables", lambda *_: answers(self.blocks))
        self.data = SimpleNamespace(from_arrow_refs=lambda _: self, ActorPoolStrategy=None)

    def put(self, block):
        self.blocks.append(block.to_pylist()[0])

    def map_batches(self, *_, **__):
        pass


def answer(place, made, refused=None):
    return pa.table(
        {"place": [place], "data": [pickle.dumps(made)], "refused": pa.array([refused], pa.string())}
    )


def test_chunks_that_come_twice_count_once_and_missing_ones_are_named(monkeypatch):
    """Every chunk comes back twice, the last not at all."""

    def answers(blocks):
        return [answer(b["place"], pickle.loads(b["data"])) for b in [*blocks[:3], *blocks[:3]]]

    ray, came = Store(monkeypatch, answers), []
    with pytest.raises(StudyError, match="1 of 4 parts of the work did not come back"):
        came.extend(workers.spread(ray, POOL, None, None, ["ab", "cd", "ef", "g"], name=str))
    assert came == [(0, ["a", "b"]), (1, ["c", "d"]), (2, ["e", "f"])]


def test_what_waits_is_written_come_what_may(tmp_path, monkeypatch):
    monkeypatch.setattr(generate_ray, "PART_TEXTS", 3)
    (tmp_path / "guard.part-00007.parquet.partial").write_bytes(b"PAR1")
    texts = [made.continuation(f"{n}", Prompt(id=f"p{n}", dataset="d", text="x")) for n in range(5)]

    def interrupted():
        with generate_ray._Parts(tmp_path, Shard()) as parts:
            for one in reversed(texts):
                parts.add([one])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    files = continuation_files(tmp_path, "guard")
    assert [[one.text for one in read_continuations(path)] for path in files] == [["2", "3", "4"], ["0", "1"]]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({}, "revision a and b"),
        ({"revision": "a", "dtype": None}, "revision a and b"),
        ({"revision": "a", "dtype": "bfloat16"}, "revision a and b; dtype bfloat16 and float32"),
    ],
)
def test_several_models_under_one_name_are_refused(study, monkeypatch, known, says):
    """Nothing that another model made is handed out to be kept."""
    recipe = made.recipe(revision="a")
    mine, other = (
        made.continuation(prompt=Prompt(id=f"p{n}", dataset="d", text="x"), made_by=by)
        for n, by in enumerate((recipe, replace(recipe, revision="b")))
    )
    job = Job(study, ["guard"], POOL, known)
    ray = Store(monkeypatch, lambda _: [answer(0, [[mine, other]])])
    batches = write(ray, job, [(PROMPTS[0], ["guard"])])
    assert next(batches) == ([mine] if known.get("dtype") is None else [])
    with pytest.raises(StudyError, match=f"not the same on all machines, but of {says}"):
        next(batches)


def test_nothing_missing_starts_nothing(study, one_machine, monkeypatch):
    (study.folder / "continuations").symlink_to(one_machine.study.continuations)
    monkeypatch.setattr(generate_ray, "_make", None)
    generate(study, engine=RAY)
    assert texts_of(study) == one_machine.texts
