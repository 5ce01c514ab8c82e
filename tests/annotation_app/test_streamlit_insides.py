"""What the app relies on in Streamlit beyond its documentation, each by name.

Where a test here fails with a new version, adapt what its message names, run all tests of the app, and raise
the bound in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

import pytest
import streamlit as st
from packaging.requirements import Requirement
from streamlit import config

from annotation_app import server

ROOT = Path(__file__).parents[2]
STATIC = Path(st.__file__).with_name("static")


def test_pyproject_bounds_streamlit_and_the_installed_one_is_within():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (bound,) = [each for each in map(Requirement, extras["annotate"]) if each.name == "streamlit"]
    major, minor = map(int, st.__version__.split(".")[:2])
    assert bound.specifier.contains(st.__version__)
    assert not bound.specifier.contains(f"{major}.{minor + 1}.0")


def test_the_page_is_a_file_with_scripts_that_can_be_allowed_by_their_hash():
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    inline = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    # Every script is one of these, or a file of the server's own.
    others = re.findall(r'<script[^>]* src="\./', page)
    assert len(re.findall(r"<script\b", page)) == len(inline) + len(others)
    assert server.HEADERS["Content-Security-Policy"].count("'sha256-") == len(inline) > 0


@pytest.mark.parametrize("file", ["page.css", "page.js"])
def test_the_pages_elements_have_the_names_that_styles_and_scripts_look_for(file):
    scripts = "".join(path.read_text(encoding="utf-8") for path in (STATIC / "static" / "js").glob("*.js"))
    text = (ROOT / "annotation_app" / file).read_text(encoding="utf-8")
    names = set(re.findall(r"\b(?:st[A-Z]\w+|st-key-|data-test-[a-z-]+|CONNECTED)", text))
    assert len(names) >= 3
    assert [name for name in names if name not in scripts] == []


def test_every_option_is_one_of_streamlits_and_the_limits_of_messages_differ():
    """uvicorn limits what comes in, and Streamlit what goes out: no rater may send what a page may hold."""
    for name in server.OPTIONS:
        config.get_option(name)
    assert 1_000_000 * server.OPTIONS["server.maxMessageSize"] > server.INCOMING_BYTES
    # docs/deployment.md names the variable
    assert config._config_options_template["server.cookieSecret"].env_var == "STREAMLIT_SERVER_COOKIE_SECRET"
