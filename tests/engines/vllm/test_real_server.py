"""`vllm serve` as anybody starts it: the plugin is found because the package is installed.

Needs vLLM, which has an environment of its own: `make test-vllm`.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM has an environment of its own: make test-vllm")

from guard_eval.engines.generation import generate
from guard_eval.engines.loading import load
from guard_eval.records import Prompt
from guard_eval.strategies import parse
from guard_eval.study.folder import locate_model

pytestmark = pytest.mark.slow

MODEL = locate_model("bundled", Path())
PROMPT = "Tom had a red ball. He liked to play with it all day. His mom said"
NEW = 60
STARTUP = 280
VLLM = """
import importlib.metadata as metadata

original = metadata.version

def version(name):
    try:
        return original(name)
    except metadata.PackageNotFoundError:  # the build for CPUs has a name that its own command does not know
        return original(f"{name}-cpu") + "+cpu"

metadata.version = version

from vllm.entrypoints.cli.main import main

main()
"""
"""The command `vllm`."""


def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


def start(log: Path) -> tuple[subprocess.Popen, str] | None:
    """Return a server that answers and its address; None if another program took its port meanwhile."""
    port = free_port()
    command = [sys.executable, "-c", VLLM, "serve", MODEL, "--served-model-name", "bundled"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", "256"]
    command += ["--enforce-eager", "--no-async-scheduling"]
    environment = {
        **{name: value for name, value in os.environ.items() if name != "VLLM_ENABLE_V1_MULTIPROCESSING"},
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
    until, address = time.monotonic() + STARTUP, f"http://127.0.0.1:{port}"
    while not answers(address) or process.poll() is not None:
        if process.poll() is not None and "Address already in use" in log.read_text():
            return None
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            pytest.fail(log.read_text()[-3000:])
        time.sleep(0.5)
    return process, address


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("vllm") / "log.txt"
    process, address = next(filter(None, (start(log) for _ in range(3))))
    yield address
    process.terminate()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def complete(address: str, **changes) -> dict:
    body = {"model": "bundled", "prompt": PROMPT, "max_tokens": NEW, "temperature": 0, **changes}
    request = urllib.request.Request(
        f"{address}/v1/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.timeout(400)
def test_a_served_model_writes_by_the_strategy_that_a_request_names(server):
    assert any(point.name == "guard_eval" for point in entry_points(group="vllm.logits_processors"))
    loaded = load(MODEL, name="bundled")
    prompt = Prompt(id="p1", dataset="d", text=PROMPT)
    texts = {}
    for name in ["greedy", "guard", "guard(formulation=released)", "top_p(p=0.9)"]:
        (batch,) = generate(
            loaded, [prompt], parse(name), seed=7, max_new_tokens=NEW, max_prompt_tokens=64, batch_size=1
        )
        texts[name] = batch[0].text
    assert complete(server)["choices"][0]["text"] == texts["greedy"]  # nothing is asked of the plugin
    for name, text in texts.items():
        extra = {"guard_eval": name, "guard_eval_seed": 7, "guard_eval_prompt_id": "p1"}
        assert complete(server, vllm_xargs=extra)["choices"][0]["text"] == text
        warm = complete(
            server, vllm_xargs=extra, temperature=1.3, top_p=0.5
        )  # the strategy's token is all there is
        assert warm["choices"][0]["text"] == text
    assert len(set(texts.values())) == len(texts)

    with pytest.raises(urllib.error.HTTPError) as refused:
        complete(server, vllm_xargs={"guard_eval": "gaurd"})
    assert refused.value.code == 400
    assert "did you mean 'guard'" in refused.value.read().decode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        complete(server, vllm_xargs={"guard_eval": "guard"}, presence_penalty=1.0)
    assert "presence_penalty = 1" in refused.value.read().decode()
    assert complete(server)["choices"][0]["text"] == texts["greedy"]  # it is well
