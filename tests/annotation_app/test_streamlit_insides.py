"""What the app relies on in Streamlit beyond its documentation, each by name.

Where a test here fails with a new version, adapt what its message names, run all tests of the app, and raise
the bound in pyproject.toml.
"""

import inspect
import re
import tomllib
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import streamlit as st
from packaging.requirements import Requirement
from streamlit import config
from streamlit.runtime import Runtime
from streamlit.runtime.session_manager import SessionInfo
from streamlit.runtime.websocket_session_manager import WebsocketSessionManager
from websockets import http11

from annotation_app import connections, server
from annotation_app.markup import read_asset

ROOT = Path(__file__).parents[2]
STATIC = Path(st.__file__).with_name("static")


def test_pyproject_allows_the_installed_streamlit_version():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (bound,) = [
        requirement for requirement in map(Requirement, extras["annotate"]) if requirement.name == "streamlit"
    ]
    major, minor = map(int, st.__version__.split(".")[:2])
    assert bound.specifier.contains(st.__version__)
    assert not bound.specifier.contains(f"{major}.{minor + 1}.0")


def test_the_shell_loads_all_scripts_and_styles_of_streamlit():
    """The shell also has one inline script, which a hash allows, and none of Streamlit's inline scripts."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'"(\./static/[^"]+)"', page)
    shell = read_asset("shell.html").replace("{assets}", server._read_streamlit_script_tags())
    assert loaded == re.findall(r'"(\./static/[^"]+)"', shell)
    assert len(re.findall(r"<script[^>]* src=", page)) == len(re.findall(r"<script[^>]* src=", shell)) > 0
    assert re.findall(r"<script>(.*?)</script>", page, re.DOTALL) == [
        "\n      window.prerenderReady = false\n    "
    ]
    assert len(re.findall(r"<script>", shell)) == 1
    assert server.HEADERS["Content-Security-Policy"].count("'sha256-") == 1


def test_streamlit_loads_its_icon_font_by_the_expected_name():
    scripts = "".join(
        path.read_text(encoding="utf-8") for path in (STATIC / "static" / "js").glob("index*.js")
    )
    assert "document.fonts.load(" in scripts
    assert "Material Symbols" in read_asset("shell.html")


def test_only_sessions_of_raters_are_kept():
    """`KeptSessions` replaces the storage in Streamlit's session manager."""
    assert "_session_storage" in inspect.getsource(WebsocketSessionManager)
    assert "_session_mgr" in inspect.getsource(Runtime)
    ended = []
    sessions = connections.KeptSessions()
    for name, state in (("rater", {"visit": 1}), ("stranger", {})):
        session = SimpleNamespace(id=name, session_state=state, shutdown=partial(ended.append, name))
        sessions.save(SessionInfo(client=None, session=session))
    assert (ended, sessions.get("rater").session.id, sessions.get("stranger")) == (
        ["stranger"],
        "rater",
        None,
    )


def test_websockets_library_limits_header_lines():
    assert http11.MAX_LINE_LENGTH > 0
    assert "MAX_LINE_LENGTH" in inspect.getsource(http11.parse_line)


@pytest.mark.parametrize("file", ["page.css", "page.js"])
def test_streamlit_has_the_elements_that_our_styles_name(file):
    scripts = "".join(path.read_text(encoding="utf-8") for path in (STATIC / "static" / "js").glob("*.js"))
    text = (ROOT / "annotation_app" / file).read_text(encoding="utf-8")
    names = set(re.findall(r"\b(?:st[A-Z]\w+|st-key-|data-test-[a-z-]+|CONNECTED)", text))
    assert len(names) >= 3
    assert [name for name in names if name not in scripts] == []


def test_every_server_option_is_known_to_streamlit():
    """Raters may send less than a page may contain: uvicorn and Streamlit limit the messages."""
    for name in server.OPTIONS:
        config.get_option(name)
    assert 1_000_000 * server.OPTIONS["server.maxMessageSize"] > server.INCOMING_BYTES
    # docs/deployment.md names the variable
    assert config._config_options_template["server.cookieSecret"].env_var == "STREAMLIT_SERVER_COOKIE_SECRET"
