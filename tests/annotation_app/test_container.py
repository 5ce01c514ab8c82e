"""The container image, the compose file and the proxy before it: their parts, without a builder."""

import fnmatch
import inspect
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from annotation_app.annotate import annotate

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def steps():
    """The instructions of the Dockerfile with their arguments."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def is_sent_to_builder(path):
    """Return whether a file is sent to the builder. The last matching pattern decides."""
    sent, parts = True, path.split("/")
    prefixes = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        names = parts if "**/" in line else prefixes
        if line and not line.startswith("#") and any(fnmatch.fnmatch(name, pattern) for name in names):
            sent = line.startswith("!")
    return sent


def test_only_the_proxy_opens_a_port_and_data_are_kept(compose):
    services = compose["services"]
    assert set(services) == {"app", "db", "proxy", "judge"}
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert compose["networks"]["inside"]["internal"] is True
    outside = {name for name, service in services.items() if "outside" in service["networks"]}
    assert outside == {"proxy", "judge"}
    assert services["judge"]["profiles"] == ["judge"]  # started by hand alone
    assert {service["restart"] for name, service in services.items() if name != "judge"} == {"unless-stopped"}
    assert services["db"]["volumes"] == ["database:/var/lib/postgresql/data"]
    assert "=off" not in services["db"]["command"]


def test_secret_files_are_in_no_image_and_no_commit(compose, steps):
    assert compose["secrets"] == {
        name: {"file": f"secrets/{name}"} for name in ("db_password", "cookie_secret", "openai_api_key")
    }
    users = [
        name
        for name, service in compose["services"].items()
        if "openai_api_key" in service.get("secrets", ())
    ]
    assert users == ["judge"]
    settings = [service.get("environment", {}) for service in compose["services"].values()]
    assert {name for table in settings for name in table if "PASS" in name} == {"POSTGRES_PASSWORD_FILE"}
    assert not [step for step in steps if step[0] in {"ARG", "ENV"} and re.search("PASS|SECRET|KEY", step[1])]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"deploy/.env", "deploy/secrets/"} <= set(ignored)
    for path in ("deploy/secrets/db_password", "deploy/.env", ".git/config", "my-study/study.db", ".env"):
        assert not is_sent_to_builder(path)


def test_the_image_contains_all_packages_and_build_files(steps):
    sources = [
        name
        for step, arguments in steps
        if step == "COPY"
        for name in arguments.split()[:-1]
        if "--" not in name
    ]
    assert [name for name in sources if not ((ROOT / name).exists() and is_sent_to_builder(name))] == []
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {name.removesuffix("*") for name in packages} <= set(sources)


def test_annotate_options_in_the_image_exist(compose, steps):
    started = yaml.safe_load(dict(steps)["CMD"])
    options = {f"--{name}" for name in inspect.signature(annotate).parameters}
    for command in (started, compose["services"]["app"]["command"]):
        assert command[:2] == ["annotate", "/study"]
        assert set(command[2::2]) <= options
    assert dict(steps)["EXPOSE"] == started[started.index("--port") + 1]


def test_secrets_are_passed_only_to_annotate(tmp_path):
    program, secrets = tmp_path / "guard-eval", tmp_path / "secrets"
    program.write_text('#!/bin/sh\necho "$PGPASSWORD|$STREAMLIT_SERVER_COOKIE_SECRET|$OPENAI_API_KEY|$*"\n')
    program.chmod(0o755)

    def start(**settings):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SECRETS": str(secrets), **settings}
        command = ["sh", DEPLOY / "start.sh", "annotate", "/a study"]
        return subprocess.check_output(command, env=environment, text=True).strip()

    assert start() == "|||annotate /a study"
    secrets.mkdir()
    (secrets / "db_password").write_text("a $(b) 'c'\n")
    (secrets / "cookie_secret").write_text("long")
    (secrets / "openai_api_key").write_text("sk-1\n")
    assert start() == "a $(b) 'c'|long|sk-1|annotate /a study"
    assert start(PGPASSWORD="mine") == "mine|long|sk-1|annotate /a study"


def test_the_proxy_logs_no_invite_and_hides_the_health_page():
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    logged = (r"request>uri regexp \?.* ?…", "request>headers delete")
    assert [words for words in (*logged, "respond /health 404") if words not in text] == []
    assert text.count("log {") == 1  # no log of every visit
