"""Starting the server: what is refused, and what stays out of sight."""

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
from guard_eval.study.folder import Study

pytestmark = pytest.mark.slow

SUPPORT = [str(Path(__file__).parents[1] / "support")]


def test_a_taken_port_is_named_with_the_remedy(study):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StudyError, match=rf"port {port} on 127.0.0.1 is taken.*--port {port + 1}"):
            launch.serve(study().folder, port=port)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "port 70000 does not exist"),
        ({"port": 0, "address": "192.0.2.1"}, "192.0.2.1.*use 127.0.0.1"),
        ({"port": 0, "address": "not an address"}, "not an address.*use 127.0.0.1"),
        ({"proxy": "nginx"}, "the proxy 'nginx' is no address"),
    ],
)
def test_a_place_where_nothing_can_listen(study, options, message):
    with pytest.raises(StudyError, match=message):
        launch.serve(study().folder, **options)


def test_a_folder_that_is_no_study(tmp_path):
    with pytest.raises(StudyError, match=r"study\.toml"):
        launch.serve(tmp_path)


@pytest.mark.both_databases
def test_a_study_without_pairs_drawn(study, databases):
    built = study()
    databases.clear(built.database)
    with pytest.raises(StudyError, match="guard-eval pair"):
        launch.serve(built.folder)


def test_without_streamlit_the_extra_is_named(study, monkeypatch):
    built = study()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'guard-eval\[annotate\]'"):
        launch.serve(built.folder)


def test_a_server_that_dies_at_once_is_reported(study, monkeypatch):
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
    assert len(built.stored()) == 2


# What is checked before the server starts.


@pytest.fixture
def ready(study, tmp_path, monkeypatch):
    """Check a study with these lines in its study.toml, at home in an empty folder."""
    built = study(0)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def check(lines):
        path = built.folder / "study.toml"
        before = path.read_text(encoding="utf-8")
        path.write_text(before + lines, encoding="utf-8")
        try:
            launch.check_readiness(Study.open(built.folder))
        finally:
            path.write_text(before, encoding="utf-8")

    return check


@pytest.fixture
def authlib(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: name == "authlib" or real(name, *rest)
    )


def test_an_ordinary_study_is_ready(ready):
    ready("")


def test_wording_is_read_before_a_rater_reads_it(ready):
    with pytest.raises(StudyError, match=r"names 'own.toml', but .*own.toml is missing"):
        ready('wording = "own.toml"\n')


def test_accounts_need_authlib(ready, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_rest: None)
    with pytest.raises(MissingExtraError, match=r"guard-eval\[oidc\]"):
        ready("[annotation.recruitment]\noidc = true\n")


def test_accounts_need_a_provider(ready, authlib, tmp_path):
    with pytest.raises(StudyError) as error:
        ready("[annotation.recruitment]\noidc = true\n")
    assert str(tmp_path / ".streamlit" / "secrets.toml") in str(error.value)
    assert all(key in str(error.value) for key in launch.PROVIDER_KEYS)


def test_all_that_a_provider_lacks_is_named_and_no_secret_is(ready, authlib, tmp_path):
    (tmp_path / ".streamlit").mkdir()
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.write_text('[auth]\nclient_id = "it"\nclient_secret = "hush-hush"\n', encoding="utf-8")
    with pytest.raises(StudyError) as error:
        ready("[annotation.recruitment]\noidc = true\n")
    assert "lacks, in its table [auth]: redirect_uri, cookie_secret, server_metadata_url" in str(error.value)
    assert "hush" not in str(error.value)
    secrets.write_text("[auth]\nclient_secret = hush-hush\n", encoding="utf-8")
    with pytest.raises(StudyError, match="as TOML") as error:
        ready("[annotation.recruitment]\noidc = true\n")
    assert "hush" not in str(error.value)
    secrets.write_text(
        "[auth]\n" + "".join(f'{key} = "x"\n' for key in launch.PROVIDER_KEYS), encoding="utf-8"
    )
    ready("[annotation.recruitment]\noidc = true\n")
