"""Starting the server: what is refused, and what stays out of sight."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from annotation_app.server import launch
from guard_eval.errors import MissingExtraError, StudyError

pytestmark = pytest.mark.slow

SUPPORT = [str(Path(__file__).parents[1] / "support")]


def test_a_taken_port_is_named_with_the_remedy(study):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StudyError, match=rf"port {port} on 127.0.0.1 is taken.*--port {port + 1}"):
            launch.serve(study().folder, port=port)


def test_a_port_that_does_not_exist(study):
    with pytest.raises(StudyError, match="port 70000 does not exist"):
        launch.serve(study().folder, port=70000)


@pytest.mark.parametrize("address", ["192.0.2.1", "not an address"])
def test_an_address_that_is_not_here(study, address: str):
    with pytest.raises(StudyError, match=f"{address}.*use 127.0.0.1"):
        launch.serve(study().folder, port=0, address=address)


def test_a_folder_that_is_no_study(tmp_path: Path):
    with pytest.raises(StudyError, match=r"study\.toml"):
        launch.serve(tmp_path)


@pytest.mark.both_databases
def test_a_study_without_pairs_drawn(study, databases):
    built = study()
    databases.clear(built.database)
    with pytest.raises(StudyError, match="guard-eval pair"):
        launch.serve(built.folder)


def test_without_streamlit_the_extra_is_named(study, monkeypatch: pytest.MonkeyPatch):
    built = study()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'guard-eval\[annotate\]'"):
        launch.serve(built.folder)


def test_a_server_that_dies_at_once_is_reported(study, monkeypatch: pytest.MonkeyPatch):
    built = study()
    monkeypatch.setattr(
        launch, "_command", lambda *_args, **_named: [sys.executable, "-c", "raise SystemExit(7)"]
    )
    with pytest.raises(StudyError, match=r"stopped at once \(code 7\)"):
        launch.serve(built.folder, port=0)


def test_the_command_line_does_not_name_the_study(study):
    built = study()
    command = " ".join(launch._command(8501, "127.0.0.1", headless=True))
    assert str(built.folder) not in command
    assert launch._environment(built.folder)[launch.STUDY_VARIABLE] == str(built.folder)


def test_every_option_is_one_of_streamlits():
    """`streamlit run` stops at an option it does not know."""
    from streamlit import config

    for name in launch.OPTIONS:
        config.get_option(name)


def test_a_raters_process_imports_nothing_heavy(study):
    """The page is run to a saved verdict in a fresh process; what is loaded then is what a server holds."""
    built = study()
    code = f"""
import json, sys
import annotation_app.server.application
from app_pages import press, rate, visit
page = rate(press(visit({built.tokens["ann"]!r}), "start"), "A", "A")
assert not page.exception
heavy = ["torch", "transformers", "scipy", "statsmodels", "pandas", "matplotlib", "analysis", "judge"]
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={
            **os.environ,
            launch.STUDY_VARIABLE: str(built.folder),
            "PYTHONPATH": os.pathsep.join((*SUPPORT, os.environ.get("PYTHONPATH", ""))),
        },
    )
    assert json.loads(done.stdout.splitlines()[-1]) == []
    with built.open() as store:
        assert len(store.tidy()) == 2
