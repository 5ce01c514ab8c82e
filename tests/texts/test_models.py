"""Which models are here and which would be downloaded: a real server, a closed port, a silent one."""

import json
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from guard_eval.errors import StudyError
from guard_eval.generation.command import generate_texts
from guard_eval.study.folder import Study
from guard_eval.study.system_settings import BUNDLED, locate_model
from guard_eval.texts import models
from guard_eval.texts.models import check_model_name, find_local_and_hub_models, hash_model_folder
from guard_eval.texts.new import new

constants = pytest.importorskip("huggingface_hub.constants")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ANSWERS = {
    "/none/": (404, "RepoNotFound", b"{}"),
    "/gated/": (403, "GatedRepo", b"{}"),
    "/revised/": (404, "RevisionNotFound", b"{}"),
    "/broken/": (503, "", b"{}"),
    "/portal/": (200, "", b"<html>agree</html>"),  # a network's page of terms, in place of the Hub
}


class Hub(BaseHTTPRequestHandler):
    paths: ClassVar[list[str]] = []

    def do_GET(self):
        Hub.paths.append(self.path)
        model = json.dumps({"id": "x", "siblings": []}).encode()
        answers = (answer for fragment, answer in ANSWERS.items() if fragment in self.path)
        status, code, data = next(answers, (200, "", model))
        self.send_response(status)
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
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(models, "TIMEOUT_SECONDS", 5.0)
    Hub.paths = []
    return tmp_path / "cache"


@pytest.fixture
def hub(monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()


@pytest.fixture
def closed_port(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        yield


@pytest.fixture
def silent_hub(monkeypatch):
    monkeypatch.setattr(models, "TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield


def lay_into(cache, name, model=None, *, weights=True):
    folder = cache / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    (snapshot / "config.json").write_text("{}")
    if model:
        shutil.copytree(model, snapshot, dirs_exist_ok=True)
    if weights:
        (snapshot / "more.safetensors").write_bytes(b"x")


def find(*names, revision="main"):
    return find_local_and_hub_models({name: (name, revision) for name in names})


def test_models_to_download_are_named(hub, cache):
    lay_into(cache, "here/model")
    lay_into(cache, "half/model", weights=False)  # an interrupted download
    result = find("here/model", "far/model", "half/model")
    assert result.availability_lines == [
        "here/model is on this machine",
        "far/model would be downloaded from the Hugging Face Hub",
        "half/model would be downloaded from the Hugging Face Hub",
    ]
    assert result.problem == ""


def test_first_model_that_the_hub_refuses_is_named(hub):
    for name in ("none/x", "gated/y", "revised/w"):
        result = find(name, "far/z")
        assert f"cannot get {name} from the Hugging Face Hub (4" in result.problem  # what the Hub said
        assert f"Not on this machine: {name}, far/z." in result.problem
        assert (result.reachable, result.missing) == (True, [name, "far/z"])


@pytest.mark.parametrize("name", ["broken/x", "portal/x"])
def test_answers_that_are_not_from_the_hub_are_ignored(hub, name):
    assert f"Not on this machine: {name}" in find(name).problem
    assert not find(name).reachable


def test_unreachable_hub_error_names_all_missing_models(cache, closed_port):
    lay_into(cache, "here/model")
    problem = find("here/model", "far/one", "far/two").problem
    assert "cannot get far/one" in problem
    assert "Not on this machine: far/one, far/two." in problem


def test_search_for_models_waits_only_once_for_a_silent_hub(silent_hub):
    result = find("far/one", "far/two")
    assert not result.reachable
    assert result.missing == ["far/one", "far/two"]


@pytest.mark.timeout(60)
def test_dry_run_does_not_wait_for_a_silent_hub(silent_hub, cache, tmp_path):
    """Without `offline`, transformers' tokenizer would try each of its files again and again."""
    lay_into(cache, "here/model", locate_model(BUNDLED, tmp_path))
    new(tmp_path / "s", model="here/model")
    lines = generate_texts(Study.open(tmp_path / "s"), strategy=["greedy"], dry_run=True).lines
    assert "here/model is on this machine" in lines


def test_offline_mode_ends_with_its_context(closed_port):
    with find("far/one").skip_unreachable_hub():
        assert constants.HF_HUB_OFFLINE
        assert "offline mode is enabled" in find("far/one").problem
    assert not constants.HF_HUB_OFFLINE


def test_hub_is_not_asked_about_fixed_commits(hub, cache, tmp_path):
    lay_into(cache, "here/model")
    find_local_and_hub_models({"here/model": ("here/model", COMMIT), "folder": (str(tmp_path), "main")})
    assert Hub.paths == []


def test_impossible_model_names_are_refused(tmp_path):
    with pytest.raises(StudyError, match="the model's name is empty; give"):
        check_model_name("", "")
    for name in ("a b", "a/b/c", "a/../b", "-/-/-", "ä/b"):
        with pytest.raises(StudyError, match=r"a Hugging Face id is OWNER/NAME"):
            check_model_name(name, name)
    with pytest.raises(StudyError, match="there is no folder"):
        check_model_name("./x", str(tmp_path / "x"))
    check_model_name("./x", str(tmp_path))
    check_model_name("gpt2", "gpt2")


def test_model_hash_covers_weights_in_subfolders(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "weights").mkdir()
    index = {"weight_map": {"a": "weights/first.safetensors", "b": "weights/second.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "weights" / "first.safetensors").write_bytes(b"1")
    (tmp_path / "weights" / "second.safetensors").write_bytes(b"2")
    before = hash_model_folder(tmp_path)
    (tmp_path / "weights" / "second.safetensors").write_bytes(b"3")
    assert hash_model_folder(tmp_path) != before


def test_model_hash_covers_weights_named_by_the_settings(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"transformers_weights": "other/model.safetensors"}))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.safetensors").write_bytes(b"1")
    before = hash_model_folder(tmp_path)
    (tmp_path / "other" / "model.safetensors").write_bytes(b"2")
    assert hash_model_folder(tmp_path) != before


@pytest.mark.parametrize("name", ["../model.safetensors", "/tmp/model.safetensors", "a/../../b.safetensors"])
def test_weights_outside_the_folder_are_refused(tmp_path, name):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(StudyError, match="outside its folder; put the whole model into one folder"):
        hash_model_folder(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({"transformers_weights": name}))
    with pytest.raises(StudyError, match="outside its folder"):
        hash_model_folder(tmp_path)
