"""What is looked at before the server starts."""

from __future__ import annotations

import importlib.util

import pytest

from annotation_app.server import launch
from annotation_app.server.launch import PROVIDER_KEYS
from guard_eval.errors import MissingExtraError, StudyError
from guard_eval.study.folder import Study


@pytest.fixture
def look(study, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Check a study with these lines in its study.toml, at home in an empty folder."""
    built = study(0)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def check(lines: str) -> None:
        path = built.folder / "study.toml"
        before = path.read_text(encoding="utf-8")
        path.write_text(before + lines, encoding="utf-8")
        try:
            launch.check_readiness(Study.open(built.folder))
        finally:
            path.write_text(before, encoding="utf-8")

    return check


@pytest.fixture
def authlib(monkeypatch: pytest.MonkeyPatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: "there" if name == "authlib" else real(name, *rest)
    )


def test_an_ordinary_study_is_ready(look):
    look("")


def test_wording_is_read_before_a_rater_reads_it(look):
    with pytest.raises(StudyError, match=r"names 'own.toml', but .*own.toml is missing"):
        look('wording = "own.toml"\n')


def test_accounts_need_authlib(look, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_rest: None)
    with pytest.raises(MissingExtraError, match=r"guard-eval\[oidc\]"):
        look("[annotation.recruitment]\noidc = true\n")


def test_accounts_need_a_provider(look, authlib, tmp_path):
    with pytest.raises(StudyError) as error:
        look("[annotation.recruitment]\noidc = true\n")
    assert str(tmp_path / ".streamlit" / "secrets.toml") in str(error.value)
    assert all(key in str(error.value) for key in PROVIDER_KEYS)


def test_all_that_a_provider_lacks_is_named_and_no_secret_is(look, authlib, tmp_path):
    (tmp_path / ".streamlit").mkdir()
    secrets = tmp_path / ".streamlit" / "secrets.toml"
    secrets.write_text(
        '[auth]\nclient_id = "it"\nclient_secret = "clear_messages-clear_messages"\n', encoding="utf-8"
    )
    with pytest.raises(StudyError) as error:
        look("[annotation.recruitment]\noidc = true\n")
    assert "lacks, in its table [auth]: redirect_uri, cookie_secret, server_metadata_url" in str(error.value)
    assert "clear_messages" not in str(error.value)
    secrets.write_text("[auth]\nclient_secret = clear_messages-clear_messages\n", encoding="utf-8")
    with pytest.raises(StudyError, match="as TOML") as error:
        look("[annotation.recruitment]\noidc = true\n")
    assert "clear_messages" not in str(error.value)
    secrets.write_text("[auth]\n" + "".join(f'{key} = "x"\n' for key in PROVIDER_KEYS), encoding="utf-8")
    look("[annotation.recruitment]\noidc = true\n")
