"""Generation at the command line: in parts, in time, traced, interrupted at its worst; nothing made twice."""

import json
import math
import signal
import statistics
import subprocess
import time

import pytest
from command_line import make_command, make_environment
from factories import edit_settings, text_file
from read_files import read_json_lines

from guard_eval.texts.continuations import Shard, reserve_shard

pytestmark = pytest.mark.slow


def rows(folder, pattern="*.jsonl"):
    """Return the lines of a study's continuation files, by file; every line must be whole."""
    result = {}
    for path in sorted((folder / "continuations").glob(f"*/{pattern}")):
        data = path.read_bytes()
        assert not data or data.endswith(b"\n")
        result[path.name] = [json.loads(line) for line in data.splitlines()]
    return result


def texts(files):
    return {(row["strategy"], row["prompt_id"]): row["text"] for lines in files.values() for row in lines}


RATES, DEVIATIONS = ("r_change", "r_difference", "q"), ("delta_loc", "delta_glob", "lambda_k")


def symbols_of(h: list[float], h_glob: float, t: int) -> dict[str, float]:
    """Return what eq:rchange to eq:lanbda make of the entropies up to step t = 0, 1, …; w = 7, |V| = 4096."""
    window, before = (h[max(0, t - 7) : t], h[t - 1]) if t else ([h[0]], h[0])
    median = statistics.median(window)
    h_glob = h_glob if t else h[0]
    change, difference = abs(h[t] - before) / (before + 1e-6), abs(median - h_glob) / (median + 1e-6)
    q = 1 + change + difference
    local = q * math.atanh((h[t] - median) / math.log(4096))
    total = q * math.atanh((median - h_glob) / math.log(4096))
    weight = abs(local) / (abs(local) + abs(total) + 1e-6)
    names = (*RATES, *DEVIATIONS)
    return dict(zip(names, (change, difference, q, local, total, weight), strict=True))


TWO = ("--strategy", "guard", "--strategy", "greedy")


def test_shards_write_the_texts_of_a_single_run(run, study, paired_once):
    """Two shards of two strategies, then one run over the rest."""
    for shard in ("1/2", "2/2"):
        ran = run("generate", "small", "--shard", shard, *TWO)
        assert ran.code == 0, ran
    parts = rows(study)
    assert sorted(parts) == [f"{name}.shard-{n}-of-2.jsonl" for name in ("greedy", "guard") for n in (1, 2)]
    assert all(Shard(1, 2).contains(row["prompt_id"]) for row in parts["greedy.shard-1-of-2.jsonl"])
    assert sum(map(len, parts.values())) == 12
    assert "greedy: 6 of 6 continuations exist" in run("generate", "small", *TWO).out
    assert rows(study) == parts
    assert texts(parts) == texts(rows(paired_once, "g*.jsonl"))


def test_generate_refuses_to_run_twice_at_once(run, study):
    with reserve_shard(study / "continuations", Shard()):
        message = run("generate", "small").refused()
        assert "another guard-eval generate is writing these" in message
        assert "--shard i/n" in message
        assert "would make 24" in run("generate", "small", "--dry-run").out


def test_killed_generate_keeps_whole_texts(run, study):
    edit_settings(study, "batch_size = 4", "batch_size = 1")
    edit_settings(study, "max_new_tokens = 12", "max_new_tokens = 50")
    process = subprocess.Popen(
        make_command("generate", "small", "--strategy", "guard"),
        cwd=study.parent,
        env=make_environment(),
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while not any(rows(study).values()) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    path = text_file(study, "guard")
    with path.open("ab") as file:  # what a crash of the machine could add
        file.write(b'{"id": "torn')
    whole = [json.loads(line) for line in path.read_bytes().splitlines()[:-1]]
    assert 1 <= len(whole) < 6
    second = run("generate", "small", "--strategy", "guard")
    assert second.code == 0, second
    assert "guard: 6 of 6 continuations exist" in second.out
    lines = rows(study)["guard.jsonl"]
    assert lines[: len(whole)] == whole
    assert len({row["id"] for row in lines}) == len(lines) == 6


def test_trace_of_guard_follows_the_equations(run, study):
    ran = run("generate", "small", "--trace", *TWO)
    assert ran.code == 0, ran
    files = rows(study)
    assert sorted(files) == ["greedy.jsonl", "guard.jsonl", "guard.trace.jsonl"]
    traces = {row["id"]: row for row in files["guard.trace.jsonl"]}
    assert len(traces) == 6
    for text in files["guard.jsonl"]:
        trace = traces[text["id"]]
        assert trace["prompt_id"] == text["prompt_id"]
        symbols = set(trace) - {"id", "prompt_id"}
        assert symbols == {"H", "H_glob", "k", "alpha", *RATES, *DEVIATIONS}
        assert {len(trace[name]) for name in symbols} == {text["new_tokens"]}
        for t in range(text["new_tokens"]):
            assert symbols_of(trace["H"], trace["H_glob"][t], t) == pytest.approx(
                {name: trace[name][t] for name in (*RATES, *DEVIATIONS)}, rel=1e-4, abs=1e-6
            )
    assert "nothing is traced" in run("generate", "small", "--trace", *TWO).out


def test_a_dry_run_estimates_time_from_existing_texts(run, paired):
    """One greedy text took 14 s, the twelve others no time: 11 times 14/13 s, so 12 s."""
    folder = text_file(paired, "greedy").parent
    lines = read_json_lines(folder / "greedy.jsonl")
    (folder / "greedy.jsonl").write_text(json.dumps({**lines[0], "seconds": 14.0}) + "\n")
    for name in ("top_k(k=50)", "acs(q=1)"):
        path = folder / f"{name}.jsonl"
        rows = read_json_lines(path)
        path.write_text("".join(json.dumps({**row, "seconds": 0.0}) + "\n" for row in rows))
    (folder / "guard.jsonl").unlink()
    dry = run("generate", "small", "--dry-run").out
    assert "would make 11 continuations of at most 132 tokens with bundled" in dry
    assert "estimated time: 0:00:12, from the mean time of the existing texts" in dry
