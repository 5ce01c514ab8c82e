"""Which models are here and which would be downloaded: a real server, a closed port, a silent one."""

import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from guard_eval.errors import StudyError
from guard_eval.texts import model_hub
from guard_eval.texts.model_hub import check_name, find_models

constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SIZES = {
    "config.json": 1_000_000,
    "tokenizer.json": 2_000_000,
    "model.safetensors": 500_000_000,
    "pytorch_model.bin": 510_000_000,  # the same weights in the old format: not read
    "onnx/model.onnx": 700_000_000,
    "README.md": 9_000_000,
}


class Hub(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self):
        Hub.asked.append(self.path)
        status, body, code = 200, {"id": "x", "siblings": []}, None
        if "/none/" in self.path:
            status, code = 404, "RepoNotFound"
        elif "/gated/" in self.path:
            status, code = 403, "GatedRepo"
        elif "/broken/" in self.path:
            status, code = 503, None
        elif "/portal/" in self.path:  # a network's page of terms, in place of the Hub
            body = None
        else:
            body["siblings"] = [{"rfilename": name, "size": size} for name, size in SIZES.items()]
        data = b"<html>agree</html>" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(model_hub, "SECONDS", 5.0)
    Hub.asked = []
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()


def lay_into(cache, name, *, weights=True):
    folder = cache / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (snapshot / "config.json").write_text("{}")
    if weights:
        (snapshot / "model.safetensors").write_bytes(b"x" * 3_000_000)


def models(*names, revision="main"):
    return {name: (name, revision) for name in names}


def test_what_would_be_downloaded_is_named_with_its_size(hub, cache):
    lay_into(cache, "here/model")
    lay_into(cache, "half/model", weights=False)  # an interrupted download
    result = find_models(models("here/model", "far/model", "half/model"))
    assert result.cached == {"here/model": 3_000_002}
    # config, tokenizer and the first kind of weights
    assert result.missing == {"far/model": 503_000_000, "half/model": 503_000_000}
    assert result.lines()[:2] == [
        "here/model is on this machine (3 MB)",
        "far/model is not on this machine; it would be downloaded from the Hugging Face Hub (503 MB)",
    ]
    assert result.problem() is None


def test_what_the_hub_refuses_is_named_with_the_reason(hub):
    result = find_models(models("none/x", "gated/y", "far/z"))
    assert set(result.refused) == {"none/x", "gated/y"}
    assert result.missing == {"far/z": 503_000_000}
    assert "none/x: there is no such model, or it is private" in result.problem()
    assert "gated/y: its owner must grant access" in result.problem()


@pytest.mark.parametrize("name", ["broken/x", "portal/x"])
def test_an_answer_that_is_none_of_the_hubs_is_no_answer(hub, name):
    result = find_models(models(name))
    assert result.unreachable
    assert f"Not on this machine: {name}" in result.problem()


def test_a_closed_port_names_all_missing_models_at_once(cache, monkeypatch):
    lay_into(cache, "here/model")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        result = find_models(models("here/model", "far/one", "far/two"))
    assert "cannot be reached" in result.problem()
    assert "Not on this machine: far/one, far/two." in result.problem()


def test_a_server_that_never_answers_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(model_hub, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as black_hole:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{black_hole.getsockname()[1]}")
        result = find_models(models("far/one", "far/two"))
    assert result.unreachable
    assert list(result.missing) == ["far/one", "far/two"]


def test_offline_lasts_as_long_as_the_work(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        result = find_models(models("far/one"))
    with result.offline():
        assert constants.HF_HUB_OFFLINE
        assert os.environ["HF_HUB_OFFLINE"] == "1"
        assert find_models(models("far/one")).unreachable == "HF_HUB_OFFLINE is set"
    assert not constants.HF_HUB_OFFLINE
    assert "HF_HUB_OFFLINE" not in os.environ


def test_nothing_is_asked_of_what_is_here_for_good(hub, cache, tmp_path):
    lay_into(cache, "here/model")
    find_models({**models("here/model", revision=COMMIT), "folder": (str(tmp_path), "main")})
    assert Hub.asked == []


def test_an_empty_name():
    with pytest.raises(StudyError, match="the model '' has no name; write a Hugging Face id"):
        check_name("", "")


@pytest.mark.parametrize("name", ["a b", "a/b/c", "a/../b", "-/-/-", "ä/b"])
def test_names_that_are_no_ids(name):
    with pytest.raises(StudyError, match=r"a Hugging Face id is OWNER/NAME"):
        check_name(name, name)


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(StudyError, match="there is no folder"):
        check_name("./x", str(tmp_path / "x"))
    check_name("./x", str(tmp_path))
    check_name("gpt2", "gpt2")
