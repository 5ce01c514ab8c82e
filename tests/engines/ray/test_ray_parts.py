"""What `--engine ray` does before and after Ray: which cluster it uses, what it refuses and writes."""

import socket
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import made
import pytest
from ray_cluster import texts_of

from guard_eval.cli.generate import generate
from guard_eval.cli.generation import ray as generate_ray
from guard_eval.engines.ray import cluster, results, writers
from guard_eval.engines.ray.cluster import Pool, connected, has_room, library, pool_of
from guard_eval.engines.ray.writers import Job, order_of, write
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.records import Prompt
from guard_eval.texts.continuation_parquet import table_of
from guard_eval.texts.continuations import continuation_files, read_continuations
from guard_eval.texts.shards import Shard

pytestmark = pytest.mark.slow

RAY = "ray"
POOL = Pool(workers=2, gpu=False, cpus=1, neighbours=2, nodes=1)


def cluster_of(*nodes):
    """Return a stand-in for Ray that tells of such nodes."""
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
    counter = results.Attempts()
    handle = SimpleNamespace(begin=SimpleNamespace(remote=counter.begin))
    for _ in range(4):
        results.count_attempt(handle, 7, ["p1", "p2", "p9"])
    results.count_attempt(handle, 8, ["p10"])
    with pytest.raises(StudyError, match=r"4 workers died .* 3 texts \(from 'p1' to 'p9'\)"):
        results.count_attempt(handle, 7, ["p1", "p2", "p9"])


def test_what_a_worker_refuses_comes_back_as_it_is(order, monkeypatch):
    """The worker itself, without Ray: more tokens than the model has room for, then as many as it has."""
    job, found = order
    monkeypatch.setattr(writers, "count_attempt", lambda *_: None)
    long = job.study.settings.generation.model_copy(update={"max_new_tokens": 5000})
    settings = job.study.settings.model_copy(update={"generation": long})
    refusing = replace(job, study=replace(job.study, settings=settings))
    [row] = writers.Writer(refusing, None)(found.blocks[0].slice(0, 1)).to_pylist()
    assert "max_new_tokens" in row["refused"]
    assert row["id"] is None
    rows = writers.Writer(job, None)(found.blocks[0].slice(0, 2)).to_pylist()
    assert len(rows) == 3
    assert all(row["refused"] is None and row["text"] for row in rows)


def test_workers_that_cannot_go_on():
    with pytest.raises(StudyError, match="could not go on: the last line; what they made is kept"):
        list(results.tables(None, POOL, Failing(RuntimeError("a page\nof trace\nthe last line\n"))))


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
    monkeypatch.setattr(results, "PATIENCE", 0.0)
    monkeypatch.setattr(results, "_LEAVE", 0.0)
    data = Waiting()
    with pytest.raises(results.ShrunkError):
        list(results.tables(cluster_of((1, 0)), POOL, data))
    data.go.set()


def test_what_is_slow_with_all_machines_there_is_waited_for(monkeypatch):
    monkeypatch.setattr(results, "PATIENCE", 0.0)
    data = Waiting()
    timer = threading.Timer(1.5, data.go.set)
    timer.start()
    assert list(results.tables(cluster_of((2, 0)), POOL, data)) == ["late"]
    timer.join()


@pytest.mark.usefixtures("_speaking")
def test_those_that_are_left_go_on_and_a_cluster_that_shrinks_to_nothing_is_named(study, monkeypatch, capsys):
    asked = []

    def shrinking(_study, missing, _prompts, _shard, _address, workers):
        asked.append((missing.total, workers))
        raise results.ShrunkError

    monkeypatch.setattr(generate_ray, "_make", shrinking)
    with pytest.raises(StudyError, match="lost its machines before they made a text"):
        generate(study, engine=RAY, workers=3)
    assert asked == [(192, 3)]
    assert "going on with those that are left" in capsys.readouterr().out


