"""A real server with a real model: `transformers serve` and the bundled model, whose verdicts are noise."""

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

import guard_eval.demo
from guard_eval.store import requests

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("fastapi") is None or find_spec("uvicorn") is None or find_spec("torch") is None,
        reason="`transformers serve` needs pip install 'transformers[serving]'",
    ),
]

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Serve the bundled model, with a chat template, and return URL and model."""
    folder = tmp_path_factory.mktemp("served") / "model"
    shutil.copytree(Path(guard_eval.demo.__file__).parent / "model", folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": TEMPLATE}))
    program = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder)]
    if not Path(program[0]).exists():
        program[:1] = [sys.executable, "-m", "transformers.cli.transformers"]
    log = folder.parent / "log"
    for _ in range(3):  # another program may take the port between the two lines
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = ["--port", str(port), "--host", "127.0.0.1", "--device", "cpu"]
        with log.open("wb") as written:
            process = subprocess.Popen([*program, *options], stdout=written, stderr=written)
        while process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
                continue
            yield f"http://127.0.0.1:{port}/v1", str(folder)
            process.terminate()
            process.wait(timeout=60)
            return
        if b"address already in use" not in log.read_bytes().lower():
            break
    pytest.fail(log.read_text())


def test_every_request_gets_a_verdict_or_a_failure_that_says_why(run, store, pairs, served):
    url, model = served
    pairs(1)
    ledger = run(
        model=model,
        base_url=url,
        api_key_env=None,
        name="small",
        max_output_tokens=64,
        concurrency=1,
        timeout=300.0,
    )
    assert ledger.verdicts + ledger.failures.total() == 2
    kinds = {kind for kind, _ in ledger.failures}
    assert kinds <= {"truncated", "unparseable", "wrong_schema", "too_long"}
    with store.read() as db:
        failures, (spent,) = requests.read_failures(db), requests.read_spending(db)
    assert spent.answers > spent.unmetered == 0
    assert {kind for kind, _ in failures.values()} == kinds
    assert all(detail for _, detail in failures.values())