PROMPTS = [Prompt(id=f"p{n}", dataset="d", text="word " * n) for n in range(1, 101)]


@pytest.fixture
def order(study):
    """A hundred prompts in blocks of 32, of which GUARD has continued the even ones."""
    job = Job.of(study, ["top_k(k=50)", "guard"], POOL)
    pending = [(p, ["top_k(k=50)", "guard"][: 1 + n % 2]) for n, p in enumerate(PROMPTS, start=1)]
    return job, order_of(SimpleNamespace(put=lambda block: block), job, pending)


def test_prompts_of_a_block_are_about_equally_long(order):
    job, found = order
    assert job.rows == 32
    assert found.texts == 150
    lengths = [len(row["text"]) for block in found.blocks for row in block.to_pylist()]
    assert [len(block) for block in found.blocks] == [32, 32, 32, 4]
    assert lengths == sorted(lengths, reverse=True)


def test_texts_that_come_twice_count_once_and_missing_ones_are_told(order, monkeypatch):
    """Stand-ins for Ray and its workers: every block comes back twice, the last not at all."""
    job, found = order

    def answer(block):
        rows = block.to_pylist()
        by = [made.recipe(strategy=name) for name in job.strategies]
        texts = [
            (row["place"], made.continuation("…", Prompt(id=row["id"], dataset="d", text=""), by[number]))
            for row in rows
            for number in row["strategies"]
        ]
        table = writers.table_of([one for _, one in texts], rare=True)
        import pyarrow as pa

        table = table.append_column("place", pa.array([place for place, _ in texts], pa.int64()))
        return table.append_column("refused", pa.nulls(len(texts), pa.string()))

    blocks = [answer(block) for block in found.blocks]
    monkeypatch.setattr(writers, "tables", lambda *_: iter([*blocks[:3], *blocks[:3]]))
    monkeypatch.setattr(writers, "start_counter", lambda _: None)
    data = SimpleNamespace(map_batches=lambda *_, **__: None)
    ray = SimpleNamespace(
        data=SimpleNamespace(from_arrow_refs=lambda _: data, ActorPoolStrategy=lambda **_: None)
    )
    came = []

    def all_of_them():
        for batch in write(ray, job, found):
            came.extend(batch)

    with pytest.raises(StudyError, match="6 texts did not come back"):
        all_of_them()
    assert len(came) == len({(one.recipe.strategy, one.prompt_id) for one in came}) == 144


def test_a_lone_surrogate_is_refused(study):
    job = Job.of(study, ["guard"], POOL)
    with pytest.raises(StudyError, match="no valid Unicode"):
        order_of(
            SimpleNamespace(put=lambda _: None),
            job,
            [(Prompt(id="p", dataset="d", text="\ud800"), ["guard"])],
        )


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
    job = Job.of(study, ["guard"], POOL, known)
    table = table_of([mine, other], rare=True)
    table = table.append_column("place", [[0, 1]]).append_column("refused", [[None, None]])
    monkeypatch.setattr(writers, "start_counter", lambda _: None)
    monkeypatch.setattr(writers, "actors", lambda *_, **__: {})
    monkeypatch.setattr(writers, "tables", lambda *_: [table])
    data = SimpleNamespace(from_arrow_refs=lambda _: SimpleNamespace(map_batches=lambda *_, **__: None))
    batches = writers.write(SimpleNamespace(data=data), job, writers.Order([], bytearray([1, 1])))
    assert next(batches) == ([mine] if known.get("dtype") is None else [])
    with pytest.raises(StudyError, match=f"not the same on all machines, but of {says}"):
        next(batches)


def test_nothing_missing_starts_nothing(study, one_machine, monkeypatch):
    (study.folder / "continuations").symlink_to(one_machine.study.continuations)
    monkeypatch.setattr(generate_ray, "_make", None)
    generate(study, engine=RAY)
    assert texts_of(study) == one_machine.texts
